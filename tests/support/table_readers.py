"""Readers of tables in Delta and Iceberg that are neither Spark nor part of this project.

Each returns a table of PyArrow, so that the values of all readers have the same types.
"""

from __future__ import annotations

import datetime
import importlib.util
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from support.plain_reader import newest_metadata

needs_readers = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("deltalake", "duckdb", "pyiceberg"))),
    reason="pip install --group readers",
)


class TableReader(NamedTuple):
    """A reader of tables of a format.

    Attributes
    ----------
    name : str
        What the documentation calls it.
    package : str
        The package whose version is that of the reader.
    read : callable
        Reads the newest version of the table in a folder.
    """

    name: str
    package: str
    read: Callable[[Path], pa.Table]

    @property
    def version(self) -> str:
        """The version that the tests run."""
        return version(self.package)


def _duckdb(source: str) -> pa.Table:
    from benchmarks.reader import connection

    duckdb = connection()
    columns = duckdb.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    # PyArrow has no VARIANT.
    selected = [
        f'CASE WHEN "{name}" IS NOT NULL THEN "{name}"::JSON::VARCHAR END AS "{name}"'
        if kind == "VARIANT"
        else f'"{name}"'
        for name, kind, *_ in columns
    ]
    return duckdb.execute(f"SELECT {', '.join(selected)} FROM {source}").to_arrow_table()


def _deltalake(folder: Path) -> pa.Table:
    from deltalake import DeltaTable, QueryBuilder

    queries = QueryBuilder().register("found", DeltaTable(str(folder)))
    return pa.table(queries.execute("SELECT * FROM found").read_all())


def _pyiceberg(folder: Path) -> pa.Table:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(newest_metadata(folder))).scan().to_arrow()


READERS = {
    "delta": (
        TableReader("DuckDB", "duckdb", lambda folder: _duckdb(f"delta_scan('{folder}')")),
        TableReader("delta-rs", "deltalake", _deltalake),
    ),
    "iceberg": (
        TableReader(
            "DuckDB",
            "duckdb",
            lambda folder: _duckdb(f"iceberg_scan('{newest_metadata(folder)}')"),
        ),
        TableReader("PyIceberg", "pyiceberg", _pyiceberg),
    ),
}


def rows(table: pa.Table) -> Counter[tuple[object, ...]]:
    """Count the rows of a table, without the order of its columns."""
    # Python has no nanoseconds, and no reader needs them for values of PostgreSQL.
    columns = [_in_microseconds(column) for column in table.columns]
    names = table.column_names
    return counted(names, zip(*(column.to_pylist() for column in columns), strict=True))


def counted(names: Sequence[str], found: Iterable[Sequence[Any]]) -> Counter[tuple[object, ...]]:
    """Count rows whose columns have these names."""
    order = sorted(range(len(names)), key=names.__getitem__)
    return Counter(tuple((names[at], plain(row[at])) for at in order) for row in found)


def _in_microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if not pa.types.is_timestamp(kind) or kind.unit == "us":
        return column
    return column.cast(pa.timestamp("us", tz=kind.tz))


def plain(value: Any) -> object:  # noqa: ANN401
    """Return a hashable value, which is the same for equal values of two readers."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, datetime.datetime) and value.tzinfo:
        return value.astimezone(datetime.timezone.utc)
    if isinstance(value, list):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple(sorted((name, plain(each)) for name, each in value.items()))
    return value
