"""Tables that are copied while the stream runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput import reports
from spark_pgoutput.checkpoint import LastStatus
from support import lake
from support.job_report import JobReport, states, wait_until_live
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_resync import SETUP, STEPS, TABLES, Resync, kill_at_step, kill_in_resync, writing
from support.lsn import parsed_lsn
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(SETUP)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_tables_are_copied_while_the_stream_runs(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        process = replicate()
        wait_until_live(process)
        with writing(server):
            # A snapshot waits for this transaction, and the stream does not.
            with server.open_transaction():
                asked = spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["orders"])
                assert asked == ["public.orders"]
                server.execute(
                    "CREATE TABLE added (id int PRIMARY KEY, v text);"
                    "INSERT INTO added SELECT g, 'a' FROM generate_series(1, 50) g;"
                    "ALTER PUBLICATION shop ADD TABLE added;"
                    "ALTER TABLE seats ADD COLUMN fresh int DEFAULT 7"
                )
                wait_for(lambda: copying(process) == {"orders", "added", "seats"})
                server.execute(
                    "INSERT INTO added VALUES (51, 'b'); UPDATE added SET v = 'c' WHERE id < 9"
                )
                applied = lsn(process, "other")
                wait_for(lambda: lsn(process, "other") > applied)
                assert copying(process) == {"orders", "added", "seats"}
            wait_for(lambda: not copying(process))
            server.execute("DELETE FROM added WHERE id = 3")
        process.stop()
        assert replicate(once=True).exit_code == 0
    assert_equal(spark, job, TABLES)
    assert_status(spark, job)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_copy_that_is_asked_for_during_another_begins_after_it(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The second request comes while the server makes the snapshot of the first copy, or later."""
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        process = replicate()
        report = JobReport(process)
        wait_until_live(process)
        with writing(server, pause=0.05):
            resync = Resync(job)
            with server.open_transaction():
                spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["orders"])
                wait_for(lambda: resync.step() == STEPS.index("copy begins"))
            wait_for(lambda: resync.step() >= STEPS.index("table is replaced"))
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["orders"])
            wait_for(lambda: len(report.lines("Copied public.orders: ")) == 3)
            wait_until_live(process)
        process.stop()
        assert replicate(once=True).exit_code == 0
    assert_equal(spark, job, {table: table for table in ("orders", "seats", "other")})
    assert resync.requests == []


def test_a_table_is_found_within_a_minute_although_no_rows_are_written(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The job looks at the catalog once a minute."""
    server.configure(autovacuum="off", checkpoint_timeout="1h")  # which write WAL by themselves
    server.execute("CREATE TABLE added (id int PRIMARY KEY, v text); INSERT INTO added VALUES (1)")
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        process = replicate()
        wait_until_live(process)
        server.execute("ALTER PUBLICATION shop ADD TABLE added")
        wait_until(lambda: process.status().where("target = 'added'").count(), 80.0, pause=1)
        wait_for(lambda: not copying(process))
        process.stop()
    assert_equal(spark, job, TABLES)


def assert_status(spark: SparkSession, job: LakeJob) -> None:
    """Check what the commands say about a job that has ended after it had read everything."""
    tables = spark_pgoutput.applied(spark, job.checkpoint, rows=True).orderBy("table").collect()
    assert [row.table for row in tables] == sorted(f"public.{table}" for table in TABLES)
    for row in tables:
        assert (row["mode"], row.state, row.reason) == ("mirror", "live", None)
        assert row.rows == job.server.value(f"SELECT count(*) FROM {row.table}")
        flushed = f"SELECT pg_current_wal_flush_lsn() >= '{row.lsn}'"
        assert job.server.value(flushed)
    slot = LastStatus(spark, job.checkpoint).slot(slot=job.slot, **job.server.account)
    behind = job.server.value(f"SELECT pg_current_wal_flush_lsn() - '{slot['lsn']}'")
    assert 0 <= int(slot["bytesBehindLatest"]) <= int(behind)
    assert slot["active"] == "false"
    shown = reports.status_text(tables, slot)
    assert max(map(len, shown.splitlines())) <= 80, shown
    assert all(row.lsn in shown for row in tables)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_tables_are_equal_after_a_kill_at_each_step_of_a_resync(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute("CREATE TABLE added (id int PRIMARY KEY, v text)")
    server.execute("ALTER PUBLICATION shop ADD TABLE added")
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        for step in range(1, len(STEPS)):
            with job.running() as process, writing(server, seed=step):
                kill_in_resync(spark, job, process, step)
            assert replicate(once=True).exit_code == 0
            assert Resync(job).requests == [], STEPS[step]
            assert_equal(spark, job, TABLES)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_table_that_somebody_removes_after_its_copy_is_copied_again(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The copy is committed, and the state does not say so yet."""
    server.execute("CREATE TABLE added (id int PRIMARY KEY, v text)")
    server.execute("ALTER PUBLICATION shop ADD TABLE added")
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        with job.running() as process, writing(server):
            kill_in_resync(spark, job, process, STEPS.index("table is replaced"))
        shutil.rmtree(job.tables / "orders")
        again = replicate(once=True)
        assert again.exit_code == 0
        assert copied_tables(again) == ["public.orders"]
        assert_equal(spark, job, TABLES)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_that_does_not_run_handles_its_requests_at_its_next_start(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """A table that several requests name is copied once."""
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        replicate(once=True)
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["orders"])
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["seats", "orders"])
        assert len(Resync(job).requests) == 2
        again = replicate(once=True)
        assert again.exit_code == 0
        assert copied_tables(again) == ["public.orders", "public.seats"]
        assert Resync(job).requests == []
        assert copied_tables(replicate(once=True)) == []
    assert_equal(spark, job, {table: table for table in ("orders", "seats", "other")})


