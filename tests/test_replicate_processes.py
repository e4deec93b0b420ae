"""Two processes of a job, a process that is killed, and a checkpoint folder that is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.job_folder import job_state
from support.job_report import generations
from support.job_tables import PATIENCE, JobTables, wait_until_equal
from support.lake_job import SETTINGS, LakeJob
from support.lake_judge import assert_equal, differences
from support.processes import TIMEOUT, errors_of, started
from support.servers import Server, wait_until

pytestmark = lake.needs_lake

TABLES = {"good": "good", "drifted": "drifted"}
SETUP = """
CREATE TABLE good (id int PRIMARY KEY, v text);
CREATE TABLE drifted (id int PRIMARY KEY, v text);
INSERT INTO good VALUES (1, 'a');
INSERT INTO drifted VALUES (1, 'a');
CREATE PUBLICATION p FOR TABLE good, drifted;
"""

# A program that stops Spark, and forgets its job.
STOPS_SPARK = """
import json, sys, time
import spark_pgoutput
from pyspark.sql import SparkSession

settings, options = map(json.loads, sys.argv[1:])
spark = spark_pgoutput.configure(SparkSession.builder.config(map=settings)).getOrCreate()
job = spark_pgoutput.replicate(spark, **options)
while {row.state for row in job.status().collect()} != {"live"}:
    time.sleep(0.5)
