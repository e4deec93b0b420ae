"""A job on a standalone cluster, whose workers are killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import lake
from support.cluster import cluster, kill_machine
from support.job_tables import is_equal
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = [lake.needs_lake, pytest.mark.infra]

ROWS = 400_000

SETUP = f"""
CREATE TABLE good (id int PRIMARY KEY, v text);
INSERT INTO good SELECT g, repeat(md5(g::text), 8) FROM generate_series(1, {ROWS}) g;
CREATE PUBLICATION p FOR ALL TABLES;
"""

server = server_fixture(SETUP)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_goes_on_when_workers_are_killed(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """One worker is killed while a table is copied, and one while many changes are applied."""
    job = LakeJob(tmp_path, server, target, publication="p")
    # A driver finds itself by another name than the address of its executors.
    settings = {"spark.driver.host": "localhost", "spark.executor.memory": "512m"}

    def is_copied() -> bool:
        copying = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'COPY%' AND state = 'active'"
        return bool(server.execute(copying))

    with cluster(tmp_path / "cluster") as workers:
        first, second = workers.worker("first"), workers.worker("second")
        with job.running(master=workers.url, settings=settings) as process:
            wait_until(lambda: is_copied() or process.poll() is not None, TIMEOUT, 0.02)
            kill_machine(first)
            workers.worker("third")
            wait_until(lambda: is_equal(spark, job, "good"), 2 * TIMEOUT, 1)
            server.execute(f"UPDATE good SET v = 'b' WHERE id <= {ROWS // 2}")
            time.sleep(2)
            kill_machine(second)
            workers.worker("fourth")
            server.execute("DELETE FROM good WHERE id % 3 = 0")
            wait_until(lambda: is_equal(spark, job, "good"), 2 * TIMEOUT, 1)
            assert process.poll() is None, job.ending(process)
    assert_equal(spark, job, {"good": "good"})
