"""Readers other than Spark find the rows of the server in the tables of a job, or refuse them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_pgoutput.replication import Replication
from support import lake
from support.documentation import DOCS, assert_table, markdown
from support.job_tables import PATIENCE, JobTables
from support.lake_job import LakeJob
from support.server_values import range_type
from support.servers import Server, wait_until
from support.table_readers import READERS, TableReader, counted, needs_readers, rows

pytestmark = [lake.needs_lake, needs_readers, pytest.mark.infra]

PAGE = DOCS / "readers.md"


class Feature(NamedTuple):
    """A table, and what happens to it while a job keeps it equal.

    Attributes
    ----------
    title : str
        What the documentation calls it.
    statements : str, optional
        What the server runs while the job runs. `{table}` stands for the name of the table.
    columns : str, optional
        The columns besides the key.
    values : str, optional
        The rows of the first copy, without the key.
    """

    title: str
    statements: str = ""
    columns: str = "v text, n numeric(6,2)"
    values: str = "SELECT 'a', g % 100 FROM generate_series(1, 2000) g"


def of_types(title: str, columns: str, *values: str) -> Feature:
    """Return a table of some types, whose rows are copied first, and then inserted again."""
    listed = "VALUES " + ", ".join(values)
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    return Feature(title, f"INSERT INTO {{table}} ({names}) {listed}", columns, listed)


# At most a tenth of the rows of a file is deleted. Otherwise, the job would rewrite the file.
FEATURES = {
    "copied": Feature("The first copy"),
    "changed": Feature(
        "`INSERT`, `UPDATE`, `DELETE`",
        "INSERT INTO {table} (v) SELECT 'new' FROM generate_series(1, 100);"
        "UPDATE {table} SET v = 'b' WHERE id % 20 = 1; DELETE FROM {table} WHERE id % 20 = 2",
    ),
    "merged": Feature(
        "A transaction that does not fit into memory, which the job writes by `MERGE`",
        "INSERT INTO {table} (v) SELECT repeat('x', 3000) FROM generate_series(1, 100000);"
        "UPDATE {table} SET v = 'b' WHERE id % 20 = 1; DELETE FROM {table} WHERE id % 20 = 2",
    ),
    "added": Feature(
        "`ADD COLUMN`",
        "ALTER TABLE {table} ADD COLUMN more text; UPDATE {table} SET more = 'x' WHERE id % 20 = 1",
    ),
    "renamed": Feature(
        "`RENAME COLUMN`",
        "ALTER TABLE {table} RENAME COLUMN v TO w; UPDATE {table} SET w = 'x' WHERE id % 20 = 1",
    ),
    "widened": Feature(
        "A wider type: `numeric(12,2)` for `numeric(6,2)`",
        "ALTER TABLE {table} ALTER COLUMN n TYPE numeric(12,2);"
        "UPDATE {table} SET n = 1234567890.12 WHERE id % 20 = 1",
    ),
    "retyped": Feature(
        "Another type, for which the job copies the table again",
        "ALTER TABLE {table} ALTER COLUMN id TYPE bigint;"
        "UPDATE {table} SET v = 'b' WHERE id % 20 = 1",
    ),
    "emptied": Feature("`TRUNCATE`", "TRUNCATE {table}; INSERT INTO {table} (v) VALUES ('new')"),
    "rewritten": Feature(
        "Files that the job has rewritten",
        "DELETE FROM {table} WHERE id % 3 = 0",
    ),
    "usual": of_types(
        "`boolean`, `int2` to `int8`, `float4`, `float8`, `numeric`, `text`, `bytea`, `date`,"
        " `timestamptz`, `uuid`, `jsonb`",
        "b boolean, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(38,10),"
        " free numeric, v varchar(5), raw bytea, d date, tz timestamptz, u uuid, j jsonb",
        "(true, 1, 2, 3, 1.5, 2.5, 1.5, 1.50, 'a', '\\x00ff', '2026-01-31',"
        " '2026-01-31 12:00:00.123456+02', '00000000-0000-0000-0000-0000000000ff', '{\"k\": 1}')",
        "(false, -32768, -2147483648, -9223372036854775808, 'NaN', '-infinity',"
        " -9999999999999999999999999999.9999999999, 1e-30, 'ä😀', '', '0001-01-01',"
        " '9999-12-31 23:59:59.999999+00', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '[null]')",
        f"({', '.join(['NULL'] * 14)})",
    ),
    "arrays": of_types(
        "Arrays",
        "i int[], t text[], tz timestamptz[]",
        "('{1,null,3}', '{a,null,\"\"}', '{\"2026-01-31 12:00:00+02\"}')",
        "('{}', '{}', '{}')",
        "(NULL, NULL, NULL)",
    ),
    "local": of_types(
        "`timestamp` without a time zone",
        "t timestamp",
        "('2026-01-31 12:00:00.123456')",
        "('0001-01-01')",
        "(NULL)",
    ),
    "struct": of_types(
        "A range as STRUCT", "r int4range", "('[1,5)')", "('[,]')", "('empty')", "(NULL)"
    ),
    "variant": of_types(
        "A `jsonb` as VARIANT", "j jsonb", "('{\"k\": [1, null]}')", "('[1.5, \"a\"]')", "(NULL)"
    ),
}

TYPES = {
    "public.variant.j": "VARIANT",
    "public.struct.r": range_type("INT"),
}

# What to select at the server from tables that have other types in the target.
SELECTED = {
    "usual": "id, b, i2, i4, i8, f4, f8, n, free::text AS free, v, raw, d, tz, u::text AS u,"
    " j::text AS j",
    "struct": "id, CASE WHEN r IS NOT NULL THEN jsonb_build_object('lower', lower(r),"
    " 'upper', upper(r), 'lower_inclusive', lower_inc(r), 'upper_inclusive', upper_inc(r),"
    " 'empty', isempty(r)) END AS r",
    "variant": "id, replace(j::text, ' ', '') AS j",
}

WIDENING = "delta.enableTypeWidening"

EQUAL, REFUSED, ENCODED, WRONG = "equal", "error", "bytes", "wrong rows"

# What the documentation calls the tables of a job, their format, and the job's options.
LAKES: dict[str, tuple[str, dict[str, object]]] = {
    "Delta": ("delta", {}),
    "Delta without type widening": ("delta", {"properties": {WIDENING: "false"}}),
    "Iceberg 2": ("iceberg", {"icebergVersion": 2}),
    "Iceberg 3": ("iceberg", {"icebergVersion": 3}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        for name, feature in FEATURES.items():
            key = "id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
            names = ", ".join(column.split()[0] for column in feature.columns.split(", "))
            server.execute(f"CREATE TABLE {name} ({key}, {feature.columns})")
            server.execute(f"INSERT INTO {name} ({names}) {feature.values}")
        server.execute("CREATE PUBLICATION p FOR ALL TABLES")
        yield server


@pytest.fixture(scope="module")
def jobs(
    server: Server, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, LakeJob]:
    """Keep the tables equal in each format, and give the jobs when they have applied all."""
    jobs: dict[str, LakeJob] = {}
    with ExitStack() as stack:
        starts = []
        for number, (name, (target, options)) in enumerate(LAKES.items()):
            folder = tmp_path_factory.mktemp("lake")
            jobs[name] = LakeJob(folder, server, target, slot=f"lake_{number}", publication="p")
            start = stack.enter_context(jobs[name].session(spark))
            starts.append(partial(start, types=TYPES, **options))
        for start in starts:
            assert start(once=True).exit_code == 0
        for table, feature in FEATURES.items():
            server.execute(feature.statements.replace("{table}", table) or "SELECT")
        for start in starts:
            running = start()
            wait_until(partial(has_rewritten, running), 3 * PATIENCE, 0.2)
            running.stop()
            # What is left is applied, and no file is rewritten any more.
            assert start(once=True, maintenance="off").exit_code == 0
    return jobs


def has_rewritten(running: Replication) -> bool:
    assert running.exception() is None, running.exception()
    return bool(JobTables(running).rows()["rewritten"].rewritten_bytes)


def expected(server: Server, table: str) -> Counter[tuple[object, ...]]:
    """Count the rows of a table of the server."""
    with server.connect() as connection:
        cursor = connection.execute(f"SELECT {SELECTED.get(table, '*')} FROM {table}".encode())
        return counted([column.name for column in cursor.description or ()], cursor)


def outcome(reader: TableReader, job: LakeJob, table: str, server: Server) -> str:
    """Return what a reader makes of a table: equal rows, other rows, or the text of an error."""
    try:
        read = reader.read(job.tables / table)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    if any(map(is_encoded, read.schema.types)):
        return ENCODED
    found = rows(read)
    there = expected(server, table)
    if found == there:
        return EQUAL
    surplus, missing = list(found - there), list(there - found)
    return f"{WRONG}: {len(surplus)} such as {surplus[:2]}; not {missing[:2]}"


def is_encoded(kind: pa.DataType) -> bool:
    """Return whether a type is that of a VARIANT for readers that do not know VARIANT."""
    return pa.types.is_struct(kind) and {field.name for field in kind} == {"metadata", "value"}


@pytest.fixture(scope="module")
def outcomes(server: Server, jobs: dict[str, LakeJob]) -> dict[tuple[str, str, str], str]:
    """Read all tables with each reader, and give what it makes of them."""
    return {
        (table, name, reader.name): outcome(reader, job, table, server)
        for name, job in jobs.items()
        for reader in READERS[LAKES[name][0]]
        for table in FEATURES
    }


def cell(outcome: str) -> str:
    """Return what the documentation says of an outcome. It does not have the texts of errors."""
    return outcome if outcome in (EQUAL, ENCODED) else REFUSED


def test_no_reader_finds_other_rows(outcomes: dict[tuple[str, str, str], str]) -> None:
    wrong = {case: text for case, text in outcomes.items() if text.startswith(WRONG)}
    assert not wrong, "\n".join(f"{case}: {text}" for case, text in wrong.items())


def test_table_of_readers_is_what_they_do(outcomes: dict[tuple[str, str, str], str]) -> None:
    columns = [(name, reader.name) for name in LAKES for reader in READERS[LAKES[name][0]]]
    expected = markdown(
        ["", *(f"{name}: {reader}" for name, reader in columns)],
        [
            [feature.title, *(cell(outcomes[table, name, reader]) for name, reader in columns)]
            for table, feature in FEATURES.items()
        ],
    )
    for case, text in outcomes.items():
        print(case, text)
    assert_table(PAGE, "readers", expected)


def test_table_of_versions_is_what_runs() -> None:
    readers = {reader.name: reader for found in READERS.values() for reader in found}
    rows = [[name, f"`{reader.package}`", reader.version] for name, reader in readers.items()]
    assert_table(PAGE, "versions of readers", markdown(["Reader", "Package", "Version"], rows))
