"""Values that the target does not have, and the options that convert them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.job_report import generations
from support.lake_job import LakeJob
from support.postgres_binaries import NEWEST
from support.server_values import range_type
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(
    "CREATE TYPE pair AS (d date, n int);"
    "CREATE TABLE endless"
    "  (id int PRIMARY KEY, d date, t timestamptz, list date[], r daterange, p pair);"
    "CREATE TABLE keyed (d date PRIMARY KEY, n numeric);"
    "INSERT INTO endless VALUES"
    " (1, 'infinity', '-infinity', '{infinity,2026-01-31}', '[,infinity]', '(infinity,1)');"
    "INSERT INTO keyed VALUES ('2026-01-31', 1.5);"
    "CREATE PUBLICATION p FOR TABLE endless, keyed"
)

DAY, LAST = datetime.date(2026, 1, 31), datetime.date(9999, 12, 31)


@pytest.mark.parametrize("target", lake.TARGETS)
@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_infinite_values_are_what_the_option_says(
    target: str, mode: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p", mode={"endless": mode})
    types = {"public.endless.r": range_type("DATE"), "public.endless.p": "STRUCT<d DATE, n INT>"}
    sql_name = job.sql_name("endless")

    def rows() -> dict[int, tuple[object, ...]]:
        """Return the last values of each row. Python cannot hold all times of the first year."""
        found = spark.sql(f"SELECT id, d, year(t), list, r.upper, p.* FROM {sql_name}").collect()
        return {row[0]: tuple(row)[1:] for row in found}

    with job.session(spark) as replicate:
        first = replicate(once=True, types=types)
        assert first.exit_code == 3
        (failed,) = first.failed()
        assert "public.endless" in failed
        assert "set the option infinity to null or clamp" in failed

        assert replicate(once=True, types=types, infinity="null").exit_code == 0
        assert rows() == {1: (None, None, [None, DAY], None, None, 1)}
        copied = generations(job)

        # All rows are read again, because old ones would have values with another meaning.
        server.execute(
            "INSERT INTO endless VALUES"
            " (2, 'infinity', '-infinity', '{infinity,2026-01-31}', '[,infinity]', '(infinity,2)')"
        )
        assert replicate(once=True, types=types).exit_code == 3
        assert replicate(once=True, types=types, infinity="clamp").exit_code == 0
        assert all(found > copied[table] for table, found in generations(job).items())
        assert rows()[2] == (LAST, 1, [LAST, DAY], LAST, LAST, 2)

        # The rows of the server are read as the job reads them.
        if mode == "mirror":
            server.execute("DELETE FROM endless WHERE id = 1")
            options: dict[str, Any] = {**job.options, "types": types, "infinity": "clamp"}
            compared = spark_pgoutput.verify(spark, once=True, **options).collect()
            assert {row.result for row in compared} == {"equal"}

        # A value of a key never becomes another one.
        server.execute("INSERT INTO keyed VALUES ('infinity', 2)")
        last = replicate(once=True, types=types, infinity="clamp")
        (failed,) = last.failed()
        assert "'infinity' is infinite and in the key; use STRING" in failed


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_table_is_copied_when_an_option_gives_a_column_another_type(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    with job.session(spark) as replicate:
        assert replicate(once=True, infinity="null").exit_code == 0
        copied = generations(job)
        given: dict[str, object] = {
            "infinity": "null",
            "pg_types": {"numeric": "DECIMAL(38,18)"},
        }
        assert replicate(once=True, **given).exit_code == 0
        now = generations(job)
        assert now["keyed"] > copied["keyed"]
        assert now["endless"] == copied["endless"]
        field = spark.table(job.sql_name("keyed")).schema["n"]
        assert field.dataType.simpleString() == "decimal(38,18)"
        assert replicate(once=True, **given).exit_code == 0
        assert generations(job) == now


@pytest.mark.parametrize("target", lake.TARGETS)
@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_a_table_continues_with_its_queue_after_a_start_with_the_option(
    target: str, mode: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        "DROP TABLE IF EXISTS late, calm; DROP PUBLICATION IF EXISTS late;"
        "CREATE TABLE late (id int PRIMARY KEY, d date); INSERT INTO late VALUES (1, '2026-01-31');"
        "CREATE TABLE calm (LIKE late INCLUDING ALL); INSERT INTO calm TABLE late;"
        "CREATE PUBLICATION late FOR TABLE late, calm"
    )
    job = LakeJob(tmp_path, server, target, publication="late", mode={"late": mode})
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        copied = generations(job)
        server.execute("INSERT INTO late VALUES (2, 'infinity'), (3, '2026-02-01')")
        assert replicate(once=True).exit_code == 3
        server.execute("UPDATE late SET d = '2026-03-01' WHERE id = 2")
        assert replicate(once=True, infinity="null").exit_code == 0
        assert generations(job) == copied, "no row of the target had an infinite value"
        found = spark.table(job.sql_name("late")).select("id", "d").collect()
    changed = datetime.date(2026, 3, 1)
    expected = [(1, DAY), (2, changed), (3, datetime.date(2026, 2, 1))]
    assert sorted(map(tuple, found), key=str) == sorted(
        expected if mode == "mirror" else [*expected, (2, None)], key=str
    )


def char(byte: int) -> str:
    """Return a value of the type "char" whose byte is not ASCII, in SQL."""
    return f'({byte - 256})::"char"'


@pytest.mark.parametrize("version", [14, NEWEST])
def test_a_byte_of_the_type_char_is_the_same_text_from_each_server(
    version: int, tmp_path: Path, spark: SparkSession
) -> None:
    """PostgreSQL 14 prints the byte as it is, which is not valid UTF-8."""
    with Server(version) as server:
        server.execute(
            'CREATE TABLE kinds (k "char" PRIMARY KEY, v "char", list "char"[], t text);'
            'CREATE TABLE plain (id int PRIMARY KEY, v "char");'
            f"INSERT INTO kinds VALUES ({char(0o351)}, {char(0o377)}, '{{a}}', 'é');"
            "INSERT INTO kinds VALUES ('a', 'b', '{}', 'f');"
            f"INSERT INTO plain VALUES (1, {char(0o200)});"
            "CREATE PUBLICATION p FOR TABLE kinds, plain"
        )
        job = LakeJob(tmp_path, server, "delta", publication="p", mode={"plain": "history"})

        def rows() -> set[tuple[object, ...]]:
            return {tuple(row)[:2] for row in spark.table(job.sql_name("kinds")).collect()}

        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
            assert rows() == {("\\351", "\\377"), ("a", "b")}
            server.execute(
                f"UPDATE kinds SET v = {char(0o301)} WHERE k = {char(0o351)};"
                f"INSERT INTO kinds VALUES ({char(0o240)}, 'é', '{{}}', 'ü');"
                f"UPDATE kinds SET k = 'c' WHERE k = {char(0o240)};"
                "DELETE FROM kinds WHERE k = 'a';"
                f"UPDATE plain SET v = {char(0o201)}"
            )
            assert replicate(once=True).exit_code == 0
            assert rows() == {("\\351", "\\301"), ("c", "\\303")}
            values = spark.table(job.sql_name("plain")).select("v").collect()
            assert sorted(row.v for row in values) == ["\\200", "\\201"]
            options: dict[str, Any] = job.options
            compared = spark_pgoutput.verify(spark, once=True, **options).collect()
            assert {row.table: row.result for row in compared}["public.kinds"] == "equal"

            # PostgreSQL 14 also sends the byte in an array. The text is then refused.
            server.execute(
                f"UPDATE kinds SET list = ARRAY[{char(0o351)}];"
                f"CREATE TABLE lists AS SELECT ARRAY[{char(0o351)}] AS list;"
                "ALTER PUBLICATION p ADD TABLE lists"
            )
            last = replicate(once=True)
            problems = "\n".join(sorted(last.failed()))
            if version >= 16:
                assert not problems
            else:
                assert problems.count("not valid UTF-8") == 2, problems
                assert "excludeColumns.public.lists=list" in problems
