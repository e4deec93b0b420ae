"""Other readers find the expected rows in tables that were written by direct commits."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import pytest

from support.plain_reader import Content, by_duckdb, plain

pytestmark = pytest.mark.lake

REPOSITORY = Path(__file__).parents[1]

# Histories of Delta and of Iceberg's versions 2 and 3 in turn, so each kind of change is in some.
HISTORIES = 120


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Content]]:
    """Run random histories, and return the rows that their tables must have."""
    file = tmp_path_factory.mktemp("histories") / "contents.json"
    settings = {"histories": HISTORIES, "contents": file}
    options = ", ".join(f'"-Dspark-pgoutput.{name}={value}"' for name, value in settings.items())
    suite = 'jvm/testOnly *DirectHistoriesSuite -- -z "after each cut"'
    commands = shlex.join([f"set jvm/Test/javaOptions ++= Seq({options})", suite])
    subprocess.run(["make", "sbt", f"RUN={commands}"], cwd=REPOSITORY, check=True)
    return file, json.loads(file.read_text())


def _differing(contents: Sequence[Content], found: Sequence[Any]) -> list[str]:
    """Return the tables whose rows are not the expected ones."""
    return [
        f"the seed {content['seed']} of {content['format']} in {content['path']}: {rows}"
        for content, rows in zip(contents, found, strict=True)
        if isinstance(rows, str) or plain(content, rows) != plain(content, content["rows"])
    ]


def test_spark_without_the_jar_of_this_project_reads_the_rows(
    contents: tuple[Path, list[Content]],
) -> None:
    file, expected = contents
    found = file.with_name("rows.json")
    reader = [sys.executable, "-m", "support.plain_reader", str(file), str(found)]
    subprocess.run(reader, cwd=REPOSITORY / "tests", check=True)
    assert _differing(expected, json.loads(found.read_text())) == []


def test_duckdb_reads_the_rows(contents: tuple[Path, list[Content]]) -> None:
    from benchmarks.reader import connection

    def read(content: Content) -> list[list[str | None]] | str:
        try:
            return by_duckdb(connection(), content)
        except Exception as problem:
            return str(problem)

    expected = [_that_duckdb_reads(content) for content in contents[1]]
    assert _differing(expected, [read(content) for content in expected]) == []


def _that_duckdb_reads(content: Content) -> Content:
    """Leave out the columns that DuckDB 1.5.5 does not read right (see docs/readers.md)."""
    if content["format"] != "delta":
        return content
    logs = sorted((Path(content["path"]) / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    metadata = [action["metaData"] for action in actions if "metaData" in action][-1]
    if "delta.columnMapping.mode" not in metadata["configuration"]:
        return content
    kept = [name not in metadata["partitionColumns"] for name, _ in content["columns"]]
    return {
        **content,
        "columns": list(compress(content["columns"], kept)),
        "rows": [list(compress(row, kept)) for row in content["rows"]],
    }
