"""Errors that pass by themselves: a job tries again, and then the tables are equal."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_pgoutput.replication import Replication
from support import lake, lake_history, lake_operations
from support.job_report import states, wait_until_live
from support.lake_history import History
from support.lake_job import LakeJob, job_fixtures
from support.lake_judge import assert_equal
from support.lake_points import first_table_is_applied, suspend_at
from support.lake_target import LakeTarget, is_compacted
from support.processes import TIMEOUT, errors_of
from support.servers import Server, server_fixture, wait_until
from support.slot_kills import Kill, kill_postmaster, restart, restart_immediately
from support.slot_stream import is_executor

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(lake_history.SETUP)
job = job_fixtures(lake_history.PUBLICATION)[0]


def wait_until_applied(job: LakeJob, is_alive: Callable[[], bool]) -> None:
    """Wait until everything is applied that the server has committed up to now."""
    end = job.server.wal_end()

    def is_applied() -> bool:
        assert is_alive(), "the job has ended"
        return job.server.confirmed(job.slot) >= end

    wait_until(is_applied, TIMEOUT)


def runs(job: Replication) -> Callable[[], bool]:
    return lambda: not job.awaitTermination(0)


def test_a_job_survives_the_end_of_its_server(
    job: LakeJob, server: Server, spark: SparkSession
) -> None:
    history = History(server, seed=5)
    kills: list[Kill] = [restart, restart_immediately, kill_postmaster]
    with job.session(spark) as replicate:
        running = replicate()
        wait_until(job.is_read, TIMEOUT)
        for kill in kills:
            history.run(10)
            wait_until_applied(job, runs(running))
            history.run(10)
            kill(server)
            history.run(10)
            wait_until_applied(job, runs(running))
        running.stop()
        assert (running.exit_code, running.exception()) == (0, None)
        assert replicate(once=True).exit_code == 0
    assert_equal(spark, job)


def test_a_job_whose_sessions_end_at_once_waits_longer_and_longer(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta", slot="ended", publication=lake_history.PUBLICATION)
    pid = "SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'ended' AND active"
    ended: set[int] = set()
    with job.session(spark) as replicate:
        running = replicate()
        wait_until_live(running)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            for (process,) in server.execute(pid):
                server.execute(f"SELECT pg_terminate_backend({process})")
                ended.add(process)
            time.sleep(0.02)
        # The pauses are 0.5 s, 1 s, 2 s, 4 s and 8 s.
        assert 2 <= len(ended) <= 6, ended
        wait_until(job.is_read, TIMEOUT)
        assert running.exception() is None
        wait_until(lambda: "The job reads the slot again." in running.report(), TIMEOUT)


def test_a_job_survives_the_end_of_its_executors(
    job: LakeJob, server: Server, spark: SparkSession
) -> None:
    assert job.run_once() == 0
    settings = {"spark.executor.memory": "512m"}
    with (
        job.running(settings=settings, master="local-cluster[2,1,512]") as process,
        History(server, seed=6).running(),
    ):

        def is_alive() -> bool:
            assert process.poll() is None, errors_of(job.folder)[-5000:]
            return True

        for _ in range(3):
            wait_until_applied(job, is_alive)
            suspend_at(process, job, first_table_is_applied)
            children = psutil.Process(process.pid).children(recursive=True)
            for executor in filter(is_executor, children):
                executor.kill()
            os.killpg(process.pid, signal.SIGCONT)
        wait_until_applied(job, is_alive)
        os.kill(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 128 + signal.SIGTERM, errors_of(job.folder)[-5000:]
        assert "The state is not written" not in output  # the job ended in order
    # Executors only have work if a table has no key: the driver writes the other cuts by itself.
    assert "public.readings: " in output, output[-5000:]
    assert job.run_once() == 0
    assert_equal(spark, job)


def test_a_job_goes_on_beside_compactions(
    job: LakeJob, server: Server, spark: SparkSession
) -> None:
    with job.session(spark) as replicate:
        target = LakeTarget(spark, job.target)
        running = replicate()
        wait_until_live(running)
        compactions = 0
        report: list[str] = []
        with History(server, seed=7).running():
            deadline = time.monotonic() + TIMEOUT
            # A job that commits each second makes most compactions fail.
            while compactions < 3:
                assert time.monotonic() < deadline, (compactions, report)
                for table in ("orders", "order_lines"):
                    compactions += is_compacted(target, table)
                report += running.report()
        running.stop()
        print(*report, *running.report(), sep="\n")
        assert (running.exit_code, running.exception()) == (0, None)
        assert replicate(once=True).exit_code == 0
    assert_equal(spark, job)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_table_that_is_altered_for_long_delays_no_other(
    target: str, tmp_path: Path, spark: SparkSession
) -> None:
    """The server reads the row filter of a table only when it gets the lock of the table."""
    with Server() as server:
        server.execute(lake_operations.SETUP)
        server.execute("ALTER PUBLICATION shop SET TABLE orders WHERE (id > 0), seats, readings")
        job = LakeJob(tmp_path, server, target)
        with job.session(spark) as replicate:
            running = replicate()
            wait_until_live(running)
            with server.open_transaction() as altering:
                altering.execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")
                server.execute("ALTER TABLE seats ADD COLUMN added int")
                server.execute("UPDATE seats SET added = id; INSERT INTO readings VALUES (1, 'b')")

                def is_applied() -> bool:
                    seats = spark.sql(f"SELECT * FROM {job.sql_name('seats')}")
                    readings = spark.sql(f"SELECT * FROM {job.sql_name('readings')} WHERE y = 'b'")
                    has_column = (
                        "added" in seats.columns and seats.where("added = id").count() == 50
                    )
                    return has_column and readings.count() == 1

                wait_until(is_applied, 60, pause=0.5)
                server.execute(
                    "CREATE TABLE added (id int); ALTER PUBLICATION shop ADD TABLE added"
                )
                server.execute("INSERT INTO added VALUES (1)")
                # The snapshot of its copy waits for all transactions that are open.
                wait_until(lambda: states(running).get("added") == "copying", 60, pause=0.5)
                before = time.monotonic()
                running.stop()
                assert time.monotonic() - before < 20
                # A job that starts does not wait for the lock, either.
                again = replicate()
                server.execute("INSERT INTO readings VALUES (2, 'c')")
                end = server.wal_end()
                wait_until(lambda: server.confirmed(job.slot) >= end, 60)
                again.stop()
            assert (running.exit_code, running.exception()) == (0, None)
            assert (again.exit_code, again.exception()) == (0, None)
            assert replicate(once=True).exit_code == 0
            assert_equal(spark, job, lake_operations.TABLES)
