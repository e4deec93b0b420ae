"""A driver that another one has replaced, and that runs again."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import lake, lake_history
from support.lake_history import History
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_points import Progress, first_table_is_applied, suspend_at
from support.servers import Server

pytestmark = [lake.needs_lake, pytest.mark.lake]


@pytest.mark.parametrize("target", lake.TARGETS)
@pytest.mark.parametrize("on_error", ["stop", "isolate"])
def test_a_driver_that_was_replaced_changes_nothing(
    target: str, on_error: str, tmp_path: Path, spark: SparkSession
) -> None:
    """It is suspended when it has applied changes to one table, and writes another one.

    The next process of the job ends its session, and takes the slot.
    """
    with Server() as server:
        server.execute(lake_history.SETUP)
        job = LakeJob(tmp_path, server, target)
        history = History(server, seed=4)
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
            options = ("--option", "parallelTables=1", "--option", f"onTableError={on_error}")
            # Spark would give up its own executor, which is suspended too.
            settings = {"spark.network.timeout": "1h"}
            with job.running(*options, settings=settings) as old:
                with history.running():
                    suspend_at(old, job, first_table_is_applied)
                assert job.is_read()
                for _ in range(3):
                    history.run(20)
                    assert replicate(once=True).exit_code == 0
                assert_equal(spark, job)
                before = Progress(job)
                os.killpg(old.pid, signal.SIGCONT)
                history.run(20)
                job.assert_replaced(old)
            now = Progress(job)
            assert now.tables == before.tables
            assert (now.state.epoch, now.state.content) == (
                before.state.epoch,
                before.state.content,
            )
            assert replicate(once=True).exit_code == 0
        assert_equal(spark, job)
