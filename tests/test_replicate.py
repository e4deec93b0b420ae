"""Tables of a real server, kept equal in Delta and Iceberg."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake, lake_history
from support.history_judge import assert_histories
from support.lake_history import History
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_points import APPLYING, COPYING, kill, kill_at
from support.postgres_binaries import VERSIONS
from support.servers import Server

pytestmark = lake.needs_lake


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with Server(getattr(request, "param", 18)) as server:
        server.execute(lake_history.SETUP)
        yield server


@pytest.mark.parametrize("target", lake.TARGETS)
def test_tables_are_equal_after_a_kill(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """It goes on in another session, which is there already, and compares the tables itself."""
    job = LakeJob(tmp_path, server, target, mode={"readings": "history"})
    history = History(server, seed=1)
    with job.running() as process:
        kill_at(process, job, COPYING[-1])
    history.run(60)
    job.use(spark)
    found = spark_pgoutput.verify(spark, once=True, **job.options).collect()  # type: ignore[arg-type]
    rows = {name: table for name, table in lake_history.TABLES.items() if name != "readings"}
    assert {row.target: row.result for row in found} == {
        **dict.fromkeys(rows.values(), "equal"),
        "readings": "skipped",
    }
    assert_equal(spark, job, rows)
    assert_histories(spark, job, {"readings": "readings"})


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
@pytest.mark.parametrize("server", VERSIONS, indirect=True)
def test_job_is_killed_between_two_steps(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    history = History(server, seed=2)
    for points in (COPYING, APPLYING):
        for point in points:
            with history.running(), job.running() as process:
                kill_at(process, job, point)
        assert job.run_once() == 0
        assert_equal(spark, job)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
@pytest.mark.parametrize("server", VERSIONS, indirect=True)
def test_job_is_killed_again_and_again(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """Between two kills, the job copies or applies for some seconds.

    Each target gets 20 kills, 4 of them on each version of the server.
    """
    job = LakeJob(tmp_path, server, target)
    moments = random.Random(server.version)
    with History(server, seed=server.version).running():
        for _ in range(20 // len(VERSIONS)):
            with job.running() as process:
                job.wait_until_connected(process)
                time.sleep(moments.uniform(0, 8))
                assert process.poll() is None, "the job has ended"
                kill(process)
    assert job.run_once() == 0
    assert_equal(spark, job)
