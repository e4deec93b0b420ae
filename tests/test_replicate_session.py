"""Jobs that keep tables equal in a session: what ends them, what they say, and two of them."""

from __future__ import annotations

import re
import shutil
import threading
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_pgoutput.replication import Replication
from support import lake
from support.background import background
from support.lake_job import LakeJob, Replicate, job_fixtures
from support.lake_judge import assert_equal
from support.lake_points import commits
from support.lsn import parsed_lsn
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = [lake.needs_lake, pytest.mark.lake]

TABLES = {"a": "a", "b": "b"}
MINUTE = 90.0  # and what a micro-batch takes on a busy machine

server = server_fixture(
    "CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a VALUES (1, 'a'), (2, 'b');"
    "CREATE TABLE b (id int PRIMARY KEY, v text); INSERT INTO b VALUES (1, 'a'), (2, 'b');"
    "CREATE PUBLICATION ab FOR TABLE a, b"
)
job, replicate = job_fixtures("ab")


def states(done: Replication) -> dict[str, str]:
    status = done.status()
    status.createOrReplaceTempView("status")  # of the session that started the job
    return {row["target"]: row["state"] for row in status.sparkSession.table("status").collect()}


def confirmed(server: Server) -> int:
    return int(server.value("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots"))


def test_an_error_of_a_table_stops_the_job_or_the_table(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    done = replicate(once=True)
    assert (done.exit_code, states(done)) == (0, {"a": "live", "b": "live"})
    assert done.exception() is None
    # No message tells which rows get the default.
    server.execute("ALTER TABLE a ADD w int DEFAULT 5; INSERT INTO a VALUES (3, 'c')")
    server.execute("UPDATE b SET v = 'x' WHERE id = 1")
    before = confirmed(server)
    for _ in range(2):
        with pytest.raises(PySparkException, match="PGOUTPUT_TABLE_CHANGED"):
            replicate(once=True, onSchemaChange="error")
        assert confirmed(server) == before

    done = replicate(once=True, onSchemaChange="error", onTableError="skip")
    assert (done.exit_code, states(done)) == (3, {"a": "stopped", "b": "live"})
    assert any("The table a is stopped." in line for line in done.report())
    assert confirmed(server) > before
    assert_equal(spark, job, {"b": "b"})
    # It is stopped for good, and the others go on.
    server.execute("INSERT INTO a VALUES (4, 'd'); DELETE FROM b WHERE id = 2")
    done = replicate(once=True)
    assert (done.exit_code, states(done)) == (3, {"a": "stopped", "b": "live"})
    assert_equal(spark, job, {"b": "b"})
    (reason,) = [row["reason"] for row in done.status().collect() if row["target"] == "a"]
    assert "'w' was added with a default" in reason
    assert spark.table(job.sql_name("a")).count() == 2
    # A lost state does not make it live, for the slot is past its changes.
    shutil.rmtree(job.tables / "_spark_pgoutput")
    done = replicate(once=True)
    assert (done.exit_code, states(done)) == (3, {"a": "stopped", "b": "live"})


def test_rows_that_differ_are_an_error_or_repaired(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    assert replicate(once=True).exit_code == 0
    spark.sql(f"DELETE FROM {job.sql_name('a')} WHERE id = 1")
    server.execute("UPDATE a SET v = 'x' WHERE id = 1")
    with pytest.raises(PySparkException, match=r"PGOUTPUT_TARGET_DIFFERS.*public\.a.*\"id\":1"):
        replicate(once=True)
    done = replicate(once=True, onDrift="repair")
    assert done.exit_code == 0
    assert any("differed in 1 rows" in line for line in done.report())
    assert_equal(spark, job, TABLES)


def test_a_job_that_is_stopped_has_not_done_all(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    with server.connect() as writer:  # for whose end the new slot waits
        writer.execute("BEGIN; INSERT INTO b VALUES (9, 'x')")
        begun = replicate(once=True, wait=False)
        begun.stop()
        assert (begun.exit_code, begun.query, begun.exception()) == (1, None, None)
        writer.execute("COMMIT")
    running = replicate()
    wait_until(lambda: running.query, TIMEOUT)
    running.stop()
    assert (running.exit_code, running.exception()) == (0, None)
    assert replicate(once=True).exit_code == 0
    assert_equal(spark, job, TABLES)


def test_a_line_tells_what_a_micro_batch_did(
    server: Server, job: LakeJob, replicate: Replicate
) -> None:
    done = replicate(once=True)
    assert batch_lines(done.report()) == []
    before = time.monotonic()
    server.execute(
        "INSERT INTO a SELECT g, 'n' FROM generate_series(1001, 2500) g;"
        "UPDATE b SET v = 'x'; DELETE FROM b WHERE id = 2; CREATE TABLE unpublished (id int);"
        "INSERT INTO unpublished VALUES (1)"
    )
    after = time.monotonic()
    time.sleep(1)
    least = time.monotonic() - after
    done = replicate(once=True)
    most = time.monotonic() - before
    # The insert of 1500 rows, two updates and a delete.
    ((tables, changes, lag),) = batch_lines(done.report())
    assert (tables, changes) == ("2", "1,503")
    assert least <= float(lag) + 0.1 <= most + 0.2


def batch_lines(report: list[str]) -> list[tuple[str, ...]]:
    """Return the numbers of tables, changes and seconds that a job tells of each micro-batch."""
    line = re.compile(r"Batch \d+: (\S+) tables, (\S+) changes, lag (\S+) s\.")
    found = [line.fullmatch(text) for text in report if text.startswith("Batch ")]
    assert all(found), report
    return [match.groups() for match in found if match]


def test_two_jobs_in_one_session(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    other = LakeJob(folder, server, "delta", slot="other", publication="ab")
    with other.session(spark) as also:
        first, second = replicate(), also()
        wait_until(lambda: first.query and second.query, TIMEOUT)
        for number in range(3, 6):
            server.execute(f"INSERT INTO a VALUES ({number}, 'n'); UPDATE b SET v = '{number}'")

        end = int(server.value("SELECT pg_current_wal_flush_lsn() - '0/0'"))
        slots = "SELECT min(confirmed_flush_lsn) - '0/0' FROM pg_replication_slots"
        wait_until(lambda: int(server.value(slots)) >= end, TIMEOUT)
        for running in (first, second):
            running.stop()
            assert running.exception() is None
            assert running.exit_code == 0
            lags = [row["lag"] for row in running.status().collect()]
            assert all(lag is not None for lag in lags)
    assert_equal(spark, job, TABLES)
    assert_equal(spark, other, TABLES)


def test_a_quiet_job_writes_its_state_finds_new_tables_and_warns_each_minute(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    """One table is stopped, and the server writes only a table that is not published."""
    replicate(once=True)
    server.execute("ALTER TABLE a ADD w int DEFAULT 5; INSERT INTO a VALUES (3, 'c')")
    done = replicate(once=True, onSchemaChange="error", onTableError="skip")
    assert states(done) == {"a": "stopped", "b": "live"}
    server.execute("CREATE TABLE unpublished (id int); CREATE TABLE c (id int PRIMARY KEY)")
    before = {table: commits(job, table) for table in TABLES}
    running = replicate()
    warnings: list[str] = []

    def write(ended: threading.Event) -> None:
        while not ended.wait(0.5):
            server.execute("INSERT INTO unpublished VALUES (1)")

    def is_warned_again() -> bool:
        assert running.exception() is None
        warnings.extend(line for line in running.report() if "public.a is stopped." in line)
        return len(warnings) >= 2

    with background(write):
        wait_until(lambda: running.query, TIMEOUT)
        lsn = wal_end(server)
        wait_until(lambda: written(spark, job) >= lsn, MINUTE, pause=1)
        server.execute("ALTER PUBLICATION ab ADD TABLE c")
        wait_until(lambda: "c" in states(running), MINUTE, pause=1)
        wait_until(is_warned_again, MINUTE, pause=1)
        wait_until(lambda: states(running)["c"] == "live", TIMEOUT)
    lsn = wal_end(server)
    wait_until(lambda: confirmed(server) >= lsn, MINUTE)
    running.stop()
    assert written(spark, job) >= lsn
    assert {table: commits(job, table) for table in TABLES} == before


def written(spark: SparkSession, job: LakeJob) -> int:
    """Return the LSN up to which the job has written that it has everything."""
    state = spark.read.table(job.sql_name("_spark_pgoutput"))
    (row,) = state.where("kind = 'job'").collect()
    return parsed_lsn(row.lsn)


def wal_end(server: Server) -> int:
    return int(server.value("SELECT pg_current_wal_flush_lsn() - '0/0'"))