def test_a_partition_is_dropped_while_its_table_waits_for_a_copy(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Server() as server:
        server.execute(
            "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);"
            "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10);"
            "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (10) TO (20);"
            "INSERT INTO parts SELECT g, 'v' FROM generate_series(1, 19) g;"
            "CREATE PUBLICATION shop FOR TABLE parts WITH (publish_via_partition_root)"
        )
        job = LakeJob(tmp_path, server, "delta")
        assert job.run_once() == 0
        resync = Resync(job, "parts")
        with job.running() as process, server.open_transaction():
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables="public.parts")
            kill_at_step(process, resync, STEPS.index("copy begins"))
        server.execute("DROP TABLE low; UPDATE parts SET v = 'w' WHERE id > 15")
        assert job.run_once() == 0
        assert_equal(spark, job, {"parts": "parts"})


def test_a_failed_copy_uses_the_options_and_the_columns_of_its_next_try(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        server.execute(
            "CREATE TABLE days (id int PRIMARY KEY, d date);"
            "INSERT INTO days VALUES (1, 'infinity');"
            f"ALTER PUBLICATION {job.publication} ADD TABLE days"
        )
        failed = replicate(once=True)
        assert failed.exit_code == 3
        (reason,) = failed.failed()
        assert "types.public.days.d=STRING" in reason
        with pytest.raises(PySparkException, match=r"types\.public\.days\.d=STRING"):
            replicate(once=True, onTableError="stop")
        assert replicate(once=True, types={"public.days.d": "STRING"}).exit_code == 0
    assert spark.table(job.sql_name("days")).collect() == [(1, "infinity")]


def test_a_table_without_changes_is_copied_again_while_others_have_many(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The table is copied each time, however often its rows change without a message."""
    with Server() as server:
        server.execute(
            "CREATE TABLE lookup (id int PRIMARY KEY, n int); INSERT INTO lookup VALUES (1, 1);"
            "CREATE TABLE busy (id serial PRIMARY KEY); INSERT INTO busy DEFAULT VALUES;"
            "CREATE PUBLICATION shop FOR TABLE lookup, busy"
        )
        job = LakeJob(tmp_path, server, "delta")
        with job.session(spark) as replicate:
            process = replicate()
            report = JobReport(process)

            def is_copied(times: int) -> bool:
                assert process.exception() is None
                server.execute("INSERT INTO busy DEFAULT VALUES")
                return len(report.lines("Copied public.lookup: ")) == times

            for number in range(1, 7):
                wait_until(partial(is_copied, number), TIMEOUT, 1)
                server.execute("ALTER TABLE lookup ALTER n TYPE int USING n + 1")
                # A request makes the job look at the catalog at once.
                spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["busy"])
            process.stop()
            assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, {"lookup": "lookup", "busy": "busy"})


def wait_for(holds: Callable[[], object]) -> None:
    wait_until(holds, 2 * TIMEOUT, pause=0.2)


def copying(process: spark_pgoutput.Replication) -> set[str]:
    """Return the tables that are being copied."""
    return {table for table, state in states(process).items() if state == "copying"}


def copied_tables(process: spark_pgoutput.Replication) -> list[str]:
    """Return the tables that a job has copied, sorted."""
    lines = [line.split(": ")[0] for line in process.report()]
    return sorted(line.removeprefix("Copied ") for line in lines if line.startswith("Copied "))


def lsn(process: spark_pgoutput.Replication, table: str) -> int:
    """Return the LSN up to which a table has all changes."""
    (row,) = process.status().where(f"target = '{table}'").collect()
    return parsed_lsn(row.lsn)
