"""A process with a gigabyte in its queues is killed, or is suspended while another one runs."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_pgoutput.replication import Replication
from support import lake
from support.job_folder import job_state, job_status
from support.job_report import generations, wait_until_live, wait_while_running
from support.job_tables import wait_until_equal
from support.lake_job import LakeJob
from support.lake_points import commits, is_being_written, kill, kill_when
from support.postgres_binaries import NEWEST, VERSIONS
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until
from support.suspension import suspend_when

pytestmark = [lake.needs_lake, pytest.mark.lake]

# Values that the server does not compress, and that it does not send again in an UPDATE.
server = server_fixture(
    "CREATE TABLE large (id int PRIMARY KEY, n int, v text);"
    "ALTER TABLE large ALTER v SET STORAGE EXTERNAL;"
    "CREATE TABLE small (id int PRIMARY KEY, v text);"
    "INSERT INTO large SELECT g, 0, 'first' FROM generate_series(1, 100) g;"
    "INSERT INTO small VALUES (1, 'a');"
    "CREATE PUBLICATION p FOR TABLE large, small"
)

GIGABYTE = 1_000_000_000
ROWS = 10_000  # of a transaction, each with 4 kB

# The same at the server and in the lake. It changes if a row is lost, doubled or old.
SUM = "SELECT count(*), sum(id), sum(n), sum(CAST(id AS bigint) * n), sum(length(v)), {} FROM "
SERVER_SUM = SUM.format("sum(('x' || left(md5(v), 8))::bit(32)::bigint)")
LAKE_SUM = SUM.format("sum(CAST(conv(left(md5(v), 8), 16, 10) AS bigint))")


class Filling:
    """Fills the queue of a table in a process, by changes of each kind."""

    def __init__(self, job: LakeJob, process: subprocess.Popen[str] | None = None) -> None:
        self._job, self._process = job, process
        self._number = 0

    def queued(self) -> int:
        """Return the bytes of all queues, from the status that the process wrote last."""
        assert self._process is not None
        assert self._process.poll() is None, self._job.ending(self._process)
        tables = job_status(self._job.checkpoint).get("tables", ())
        return sum(table["queue_bytes"] for table in tables)

    def fill(self) -> None:
        """Write until the queues have a gigabyte."""
        for _ in range(90):
            if self.queued() >= GIGABYTE:
                break
            self.write()
        wait_until(lambda: self.queued() >= GIGABYTE, TIMEOUT, 0.5)

    def write(self) -> None:
        """Commit a transaction of 40 MB."""
        low = 1000 + self._number * ROWS
        self._number += 1
        self._job.server.execute(
            f"BEGIN; INSERT INTO large SELECT g, {self._number}, repeat(md5(g::text), 128)"
            f" FROM generate_series({low}, {low + ROWS - 1}) g;"
            f"UPDATE large SET n = n + 1 WHERE id % 97 = {self._number};"
            f"DELETE FROM large WHERE id % 101 = {self._number};"
            f"UPDATE large SET id = -id WHERE id BETWEEN {low} AND {low + 9};"
            f"INSERT INTO small VALUES ({low}, 'b'); COMMIT"
        )


def of_server(job: LakeJob) -> list[str]:
    return [*map(str, job.server.execute(SERVER_SUM + "large")[0])]


def of_lake(spark: SparkSession, job: LakeJob) -> list[str]:
    return [*map(str, spark.sql(LAKE_SUM + job.sql_name("large")).collect()[0])]


def wait_until_large_is_equal(spark: SparkSession, job: LakeJob, running: Replication) -> None:
    wanted = of_server(job)
    wait_while_running(running, lambda: of_lake(spark, job) == wanted, 2 * TIMEOUT, 1)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_gigabyte_in_queues_of_a_killed_process_comes_again(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    local = {"spark.local.dir": str(tmp_path / "local")}  # which nobody cleans after a kill
    assert job.run_once() == 0
    copied = generations(job)
    # The rest of the queue waits for its next commit.
    with job.running("--option", "interval=1h", settings=local) as process:
        job.wait_until_read(process)
        filling = Filling(job, process)
        filling.fill()
        print(f"{filling.queued() / 1e6:.0f} MB are in the queues.")
        kill(process)

    # The next process is killed between two commits of the changes that come again.
    before = commits(job, "large")
    cuts = ("--option", "maxBytesPerCommit=200m")
    with job.running(*cuts, settings=local) as process:
        kill_when(process, job, lambda: commits(job, "large") > before + 1)
    assert job.run_once(*cuts, timeout=2 * TIMEOUT) == 0
    assert generations(job) == copied
    job.use(spark)
    assert of_lake(spark, job) == of_server(job)


# Before version 15, each queue of a copy begins with a new session of the reader.
@pytest.mark.parametrize(
    ("server", "target"),
    [*((NEWEST, target) for target in lake.TARGETS), (VERSIONS[0], "delta")],
    indirect=["server"],
)
def test_a_transaction_that_exceeds_memory_and_disk_costs_its_table_a_copy(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    with job.session(spark) as replicate:
        running = replicate(queueMemory="1m", queueDisk="4m")
        wait_until_live(running)
        copied = generations(job)
        Filling(job).write()
        wait_until_equal(spark, job, running, ["small"])
        wait_until_large_is_equal(spark, job, running)
        now = generations(job)
        # A copy that began before the disk had room again is given up, and another one follows.
        assert copied["large"] < now["large"] <= copied["large"] + 2
        assert now["small"] == copied["small"]
        running.stop()


def test_a_file_of_a_queue_that_is_lost_costs_its_table_a_copy(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta", publication="p")
    local = tmp_path / "local"
    options = ("--option", "queueMemory=1m", "--option", "interval=10s")
    assert job.run_once() == 0
    copied = generations(job)
    with job.running(*options, settings={"spark.local.dir": str(local)}) as process:
        job.wait_until_read(process)
        Filling(job).write()

        def files() -> list[Path]:
            assert process.poll() is None, job.ending(process)
            return [*local.rglob("*.queue")]

        wait_until(lambda: files() != [], TIMEOUT, 0.1)
        for file in files():
            file.unlink()
        wanted = of_server(job)
        wait_until(lambda: of_lake(spark, job) == wanted, 2 * TIMEOUT, 1)
        now = generations(job)
        assert now["large"] > copied["large"]
        assert now["small"] == copied["small"]


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_process_with_a_gigabyte_in_queues_wakes_up_after_its_successor_began(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The process is suspended in a commit, while the rest of its queues waits."""
    job = LakeJob(tmp_path, server, target, publication="p")
    settings = {
        "spark.network.timeout": "1h",  # else Spark gives up its own executor
        "spark.local.dir": str(tmp_path / "local"),
    }
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        copied = generations(job)
        options = ("--option", "interval=2min", "--option", "maxBytesPerCommit=200m")
        with job.running(*options, settings=settings) as old:
            job.wait_until_read(old)
            filling = Filling(job, old)
            filling.fill()
            since = (tmp_path / "checkpoint" / "status.json").stat().st_mtime
            suspend_when(old.pid, lambda: is_being_written(job, "large", since))
            print(f"{filling.queued() / 1e6:.0f} MB are in the queues.")
            before = commits(job, "large")

            later = replicate()
            wait_until(lambda: commits(job, "large") > before, TIMEOUT)
            wait_until_large_is_equal(spark, job, later)
            filling.write()
            wait_until_large_is_equal(spark, job, later)
            number, epoch = commits(job, "large"), job_state(job.checkpoint).epoch
            os.killpg(old.pid, signal.SIGCONT)
            job.assert_replaced(old)
        assert commits(job, "large") == number
        assert job_state(job.checkpoint).epoch == epoch
        assert of_lake(spark, job) == of_server(job)
        filling.write()
        wait_until_large_is_equal(spark, job, later)
        wait_until_equal(spark, job, later, ["small"])
        assert generations(job) == copied
        assert later.failed() == []