spark.stop()
job.awaitTermination(60)
"""


@pytest.fixture
def server() -> Iterator[Server]:
    # The session of a suspended process ends soon.
    with Server(settings={"wal_sender_timeout": "2s"}) as server:
        server.execute(SETUP)
        yield server


def written(folder: Path) -> list[Path]:
    """Return the files of the commits."""
    return sorted(
        path for log in ("_delta_log", "metadata") for path in folder.rglob(f"{log}/*.json")
    )


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_only_one_process_has_the_slot(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    with job.session(spark) as replicate:
        first = replicate()
        wait_until_equal(spark, job, first, TABLES)

        # Another folder is another job, which writes nothing.
        other = tmp_path / "other"
        before = written(tmp_path)
        with pytest.raises(PySparkException) as caught:
            replicate(checkpoint=str(other), wait=False)
        assert caught.value.getCondition() == "PGOUTPUT_SLOT_IN_USE"
        assert not list(other.rglob("*.json"))
        assert written(tmp_path) == before
        server.execute("INSERT INTO good VALUES (2, 'b')")
        wait_until_equal(spark, job, first, TABLES)
        assert job_state(job.checkpoint).epoch == 1

        # Nor does it try whether it can write another target.
        with pytest.raises(PySparkException) as caught:
            replicate(
                checkpoint=str(other), target=job.target.replace("shop", "elsewhere"), wait=False
            )
        assert caught.value.getCondition() == "PGOUTPUT_SLOT_IN_USE"
        assert not list(tmp_path.rglob("elsewhere"))

        # The same folder is the same job: the later process goes on, and the earlier one ends.
        second = replicate()
        with pytest.raises(PySparkException) as ended:
            assert not first.awaitTermination(PATIENCE), "it ended without an error"
        assert ended.value.getCondition() == "PGOUTPUT_OTHER_JOB"
        server.execute("INSERT INTO good VALUES (3, 'c'); UPDATE drifted SET v = 'd'")
        wait_until_equal(spark, job, second, TABLES)
        assert job_state(job.checkpoint).epoch == 2
        second.stop()
        assert second.exception() is None
        copied = generations(job)

        # Without its folder, the job does not know which changes the slot has passed.
        shutil.rmtree(job.checkpoint)
        server.execute("INSERT INTO good VALUES (4, 'd')")
        confirmed = server.confirmed(job.slot)
        for _ in range(2):
            with pytest.raises(PySparkException, match="spark-pgoutput resync --all") as lost:
                replicate(once=True)
            assert lost.value.getCondition() == "PGOUTPUT_CHECKPOINT_LOST"
        assert server.confirmed(job.slot) == confirmed
        assert not list(job.checkpoint.rglob("*.json"))
        assert spark_pgoutput.resync(spark, target=job.target, all=True) == []
        assert replicate(once=True).exit_code == 0
        now = generations(job)
        assert all(now[table] > copied[table] for table in TABLES)
        assert_equal(spark, job, TABLES)
        server.execute("INSERT INTO good VALUES (5, 'e')")
        assert replicate(once=True).exit_code == 0
        assert generations(job) == now
    assert_equal(spark, job, TABLES)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_changes_in_the_queues_of_a_killed_process_come_again(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        first = generations(job)
        # This table fails. So all of its changes stay in its queue, which exceeds its memory.
        spark.sql(f"DELETE FROM {job.sql_name('drifted')}")
        server.execute("UPDATE drifted SET v = 'changed'")
        with job.running("--option", "queueMemory=1m") as process:
            job.wait_until_read(process)
            for low in range(2, 100_000, 10_000):
                server.execute(
                    "BEGIN; INSERT INTO drifted SELECT g, repeat(md5(g::text), 4)"
                    f" FROM generate_series({low}, {low + 9_999}) g;"
                    f"INSERT INTO good SELECT g, 'x' FROM generate_series({low}, {low + 99}) g;"
                    f"DELETE FROM drifted WHERE id % 7 = 0; COMMIT"
                )
            names = {"good": "good"}
            wait_until(lambda: not differences(spark, job, names), TIMEOUT, 0.5)
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=TIMEOUT)
        with job.running("--once") as process:
            output, _ = process.communicate(timeout=TIMEOUT)
        # Each table that has failed is named at the end, with its reason.
        assert process.returncode == 3, errors_of(tmp_path)[-3000:]
        assert output.splitlines()[-1].startswith(
            "Failed: public.drifted: [PGOUTPUT_TARGET_DIFFERS]"
        )
        last = replicate(once=True, onDrift="repair")
        assert (last.exit_code, generations(job)) == (0, first)
    assert_equal(spark, job, TABLES)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_process_that_was_replaced_while_it_was_suspended_writes_nothing(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        settings = {"spark.network.timeout": "1h"}  # else Spark gives up its own executor
        with job.running(settings=settings) as old:
            job.wait_until_read(old)
            server.execute("INSERT INTO good SELECT g, 'x' FROM generate_series(2, 20000) g")
            os.killpg(old.pid, signal.SIGSTOP)
            server.execute("UPDATE good SET v = 'y' WHERE id % 2 = 0")
            later = replicate()
            wait_until_equal(spark, job, later, TABLES)
            server.execute("DELETE FROM good WHERE id % 3 = 0; UPDATE drifted SET v = 'z'")
            wait_until_equal(spark, job, later, TABLES)
            epoch = job_state(job.checkpoint).epoch
            os.killpg(old.pid, signal.SIGCONT)
            job.assert_replaced(old)
        server.execute("UPDATE good SET v = 'later' WHERE id % 5 = 0")
        wait_until_equal(spark, job, later, TABLES)
        assert job_state(job.checkpoint).epoch == epoch
        assert set(JobTables(later).states().values()) == {"live"}


@pytest.mark.lake
def test_a_job_ends_if_its_spark_is_stopped(server: Server, tmp_path: Path) -> None:
    job = LakeJob(tmp_path, server, "delta", publication="p")
    formats = lake.settings(tmp_path, lake.DELTA, lake.ICEBERG)
    settings = {**SETTINGS, **formats, "spark.master": "local[2]"}
    arguments = (json.dumps(settings), json.dumps(job.options))
    with started([sys.executable, "-c", STOPS_SPARK, *arguments], tmp_path) as process:
        process.communicate(timeout=TIMEOUT)
    assert "The SparkContext was stopped, so the job ends." in errors_of(tmp_path)
