"""A job that starts over: it copies all tables, with a new slot and a new checkpoint."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.history_judge import assert_copies, assert_histories
from support.job_folder import job_state
from support.job_report import JobReport, wait_until_live
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_operations import SETUP, TABLES, back_up, copied, restore, write
from support.lake_points import commits, is_being_written, kill_when
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until
from support.suspension import suspend_when

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(SETUP)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_starts_over_after_a_loss_of_its_slot_or_checkpoint(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)

    def invalidate_slot() -> None:
        server.configure(max_slot_wal_keep_size="1MB")
        server.execute(
            "SELECT pg_switch_wal(); CREATE TABLE w (); SELECT pg_switch_wal(); DROP TABLE w"
        )
        server.execute("CHECKPOINT")
        server.configure(max_slot_wal_keep_size="-1")

    def lose_slot() -> None:
        server.drop_slot(job.slot)

    def lose_checkpoint() -> None:
        shutil.rmtree(job.checkpoint)

    def lose_slot_and_checkpoint() -> None:
        lose_slot()
        lose_checkpoint()

    def move_slot() -> None:
        advance = f"pg_replication_slot_advance('{job.slot}', pg_current_wal_flush_lsn())"
        server.execute(f"SELECT {advance}")

    lost: dict[Callable[[], None], str] = {
        invalidate_slot: "PGOUTPUT_SLOT_INVALIDATED",
        move_slot: "PGOUTPUT_SLOT_MOVED",
        lose_slot: "PGOUTPUT_SLOT_NOT_FOUND",
        lose_checkpoint: "PGOUTPUT_CHECKPOINT_LOST",
        lose_slot_and_checkpoint: "PGOUTPUT_CHECKPOINT_LOST",
    }
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        for lose, condition in lost.items():
            write(server, lose.__name__)
            lose()
            with pytest.raises(PySparkException) as caught:
                replicate(once=True)
            assert caught.value.getCondition() == condition
            assert "spark-pgoutput resync --all" in str(caught.value)
            if job.checkpoint.exists():
                asked = spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            else:
                asked = spark_pgoutput.resync(spark, target=job.target, all=True)
                if job.format == "delta":
                    newest, *_ = spark.sql(f"DESCRIBE HISTORY {job.sql_name('orders')}").collect()
            assert asked == []
            write(server, "requested")
            assert copied(replicate(once=True)) == 3
            assert_equal(spark, job, TABLES)
            write(server, "later")
            assert copied(replicate(once=True)) == 0
            assert_equal(spark, job, TABLES)
        if job.format == "delta":
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            assert copied(replicate(once=True)) == 3
            # The table asks for copies of all tables again, and the job has made them.
            version = newest["version"]
            spark.sql(f"RESTORE TABLE {job.sql_name('orders')} TO VERSION AS OF {version}")
            assert copied(replicate(once=True)) == 1
            assert_equal(spark, job, TABLES)
            properties = spark.sql(f"SHOW TBLPROPERTIES {job.sql_name('orders')}").collect()
            assert ("spark-pgoutput.start-over", "false") in properties


def test_one_of_two_jobs_that_share_a_target_starts_over(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        "CREATE PUBLICATION first FOR TABLE orders; CREATE PUBLICATION second FOR TABLE seats"
    )
    first = LakeJob(tmp_path, server, "delta", "first", "first")
    second = LakeJob(tmp_path, server, "delta", "second", "second")
    second.checkpoint = tmp_path / "second"
    with first.session(spark) as replicate, second.session(spark) as replicate_second:
        assert (copied(replicate(once=True)), copied(replicate_second(once=True))) == (1, 1)
        shutil.rmtree(second.checkpoint)
        with pytest.raises(PySparkException, match="have the slots first, second"):
            spark_pgoutput.resync(spark, target=first.target, all=True)
        with pytest.raises(PySparkException, match="has no table of a job of replicate"):
            spark_pgoutput.resync(spark, target=first.target, all=True, slot="third")
        spark_pgoutput.resync(spark, target=first.target, all=True, slot="second")
        write(server, "requested")
        assert (copied(replicate(once=True)), copied(replicate_second(once=True))) == (0, 1)
        assert_equal(spark, first, {"orders": "orders", "seats": "seats"})


def rows(spark: SparkSession, job: LakeJob, table: str) -> list[tuple[object, ...]]:
    name = job.sql_name(table)
    return [tuple(row) for row in spark.table(name).orderBy("id").collect()]


def test_a_table_that_is_published_again_is_copied(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The job has left the table as it was, with its old mark."""
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        server.execute("ALTER PUBLICATION shop DROP TABLE seats")
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
        assert copied(replicate(once=True)) == 2
        write(server, "missed")
        assert copied(replicate(once=True)) == 0
        server.execute("ALTER PUBLICATION shop ADD TABLE seats")
        write(server, "later")
        assert copied(replicate(once=True)) == 1
        assert_equal(spark, job, TABLES)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_table_that_is_published_again_during_the_copies_is_copied(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """A table that was dropped and made again after its copy is copied again, too."""
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        server.execute("ALTER PUBLICATION shop DROP TABLE seats")
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
        job.slot = "another"
        before = commits(job, "readings")

        def is_copied() -> bool:
            # The first three commits are the two that close the table and the properties.
            return commits(job, "readings") > before + 3

        with job.running() as process:
            kill_when(process, job, is_copied)
        server.execute(
            "ALTER PUBLICATION shop ADD TABLE seats; DROP TABLE readings;"
            "CREATE TABLE readings (x int, y text); ALTER TABLE readings REPLICA IDENTITY FULL;"
            "INSERT INTO readings VALUES (1, 'again'); ALTER PUBLICATION shop ADD TABLE readings"
        )
        write(server, "published")
        assert copied(replicate(once=True)) in (2, 3)  # the copy of orders can have ended
        write(server, "later")
        assert copied(replicate(once=True)) == 0
        assert_equal(spark, job, TABLES)


def test_a_job_that_starts_over_waits_for_its_server(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The connection that makes the slot ends, and then others use all slots of the server."""
    job = LakeJob(tmp_path, server, "delta")
    makes = (
        "SELECT pid FROM pg_stat_activity WHERE state = 'active' "
        "AND query LIKE 'SELECT pg_create_logical_replication_slot%'"
    )

    with job.session(spark) as replicate:
        running = replicate()
        wait_until_live(running)
        report = JobReport(running)
        with server.open_transaction():
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            wait_until(lambda: server.execute(makes), TIMEOUT)
            server.execute(f"SELECT pg_terminate_backend(pid) FROM ({makes}) AS found")
            wait_until(lambda: not server.execute(makes), TIMEOUT)
            server.execute(
                "SELECT pg_create_physical_replication_slot('taken_' || number) "
                "FROM generate_series(1, current_setting('max_replication_slots')::int "
                "- (SELECT count(*)::int FROM pg_replication_slots)) AS number"
            )
            wait_until(lambda: report.lines("all replication slots are in use"), TIMEOUT)
            server.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                "WHERE slot_type = 'physical'"
            )
        wait_until_live(running)
        write(server, "later")
        running.stop()
        assert (running.exit_code, running.exception()) == (0, None)
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, TABLES)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_history_goes_on_when_its_job_starts_over(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, mode="history")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        for copies in (2, 3):
            write(server, "missed")
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            assert copied(replicate(once=True)) == 3
            write(server, "later")
            assert copied(replicate(once=True)) == 0
            for changes in assert_histories(spark, job, TABLES).values():
                assert_copies(changes, copies)


@pytest.mark.parametrize("way", ["another history", "the server has gone on"])
def test_the_history_of_a_restored_server_does_not_go_back(
    way: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta", mode="history")
    tables = TABLES
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        back_up(server)
        write(server, "lost")
        server.execute("SELECT pg_switch_wal()")
        write(server, "lost, too")
        assert replicate(once=True).exit_code == 0
        restore(server)
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
        rows = {table: spark.table(job.sql_name(table)).count() for table in TABLES}
        stopped = replicate(once=True)
        assert stopped.exit_code == 3
        reasons = stopped.failed()
        assert len(reasons) == len(TABLES)
        assert all("PGOUTPUT_TARGET_EXISTS" in reason for reason in reasons)
        assert all("another name for names.public." in reason for reason in reasons)
        assert {table: spark.table(job.sql_name(table)).count() for table in TABLES} == rows
        if way == "another history":
            tables = {table: f"{table}_2" for table in TABLES}
            job.names = tables
        else:
            for _ in range(2):
                write(server, "gone on")
                server.execute("SELECT pg_switch_wal()")
        assert copied(replicate(once=True)) == 3
        write(server, "later")
        assert copied(replicate(once=True)) == 0
        for changes in assert_histories(spark, job, tables).values():
            assert_copies(changes, 1 if way == "another history" else 2)


def test_a_running_job_starts_over(server: Server, tmp_path: Path, spark: SparkSession) -> None:
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        process = replicate()
        report = JobReport(process)
        wait_until_live(process)
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
        write(server, "running")
        wait_until(lambda: len(report.lines("Copied ")) == 2 * len(TABLES), TIMEOUT)
        wait_until_live(process)
        write(server, "later")
        process.stop()
        assert len(report.lines("Copied ")) == 2 * len(TABLES)
        assert copied(replicate(once=True)) == 0
    assert_equal(spark, job, TABLES)


def test_a_job_starts_over_although_a_suspended_process_has_its_slot(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """A host that has gone keeps its session too, until the server notices it."""
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        epoch = job_state(job.checkpoint).epoch
        # Spark would give up its own executor, which is suspended too.
        with job.running(settings={"spark.network.timeout": "1h"}) as old:
            has_epoch = job.while_running(old, lambda: job_state(job.checkpoint).epoch > epoch)
            wait_until(has_epoch, TIMEOUT)
            os.killpg(old.pid, signal.SIGSTOP)
            assert job.is_read()
            write(server, "slept")
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            assert copied(replicate(once=True)) == 3
            os.killpg(old.pid, signal.SIGCONT)
            job.assert_replaced(old)
        write(server, "later")
        assert copied(replicate(once=True)) == 0
        assert_equal(spark, job, TABLES)


def test_only_one_of_two_processes_starts_over_for_a_request(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The other one is suspended before it drops the slot, which then is that of the first one."""
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
        before = commits(job, "orders")
        # Spark would give up its own executor, which is suspended too.
        with job.running("--once", settings={"spark.network.timeout": "1h"}) as other:
            is_closing = job.while_running(other, lambda: commits(job, "orders") > before)
            suspend_when(other.pid, is_closing)
            assert copied(replicate(once=True)) == len(TABLES)
            write(server, "kept")
            os.killpg(other.pid, signal.SIGCONT)
            output, _ = other.communicate(timeout=TIMEOUT)
            assert other.returncode == 0, job.ending(other)
        assert "The job goes on with 3 tables" in output
        assert "The server makes the slot" not in output
        assert_equal(spark, job, TABLES)
        write(server, "later")
        assert copied(replicate(once=True)) == 0
        assert_equal(spark, job, TABLES)


# The steps of a job that starts over, by their visible effects.
STEPS: dict[str, Callable[[LakeJob, dict[str, int]], bool]] = {
    "a table is closed": lambda job, before: commits(job, "orders") > before["orders"],
    "the slot is made": lambda job, before: slot_is_made(job, before),
    "the state is written": lambda job, before: len(requests(job)) < before["requests"],
    # The first commit of a copy has its properties. A start with a request closes the table before,
    # in two commits.
    "a table is copied": lambda job, before: any(
        commits(job, table) > before[table] + 1 + before["requests"] for table in TABLES
    ),
}


def requests(job: LakeJob) -> list[Path]:
    """Return the files of the requests that the job has not handled."""
    return list((job.checkpoint / "requests").glob("*.json"))


def slot_is_made(job: LakeJob, before: dict[str, int]) -> bool:
    query = "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots"
    found = job.server.execute(query)
    return bool(found) and found[0][0] is not None and int(found[0][0]) > before["slot"]


@pytest.mark.parametrize("target", lake.TARGETS)
def test_tables_are_equal_after_a_kill_at_each_step(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
    write(server, "missed")
    server.execute("SELECT pg_replication_slot_advance('lake', pg_current_wal_flush_lsn())")
    spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
    before = {"slot": server.confirmed(job.slot)}
    for number, name in enumerate(STEPS):
        before |= {table: commits(job, table) for table in TABLES}
        before["requests"] = len(requests(job))
        before_rows = rows(spark, job, "seats")
        # The slot waits for this transaction.
        with job.running() as process, server.open_transaction() as blocking:
            if name != "a table is closed":
                blocking.execute("ROLLBACK")
            kill_when(process, job, lambda: is_there(job, number, before))  # noqa: B023
        print(f"killed when {name}")
        if name in list(STEPS)[:3]:
            assert rows(spark, job, "seats") == before_rows
        write(server, name)
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, TABLES)
        write(server, "later")
        assert copied(replicate(once=True)) == 0
    assert_equal(spark, job, TABLES)


def is_there(job: LakeJob, number: int, before: dict[str, int]) -> bool:
    """Return whether a job has reached a step. It must not have reached the next one."""
    is_reached, *later = list(STEPS.values())[number : number + 2]
    assert not any(is_next(job, before) for is_next in later), "the job was faster than the test"
    return is_reached(job, before)


def test_a_suspended_driver_of_the_first_server_changes_nothing(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """It is suspended while it writes the files of a commit, and the job starts over elsewhere."""
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate, Server() as other:
        assert replicate(once=True).exit_code == 0
        other.execute(SETUP)
        begun = {table: commits(job, table) for table in TABLES}

        def is_writing() -> bool:
            assert old.poll() is None, job.ending(old)
            now = {table: commits(job, table) for table in TABLES}
            assert now == begun, "the job was faster than the test"
            return any(is_being_written(job, table, written) for table in TABLES)

        # Spark would give up its own executor, which is suspended too.
        with job.running(settings={"spark.network.timeout": "1h"}) as old:
            job.wait_until_connected(old)
            written = time.time()
            write(server, "slept")
            suspend_when(old.pid, is_writing)
            job.server = other
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            assert replicate(once=True).exit_code == 0
            before = {table: commits(job, table) for table in TABLES}
            os.killpg(old.pid, signal.SIGCONT)
            job.assert_replaced(old)
        assert {table: commits(job, table) for table in before} == before
        write(other, "later")
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, TABLES)
