"""Readers of tables in Delta and Iceberg that know nothing of this project.

Each gives the values of a row as texts, which are the same for all readers: the days of a date, the
microseconds of a timestamp, and the hexadecimal digits of a binary value.

``python -m support.plain_reader CONTENTS ROWS`` reads the tables of the file CONTENTS with a Spark
without the project's JAR, and writes their rows to the file ROWS.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import tempfile
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypedDict

from support import lake

Rows = list[tuple[str | None, ...]]


class Content(TypedDict):
    """A table, and the rows that it must have.

    Attributes
    ----------
    seed : int
        The seed of its history.
    format : str
        ``delta`` or ``iceberg``.
    path : str
        Its folder.
    columns : list[tuple[str, str]]
        The names of its columns, and their types in SQL.
    rows : list[list[str | None]]
        Its rows.
    """

    seed: int
    format: str
    path: str
    columns: list[tuple[str, str]]
    rows: list[list[str | None]]


def plain(content: Content, rows: Sequence[Sequence[str | None]]) -> Rows:
    """Return sorted rows, in which equal values have the same text."""
    types = [kind for _, kind in content["columns"]]
    texts = [tuple(map(_plain, types, row)) for row in rows]
    return sorted(texts, key=lambda row: [(text is not None, text or "") for text in row])


def _plain(kind: str, text: str | None) -> str | None:
    if text is None:
        return None
    if kind == "FLOAT":
        return repr(struct.unpack("f", struct.pack("f", float(text)))[0])
    if kind == "DOUBLE":
        return repr(float(text))
    if kind.startswith("DECIMAL"):
        return str(Decimal(text))
    return (
        text.removeprefix("\\x")
        if kind == "BINARY"
        else text.lower()
        if kind == "BOOLEAN"
        else text
    )


def by_spark(contents: Sequence[Content]) -> list[list[list[str | None]]]:
    """Read tables with a new session of Spark in this process."""
    from pyspark.sql import SparkSession

    values = {
        "DATE": "unix_date({0})",
        "TIMESTAMP": "unix_micros({0})",
        "TIMESTAMP_NTZ": "unix_micros(CAST({0} AS TIMESTAMP))",
        "BINARY": "lower(hex({0}))",
    }
    builder = SparkSession.builder.master("local[1]").config("spark.sql.session.timeZone", "UTC")
    for name, value in lake.settings(Path(tempfile.mkdtemp()), lake.DELTA).items():
        builder = builder.config(name, value)
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()

    def read(content: Content) -> list[list[str | None]]:
        columns = [
            f"CAST({values.get(kind, '{0}').format(f'`{name}`')} AS STRING)"
            for name, kind in content["columns"]
        ]
        table = spark.read.format(content["format"]).load(content["path"])
        return [list(row) for row in table.selectExpr(*columns).collect()]

    return [read(content) for content in contents]


def by_duckdb(connection: Any, content: Content) -> list[list[str | None]]:  # noqa: ANN401
    """Read a table with a connection of DuckDB."""
    values = {
        "DATE": "{0} - DATE '1970-01-01'",
        "TIMESTAMP": "epoch_us({0})",
        "TIMESTAMP_NTZ": "epoch_us({0})",
        "BINARY": "lower(hex({0}))",
    }
    folder = Path(content["path"])
    source = f"delta_scan('{folder}')"
    if content["format"] == "iceberg":
        source = f"iceberg_scan('{newest_metadata(folder)}')"
    columns = ", ".join(
        f"CAST({values.get(kind, '{0}').format(chr(34) + name + chr(34))} AS VARCHAR)"
        for name, kind in content["columns"]
    )
    return [list(row) for row in connection.execute(f"SELECT {columns} FROM {source}").fetchall()]


def newest_metadata(folder: Path) -> Path:
    """Return the file of metadata of the newest version of an Iceberg table."""
    files = (folder / "metadata").glob("v*.metadata.json")
    return max(files, key=lambda file: int(re.findall(r"\d+", file.name)[0]))


if __name__ == "__main__":
    found = by_spark(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2]).write_text(json.dumps(found))
