"""What a job does at its start if parts of what it keeps are lost."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support import lake
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

# By what is kept of the checkpoint, the slot, `_spark_pgoutput` and the table: `x` is lost.
OUTCOMES = {
    "cstm": "goes on",
    "cstx": "PGOUTPUT_MARK_LOST",
    "csxm": "goes on",
    "csxx": "PGOUTPUT_MARK_LOST",
    "cxtm": "PGOUTPUT_SLOT_NOT_FOUND",
    "cxtx": "PGOUTPUT_MARK_LOST",
    "cxxm": "PGOUTPUT_SLOT_NOT_FOUND",
    "cxxx": "PGOUTPUT_SLOT_NOT_FOUND",
    "xstm": "goes on",
    "xstx": "PGOUTPUT_MARK_LOST",
    "xsxm": "goes on",
    "xsxx": "copies",
    "xxtm": "PGOUTPUT_SLOT_NOT_FOUND",
    "xxtx": "PGOUTPUT_MARK_LOST",
    "xxxm": "PGOUTPUT_SLOT_NOT_FOUND",
    "xxxx": "copies",
}
TABLES = {"t": "t"}

server = server_fixture(
    "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b');"
    "CREATE PUBLICATION p FOR TABLE t",
    scope="module",
)


def test_each_part_of_a_job_can_be_lost(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    assert set(OUTCOMES) == set(map("".join, itertools.product("cx", "sx", "tx", "mx")))
    first = LakeJob(tmp_path / "first", server, "delta", publication="p")
    with first.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        server.execute("UPDATE t SET v = 'c' WHERE id = 2")
        assert replicate(once=True).exit_code == 0
    server.execute(f"SELECT pg_copy_logical_replication_slot('{first.slot}', 'kept')")
    server.execute("INSERT INTO t VALUES (3, 'd')")
    found = {}
    for parts in OUTCOMES:
        found[parts] = _started(spark, first, parts)
    assert found == OUTCOMES


def _started(spark: SparkSession, first: LakeJob, parts: str) -> str:
    """Start the job with some of its parts, and tell what it did."""
    checkpoint, slot, state, table = (part != "x" for part in parts)
    server = first.server
    job = LakeJob(first.folder.parent / parts, server, "delta", slot=first.slot, publication="p")
    for source, copy, is_kept in [
        (first.checkpoint, job.checkpoint, checkpoint),
        (first.tables / "_spark_pgoutput", job.tables / "_spark_pgoutput", state),
        (first.tables / "t", job.tables / "t", table),
    ]:
        if is_kept:
            shutil.copytree(source, copy)
    if server.execute(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{job.slot}'"):
        server.execute(f"SELECT pg_drop_replication_slot('{job.slot}')")
    if slot:
        server.execute(f"SELECT pg_copy_logical_replication_slot('kept', '{job.slot}')")
    before = _commits(job)
    with job.session(spark) as replicate:
        try:
            done = replicate(once=True)
        except PySparkException as error:
            assert _commits(job) == before
            slots = server.execute("SELECT 1 FROM pg_replication_slots")
            assert len(slots) == 1 + slot, "the job has made or removed a slot"
            return str(error.getCondition())
        assert done.exit_code == 0
        assert_equal(spark, job, TABLES)
        return "copies" if any("Copied" in line for line in done.report()) else "goes on"


def _commits(job: LakeJob) -> set[str]:
    return {str(path) for path in job.tables.rglob("*.json")} if job.tables.exists() else set()


def test_a_job_that_was_killed_while_spark_wrote_its_first_offset_goes_on(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """Spark 4.1 and later start no query beside what such a kill leaves."""
    job = LakeJob(tmp_path, server, "delta", slot="offset", publication="p")
    left = job.checkpoint / "offsets" / ".0.6c6b6a1e-8c8e-4ad4-9a4b-2f1d3c9d3a11.tmp"
    left.parent.mkdir(parents=True)
    left.touch()
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, TABLES)
    assert not left.exists()


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_copy_does_not_add_to_rows_of_somebody_else(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """A copy that fails leaves its table empty, and a user can write into it."""
    server.execute(
        f"CREATE TABLE n_{target} (id int PRIMARY KEY, n numeric(8, 2));"
        f"INSERT INTO n_{target} VALUES (1, 'NaN'); CREATE PUBLICATION n_{target}"
        f" FOR TABLE n_{target}"
    )
    table = f"n_{target}"
    job = LakeJob(tmp_path, server, target, slot=table, publication=table)
    with job.session(spark) as replicate:
        with pytest.raises(PySparkException, match=rf"types\.public\.{table}\.n=STRING") as error:
            replicate(once=True)
        assert error.value.getCondition() == "PGOUTPUT_INVALID_VALUE"
        server.execute(f"UPDATE {table} SET n = 2")
        spark.sql(f"INSERT INTO {job.sql_name(table)} VALUES (9, 9.00)")
        with pytest.raises(PySparkException, match="rows that the job has not written") as error:
            replicate(once=True)
        assert error.value.getCondition() == "PGOUTPUT_TARGET_EXISTS"
        assert [row.id for row in spark.table(job.sql_name(table)).collect()] == [9]
        spark.sql(f"DELETE FROM {job.sql_name(table)}")
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, {table: table})


def test_a_table_that_leaves_the_publication_before_its_first_copy_can_come_back(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        "CREATE TABLE back (id int PRIMARY KEY, n numeric(8, 2));"
        "INSERT INTO back VALUES (1, 'NaN'); CREATE PUBLICATION back FOR TABLE t, back"
    )
    job = LakeJob(tmp_path, server, "delta", slot="back", publication="back")
    with job.session(spark) as replicate:
        with pytest.raises(PySparkException) as error:
            replicate(once=True)
        assert error.value.getCondition() == "PGOUTPUT_INVALID_VALUE"
        server.execute("ALTER PUBLICATION back DROP TABLE back")
        assert replicate(once=True).exit_code == 0
        server.execute("UPDATE back SET n = 2; ALTER PUBLICATION back ADD TABLE back")
        server.execute("INSERT INTO t VALUES (5, 'f'); INSERT INTO back VALUES (2, 3)")
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, {"t": "t", "back": "back"})


def test_one_error_names_what_is_missing_at_the_server_and_in_the_lake(
    tmp_path: Path, spark: SparkSession
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with Server(settings={"wal_level": "replica"}) as server:
        server.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text);"
            "CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert');"
            "CREATE ROLE reader LOGIN PASSWORD 'x'"
        )
        job = LakeJob(tmp_path, server, "delta", publication="p")
        reader = {"user": "reader", "password": "x"}
        of_server = [
            "(1) The server's wal_level is replica: ALTER SYSTEM SET wal_level = logical;",
            "ALTER ROLE reader REPLICATION;",
            "GRANT SELECT ON public.t TO reader;",
            "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate');",
        ]
        unwritable = f"{blocked}/lake"
        attempts: list[tuple[dict[str, str], list[str]]] = [
            ({}, []),
            ({"target": unwritable}, ["The job cannot make the table"]),
            ({"target": "none.shop", "format": "iceberg"}, ["does not write iceberg"]),
            ({"format": "iceberg"}, ["is a folder, which only Delta takes"]),
        ]
        with job.session(spark) as replicate:
            for options, of_target in attempts:
                with pytest.raises(PySparkException) as error:
                    replicate(once=True, **reader, **options)
                assert error.value.getCondition() == "PGOUTPUT_SOURCE_NOT_READY"
                text = str(error.value)
                assert f"for {len(of_server) + len(of_target)} reasons" in text
                assert all(part in text for part in [*of_server, *of_target]), text
            assert not list(job.tables.glob("*")), "the attempt to write has left something"
            server.execute("ALTER SYSTEM SET wal_level = logical")
            server.execute(
                "ALTER ROLE reader REPLICATION; GRANT SELECT ON t TO reader;"
                "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')"
            )
            server.stop_fast()
            server.start_again()
            with pytest.raises(PySparkException) as error:
                replicate(once=True, **reader, target=unwritable)
            assert error.value.getCondition() == "PGOUTPUT_TARGET_NOT_WRITABLE"
            assert server.execute("SELECT 1 FROM pg_replication_slots") == []
            assert replicate(once=True, **reader).exit_code == 0
