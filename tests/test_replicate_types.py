"""Values of each type in Delta and Iceberg, by the first copy and by the stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructType

import spark_pgoutput
from support import lake
from support.lake_catalog import LakeCatalog
from support.lake_job import LakeJob
from support.lake_operations import copied
from support.server_columns import MOST_VIEWS, columns, of, same, statements
from support.server_values import TYPES, View
from support.servers import Server
from support.source import source_client

pytestmark = [lake.needs_lake, pytest.mark.lake]

ROWS = 60
STREAMED = 1000  # is added to the key of rows that come by the stream
BATCHES = "spark.sql.parquet.enableVectorizedReader"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Give a server with the tables t0, t1, … A table has the values that fit its views."""
    with Server() as server:
        with server.connect() as connection:
            for statement in statements(ROWS):
                if "SLOT" not in statement.upper() and "PUBLICATION" not in statement:
                    connection.execute(statement.encode())
        server.execute("CREATE PUBLICATION p")
        for number in range(MOST_VIEWS):
            fitting = ", ".join(
                f"CASE WHEN ({expected(view, name)}) IS NOT NULL THEN {name} END AS {name}"
                for name, view in chosen(number).items()
            )
            server.execute(f"CREATE TABLE t{number} AS SELECT n, {fitting} FROM t")
            server.execute(f"ALTER TABLE t{number} ADD PRIMARY KEY (n)")
            server.execute(f"ALTER PUBLICATION p ADD TABLE t{number}")
            server.execute(f"CREATE VIEW v{number} AS SELECT n + {STREAMED} AS n, {fitting} FROM t")
        yield server


def chosen(number: int) -> dict[str, View]:
    """Return the views of the columns of a table, without intervals, which no lake can have."""
    found = {c.name: c.views[number] for c in columns() if len(c.views) > number}
    return {name: view for name, view in found.items() if "INTERVAL" not in view.spark_type}


def expected(view: View, name: str) -> str:
    return of(view.of_text or view.expected, name)


def default_types(spark: SparkSession, server: Server, number: int) -> dict[str, DataType]:
    """Return the types that the columns of a table get by default."""
    with source_client(spark, server) as client:
        catalog = LakeCatalog(client)
        table = catalog.mirrored(catalog.tables("p")[f"public.t{number}"])
    schema = StructType.fromJson(json.loads(table.schema().json()))
    return {field.name: field.dataType for field in schema}


def other_than(defaults: Mapping[str, DataType], views: Mapping[str, View]) -> dict[str, View]:
    """Return the columns that get their types only if the user gives them."""
    return {
        name: view
        for name, view in views.items()
        if defaults[name].simpleString() != DataType.fromDDL(view.spark_type).simpleString()
    }


@pytest.mark.parametrize("target", lake.TARGETS)
def test_values_are_those_of_the_server(
    server: Server, tmp_path: Path, spark: SparkSession, target: str
) -> None:
    job = LakeJob(tmp_path, server, target, slot=target, publication="p")
    types = {
        f"public.t{number}.{name}": view.spark_type
        for number in range(MOST_VIEWS)
        for name, view in other_than(default_types(spark, server, number), chosen(number)).items()
    }
    # In one of the tables, each column has its default type.
    without = {
        name
        for number in range(MOST_VIEWS)
        for name in chosen(number)
        if f"public.t{number}.{name}" not in types
    }
    assert without == {column.name for column in columns()}
    options = {"types": types, "once": True}
    for number in range(MOST_VIEWS):
        server.execute(f"DELETE FROM t{number} WHERE n > {STREAMED}")
    with job.session(spark) as replicate:
        assert replicate(**options).exit_code == 0
        for number in range(MOST_VIEWS):
            server.execute(f"INSERT INTO t{number} SELECT * FROM v{number}")
            server.execute(f"UPDATE t{number} SET n = n WHERE n % 10 = 0")
        assert copied(replicate(**options)) == 0
        # The next writes read files of which rows are deleted.
        for number in range(MOST_VIEWS):
            server.execute(f"UPDATE t{number} SET n = n WHERE n % 10 = 5")
        assert replicate(**options).failed() == []
        # A verification reads the server's values as the copy does.
        given: dict[str, Any] = {**job.options, **options}
        verified = spark_pgoutput.verify(spark, **given).collect()
        print(verified)
        assert {row.result for row in verified} == {"equal"}
        assert {row.server_rows for row in verified} == {2 * ROWS}
    # Spark 4.0 cannot read each of the tables by batches, as docs/readers.md says.
    spark.conf.set(BATCHES, not spark.version.startswith("4.0."))
    differences = []
    for number in range(MOST_VIEWS):
        views = chosen(number)
        table = spark.table(job.sql_name(f"t{number}"))
        shown = [f"{of(view.shown, name)} AS {name}" for name, view in views.items()]
        rows = {row.n: row[1:] for row in table.selectExpr("n", *shown).collect()}
        assert len(rows) == 2 * ROWS
        query = ", ".join(expected(view, name) for name, view in views.items())
        for n, *values in server.execute(f"SELECT n, {query} FROM t{number}"):
            for (name, view), one, other in zip(views.items(), rows[n], values, strict=True):
                if not same(view, one, other):
                    pg_type = TYPES[int(name[1:])].name
                    differences.append((pg_type, view.spark_type, n, one, other))
    spark.conf.unset(BATCHES)
    assert differences[:20] == []


@pytest.mark.parametrize("target", lake.TARGETS)
@pytest.mark.parametrize(
    "options", [{"types": {"public.u.c": "STRING"}}, {"pgTypes": {"int4": "STRING"}}]
)
def test_a_column_gets_its_own_type_by_a_copy_when_its_option_is_left_out(
    server: Server,
    tmp_path: Path,
    spark: SparkSession,
    target: str,
    options: Mapping[str, Mapping[str, str]],
) -> None:
    server.execute(
        "DROP TABLE IF EXISTS u; DROP PUBLICATION IF EXISTS q; "
        "CREATE TABLE u (id bigint PRIMARY KEY, c int);"
        "INSERT INTO u VALUES (1, 1), (2, 2), (3, 3); CREATE PUBLICATION q FOR TABLE u"
    )
    job = LakeJob(tmp_path, server, target, slot=f"u_{target}", publication="q")

    def found() -> tuple[str, set[tuple[object, ...]]]:
        table = spark.table(job.sql_name("u"))
        return table.schema["c"].dataType.simpleString(), set(map(tuple, table.collect()))

    with job.session(spark) as replicate:
        assert copied(replicate(once=True, **options)) == 1
        assert found() == ("string", {(1, "1"), (2, "2"), (3, "3")})
        server.execute("INSERT INTO u VALUES (4, 4); UPDATE u SET c = 20 WHERE id = 2")
        assert copied(replicate(once=True, **options)) == 0
        server.execute("DELETE FROM u WHERE id = 1; UPDATE u SET c = 30 WHERE id = 3")
        report = replicate(once=True).report()
        reason = "give the column 'c' the type INT, and the target has STRING"
        assert sum(reason in line for line in report) == 1
        assert sum(line.startswith("Copied public.u") for line in report) == 1
        assert found() == ("int", {(2, 20), (3, 30), (4, 4)})
        server.execute("INSERT INTO u VALUES (5, 5); DELETE FROM u WHERE id = 2")
        assert copied(replicate(once=True)) == 0
        assert found() == ("int", {(3, 30), (4, 4), (5, 5)})
    server.drop_slot(job.slot)
