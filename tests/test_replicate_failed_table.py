"""A table that has failed keeps its queue for a time, and goes on from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import lake
from support.job_folder import job_state
from support.job_report import generations, wait_until_live
from support.job_tables import JobTables, wait_until_equal
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lsn import parsed_lsn
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = lake.needs_lake

OTHERS = ("a", "b", "c", "d", "e")
SETUP = f"""
{"".join(f"CREATE TABLE {name} (id int PRIMARY KEY, v text);" for name in (*OTHERS, "drifted"))}
CREATE TABLE endless (id int PRIMARY KEY, d date);
INSERT INTO endless VALUES (1, '2026-01-31');
INSERT INTO drifted VALUES (1, 'one'), (2, 'two');
CREATE PUBLICATION p FOR ALL TABLES;
"""

server = server_fixture(SETUP)


@pytest.mark.lake
def test_a_failed_table_goes_on_from_its_queue_or_is_copied(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta", publication="p")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        first = generations(job)
        failing = parsed_lsn(server.value("SELECT pg_current_wal_insert_lsn()"))
        spark.sql(f"DELETE FROM {job.sql_name('drifted')} WHERE id = 2")
        server.execute("UPDATE drifted SET v = 'changed' WHERE id = 2")
        server.execute("INSERT INTO endless VALUES (2, 'infinity')")

        # Two tables fail, and their changes wait. The others go on.
        running = replicate()
        tables = JobTables(running)
        tables.wait("failed", "drifted", reason="PGOUTPUT_TARGET_DIFFERS")
        tables.wait("failed", "endless", reason="infinity")
        assert sorted(line.split(":")[0] for line in running.failed()) == [
            "public.drifted",
            "public.endless",
        ]
        for name in OTHERS:
            server.execute(f"INSERT INTO {name} SELECT g, 'x' FROM generate_series(1, 10) g")
        server.execute("INSERT INTO drifted SELECT g, 'x' FROM generate_series(3, 1000) g")
        wait_until_equal(spark, job, running, OTHERS)
        assert tables.rows()["drifted"].queue_changes == 999
        assert tables.rows()["drifted"].lag > 0
        running.stop()
        assert (running.exit_code, running.exception()) == (3, None)
        # The server keeps the changes that wait. They are stored nowhere else.
        assert server.confirmed(job.slot) <= failing + 1000

        # An option helps one of the two, which needs no copy. The other one holds too much WAL.
        running = replicate(onDrift="repair", maxHeldWal="1m")
        tables = JobTables(running)
        wait_until_equal(spark, job, running, ["drifted"])
        tables.wait("failed", "endless", reason="infinity")
        server.execute("INSERT INTO a SELECT g, repeat('x', 1000) FROM generate_series(11, 3000) g")
        wait_until_equal(spark, job, running, OTHERS)
        tables.wait("failed", "endless", reason="maxHeldWal")
        written = parsed_lsn(server.value("SELECT pg_current_wal_insert_lsn()"))
        server.execute("INSERT INTO b VALUES (11, 'last')")
        wait_until_equal(spark, job, running, OTHERS)
        running.stop()
        assert job_state(job.checkpoint).tables["endless"]["status"]["needsCopy"]
        assert server.confirmed(job.slot) >= written
        assert generations(job) == first

        # The value is still there, so the copy fails too, and it holds back nothing.
        assert replicate(once=True).exit_code == 3
        assert server.confirmed(job.slot) >= written
        last = replicate(once=True, types={"public.endless.d": "STRING"})
        assert (last.exit_code, last.failed()) == (0, [])
        copied = generations(job)
        assert copied.pop("endless") > first.pop("endless")
        assert copied == first
    assert_equal(spark, job, {name: name for name in (*OTHERS, "drifted")})
    rows = spark.table(job.sql_name("endless")).orderBy("id").collect()
    assert rows == [(1, "2026-01-31"), (2, "infinity")]


@pytest.mark.lake
def test_a_table_whose_deletes_are_not_published_fails_until_they_are(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Server() as server:
        server.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b');"
            "CREATE PUBLICATION shop FOR TABLE t"
        )
        job = LakeJob(tmp_path, server, "iceberg")
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
            running = replicate()
            wait_until_live(running)
            server.execute("ALTER PUBLICATION shop SET (publish = 'insert')")
            server.execute("INSERT INTO t VALUES (3, 'c')")
            wait_until(running.failed, 2 * TIMEOUT)
            (reason,) = running.failed()
            assert "changes of public.t by update, delete, truncate" in reason
            statement = "ALTER PUBLICATION shop SET (publish = 'insert, update, delete, truncate');"
            assert statement in reason
            server.execute("DELETE FROM t WHERE id = 1")
            server.execute(statement)
            wait_until(lambda: not running.failed(), 2 * TIMEOUT)
            server.execute("DELETE FROM t WHERE id = 2")
            wait_until_live(running)
            running.stop()
            assert replicate(once=True).exit_code == 0
        assert [row.id for row in spark.table(job.sql_name("t")).collect()] == [3]
