"""Names that need quotes, or that the job uses itself, in all steps of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.replication import Replication
from support import lake
from support.lake_job import LakeJob
from support.lake_judge import assert_equal, properties
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = [lake.needs_lake, pytest.mark.lake]

QUOTED = [
    "a b",
    "a.b",
    "back`tick",
    "quo\"te's",
    "smile 😀",
    "semi;colon,(x)=y{z}",
    "back\\slash",
    "MixedCase",
    "order",
    "${spark.app.name}",  # which Spark replaces in SQL text
    "${x}",
]
# The names of columns in the plans of the job, and of the two sides of its MERGE.
OWN = ["c0", "c1", "op", "n", "u1", "k0", "t0", "is_there", "t", "s"]

# Half of the names are a key in one table, and the other half in another one. The rows of the third
# table are identified by all of their values.
TABLES = {"one": "one ${x}", "two": "two", "three": "three"}
KEYS = {"one": [*QUOTED[::2], *OWN[::2]], "two": [*QUOTED[1::2], *OWN[1::2]]}


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def column_list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def others(table: str) -> list[str]:
    """Return the columns that are not in the key of a table."""
    return [name for name in QUOTED + OWN if name not in KEYS[table]]


def setup() -> str:
    """Return the statements that make the tables. Values outside of the keys are TOASTed."""
    columns = ", ".join(f"{quoted(name)} text" for name in QUOTED + OWN)
    found = []
    for table in TABLES:
        found.append(f"CREATE TABLE {table} ({columns})")
        if table in KEYS:
            found.append(f"ALTER TABLE {table} ADD PRIMARY KEY ({column_list(KEYS[table])})")
            found += (
                f"ALTER TABLE {table} ALTER {quoted(name)} SET STORAGE EXTERNAL"
                for name in others(table)
            )
        else:
            found.append(f"ALTER TABLE {table} REPLICA IDENTITY FULL")
        found.append(insert(table, 1, 8))
    return ";".join([*found, "CREATE PUBLICATION p FOR TABLE one, two, three"])


def insert(table: str, first: int, last: int) -> str:
    """Return the statement that inserts rows, each of whose values has the number of its column."""
    keys = KEYS.get(table, QUOTED + OWN)
    values = ", ".join(
        f"g || ' {number}'" if name in keys else f"repeat(g || ' {number} ', 1000)"
        for number, name in enumerate(QUOTED + OWN)
    )
    return (
        f"INSERT INTO {table} ({column_list(QUOTED + OWN)})"
        f" SELECT {values} FROM generate_series({first}, {last}) g"
    )


def change(table: str, first: int) -> str:
    """Return statements that change the rows from a number on in each way."""
    keys = KEYS.get(table, QUOTED + OWN)

    def key(row: int) -> str:
        name = keys[0]
        return f"{quoted(name)} = '{row} {(QUOTED + OWN).index(name)}'"

    def moved(new: str) -> str:
        return ", ".join(f"{quoted(name)} = '{new} ' || {quoted(name)}" for name in keys)

    found = [insert(table, first + 8, first + 8), f"DELETE FROM {table} WHERE {key(first)}"]
    if table in KEYS:
        # Each update leaves all TOASTed values but one as they are.
        for row, name in enumerate(others(table)[:2], start=first + 1):
            found.append(f"UPDATE {table} SET {quoted(name)} = 'short' WHERE {key(row)}")
    else:
        found.append(f"UPDATE {table} SET {column_list(keys[1:2])} = NULL WHERE {key(first + 1)}")
    # A row that moves once, and one that moves twice.
    found.append(f"UPDATE {table} SET {moved('x')} WHERE {key(first + 3)}")
    found.append(f"UPDATE {table} SET {moved('y')} WHERE {key(first + 4)}")
    found.append(f"UPDATE {table} SET {moved('z')} WHERE {quoted(keys[0])} LIKE 'y %'")
    return ";".join(found)


server = server_fixture(setup())


@contextmanager
def literal_sql(spark: SparkSession) -> Iterator[None]:
    """Make Spark use the name of a table as it is written."""
    spark.conf.set("spark.sql.variable.substitute", "false")
    yield
    spark.conf.unset("spark.sql.variable.substitute")


@pytest.mark.parametrize("target", lake.TARGETS)
def test_columns_and_tables_have_any_names(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    job.names = TABLES
    given = {"team": "${spark.app.name} and ${x}"}

    def assert_tables() -> None:
        with literal_sql(spark):
            assert_equal(spark, job, TABLES)

    with job.session(spark) as replicate:
        assert replicate(once=True, properties=given).exit_code == 0
        assert_tables()
        with literal_sql(spark):
            for name in TABLES.values():
                assert properties(spark, job, name)["team"] == given["team"]
        server.execute(";".join(change(table, 1) for table in TABLES))
        assert replicate(once=True).exit_code == 0
        assert_tables()
        with literal_sql(spark):
            for name in TABLES.values():
                spark.sql(f"DELETE FROM {job.sql_name(name)} WHERE `a.b` LIKE '6 %'")
        found = spark_pgoutput.verify(spark, once=True, **job.options).collect()  # type: ignore[arg-type]
        assert {(row.table, row.only_at_server) for row in found} == {
            (f"public.{table}", 1) for table in TABLES
        }
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=list(TABLES))
        assert replicate(once=True).exit_code == 0
        assert_tables()
        for table in TABLES:
            server.execute(f'ALTER TABLE {table} ADD "new `x`.""y"" 😀" text')
            server.execute(f'ALTER TABLE {table} RENAME "a b" TO "A, b.c"')
            server.execute(f'UPDATE {table} SET "new `x`.""y"" 😀" = "A, b.c" WHERE "a.b" > \'5\'')
        assert replicate(once=True).exit_code == 0
        assert_tables()


@pytest.mark.parametrize("drift", ["error", "repair"])
def test_a_key_can_be_renamed_between_two_changes_of_a_row(
    drift: str, tmp_path: Path, spark: SparkSession
) -> None:
    """Whether 5 and 5.00 are one key depends on the type that the target's column has."""
    with Server() as server:
        server.execute(
            "CREATE TABLE prices (k numeric(10, 2) PRIMARY KEY, v text);"
            "CREATE PUBLICATION p FOR TABLE prices"
        )
        job = LakeJob(tmp_path, server, "delta", publication="p")
        with job.session(spark) as replicate:
            running = replicate(onDrift=drift)
            for value in (1, 2):  # the job looks at the catalog before its first commit
                server.execute(f"INSERT INTO prices VALUES ({value}, 'a')")
                wait_until(lambda: has_row(spark, job, running, value), TIMEOUT, 0.2)  # noqa: B023
            server.execute(
                "INSERT INTO prices VALUES (5, 'a'), (6, 'a');"
                "ALTER TABLE prices RENAME k TO kk;"
                "UPDATE prices SET v = 'b' WHERE kk = 5; DELETE FROM prices WHERE kk = 6"
            )
            wait_until(lambda: has_row(spark, job, running, 5), TIMEOUT, 0.2)
            running.stop()
            assert running.exit_code == 0
        found = spark.table(job.sql_name("prices")).select("kk", "v").orderBy("kk").collect()
        assert found == [(1, "a"), (2, "a"), (5, "b")]


def has_row(spark: SparkSession, job: LakeJob, running: Replication, value: int) -> bool:
    assert running.exception() is None, running.exception()
    try:
        rows = spark.table(job.sql_name("prices")).collect()
    except AnalysisException:  # the first copy has not begun
        return False
    return any(row[0] == value for row in rows)
