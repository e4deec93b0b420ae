"""Errors that pass by themselves: a job tries again, and the tables are equal then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_pgoutput.replication import Replication
from support import lake, lake_history
from support.lake_history import History
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_target import LakeTarget, compact
from support.processes import TIMEOUT, errors_of
from support.servers import Server, server_fixture, wait_until
from support.slot_kills import Kill, kill_postmaster, restart, restart_immediately
from support.slot_stream import is_executor, numbers

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(lake_history.SETUP)


@pytest.fixture(params=lake.TARGETS)
def job(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> LakeJob:
    return LakeJob(tmp_path, server, request.param)


def wait_for_batches(job: LakeJob, number: int, is_alive: Callable[[], bool]) -> None:
    """Wait until Spark has committed more micro-batches."""
    commits = job.checkpoint / "commits"
    last = max(numbers(commits), default=-1) + number

    def has_committed() -> bool:
        assert is_alive(), "the job has ended"
        return max(numbers(commits), default=-1) >= last

    wait_until(has_committed, TIMEOUT)


def runs(job: Replication) -> Callable[[], bool]:
    return lambda: not job.awaitTermination(0)


def test_a_job_survives_the_end_of_its_server(
    job: LakeJob, server: Server, spark: SparkSession
) -> None:
    history = History(server, seed=5)
    kills: list[Kill] = [restart, restart_immediately, kill_postmaster]
    with job.session(spark) as replicate:
        running = replicate()
        for kill in kills:
            history.run(10)
            wait_for_batches(job, 1, runs(running))
            history.run(10)
            kill(server)
            history.run(10)
            wait_for_batches(job, 1, runs(running))
        running.stop()
        assert (running.exit_code, running.exception()) == (0, None)
        assert replicate(once=True).exit_code == 0
    assert_equal(spark, job)


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
            wait_for_batches(job, 2, is_alive)
            children = psutil.Process(process.pid).children(recursive=True)
            for executor in filter(is_executor, children):
                executor.kill()
                time.sleep(1)
        wait_for_batches(job, 2, is_alive)
        os.kill(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 128 + signal.SIGTERM, errors_of(job.folder)[-5000:]
        assert "Everything below" in output  # the job was ended in order
    assert job.run_once() == 0
    assert_equal(spark, job)


def test_a_job_goes_on_beside_compactions(
    job: LakeJob, server: Server, spark: SparkSession
) -> None:
    with job.session(spark) as replicate:
        target = LakeTarget(spark, job.target)
        running = replicate()
        wait_until(lambda: running.query, TIMEOUT)
        with History(server, seed=7).running():
            compactions = 0
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                for table in ("orders", "order_lines"):
                    with suppress(PySparkException):  # the job was faster
                        compact(target, table)
                        compactions += 1
        assert compactions > 5
        running.stop()
        print(*running.report(), sep="\n")
        assert (running.exit_code, running.exception()) == (0, None)
        assert replicate(once=True).exit_code == 0
    assert_equal(spark, job)
