"""Jobs in a session: what ends them, what they report, and two jobs at once."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.replication import Replication
from support import lake
from support.background import background
from support.job_folder import job_state, job_status
from support.job_report import wait_until_live
from support.lake_job import LakeJob, Replicate, job_fixtures
from support.lake_judge import assert_equal, differences
from support.lake_points import commits
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = [lake.needs_lake, pytest.mark.lake]

TABLES = {"a": "a", "b": "b"}
MINUTE = 90.0  # a minute, and the time of a commit on a busy machine

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


def test_an_error_of_a_table_stops_the_job_or_the_table(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    done = replicate(once=True)
    assert (done.exit_code, states(done)) == (0, {"a": "live", "b": "live"})
    assert done.exception() is None
    # No message says which rows get the default.
    server.execute("ALTER TABLE a ADD w int DEFAULT 5; INSERT INTO a VALUES (3, 'c')")
    limit = server.wal_end()
    server.execute("UPDATE b SET v = 'x' WHERE id = 1")
    for _ in range(2):
        with pytest.raises(PySparkException, match="PGOUTPUT_TABLE_CHANGED"):
            replicate(once=True, onSchemaChange="error", onTableError="stop")
        assert server.confirmed(job.slot) <= limit

    for number in (2, 3):
        done = replicate(once=True, onSchemaChange="error")
        assert (done.exit_code, states(done)) == (3, {"a": "failed", "b": "live"})
        assert any("The table public.a has failed." in line for line in done.report())
        assert done.exception() is None
        # The changes of the failed table are still in the slot.
        assert server.confirmed(job.slot) <= limit
        assert_equal(spark, job, {"b": "b"})
        server.execute(f"INSERT INTO a VALUES (1{number}, 'd'); UPDATE b SET v = '{number}'")
    (reason,) = [row["reason"] for row in done.status().collect() if row["target"] == "a"]
    assert "'w' was added with a default" in reason
    assert done.failed() == [f"public.a: {reason}"]
    assert spark.table(job.sql_name("a")).count() == 2
    # The user lets the job copy the table.
    done = replicate(once=True)
    assert (done.exit_code, states(done)) == (0, {"a": "live", "b": "live"})
    assert any(line.startswith("Copied public.a:") for line in done.report())
    assert_equal(spark, job, TABLES)
    assert server.confirmed(job.slot) > limit


def test_a_job_that_has_ended_holds_nothing_at_the_server(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    """Its end interrupts the thread of the last copy, whose session holds the lock of a table."""
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'spark-pgoutput%'"
    for table in TABLES:
        assert replicate(once=True).exit_code == 0
        wait_until(lambda: not server.execute(sessions), TIMEOUT)
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=table)
    server.execute("ALTER TABLE a ADD w int; ALTER TABLE b ADD w int")


def test_a_job_holds_nothing_of_a_copy_at_the_server(server: Server, replicate: Replicate) -> None:
    """Copies share a connection that looks at the catalog while another one holds a snapshot."""
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'spark-pgoutput%'"
    running = replicate()
    try:
        wait_until_live(running)
        # One session reads the slot, and one asks about the catalog and the slot.
        wait_until(lambda: server.value(sessions) == 2, TIMEOUT)
    finally:
        running.stop()


def test_rows_that_differ_are_an_error_or_repaired(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    assert replicate(once=True).exit_code == 0
    spark.sql(f"DELETE FROM {job.sql_name('a')} WHERE id = 1")
    server.execute("UPDATE a SET v = 'x' WHERE id = 1; UPDATE b SET v = 'x' WHERE id = 1")
    differs = r"PGOUTPUT_TARGET_DIFFERS.*public\.a.*\"id\":1"
    with pytest.raises(PySparkException, match=differs):
        replicate(once=True, onTableError="stop")
    done = replicate(once=True)
    assert (done.exit_code, states(done)) == (3, {"a": "failed", "b": "live"})
    (line,) = done.failed()
    assert re.search(differs, line)
    assert_equal(spark, job, {"b": "b"})
    # Its changes were kept, and it needs no copy.
    done = replicate(once=True, onDrift="repair")
    assert done.exit_code == 0
    lines = done.report()
    assert any("differed in 1 row," in line for line in lines)
    assert not [line for line in lines if line.startswith("Copying ")]
    assert_equal(spark, job, TABLES)


def test_a_job_that_is_stopped_before_it_has_done_all_exits_with_1(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    with server.connect() as writer:  # for whose end the new slot waits
        writer.execute("BEGIN; INSERT INTO b VALUES (9, 'x')")
        begun = replicate(once=True, wait=False)
        begun.stop()
        assert (begun.exit_code, begun.exception()) == (1, None)
        writer.execute("COMMIT")
    running = replicate()
    wait_until_live(running)
    running.stop()
    assert (running.exit_code, running.exception()) == (0, None)
    assert replicate(once=True).exit_code == 0
    assert_equal(spark, job, TABLES)


def test_a_job_that_is_stopped_at_its_start_ends_its_threads(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    """A stop interrupts a start that waits for the server, and not the end of a job that runs."""
    assert replicate(once=True).exit_code == 0
    threads = spark._jvm.java.lang.Thread.getAllStackTraces  # type: ignore[union-attr]

    def left() -> list[str]:
        names = [thread.getName() for thread in threads().keySet()]
        return [name for name in names if job.target in name]

    for number in range(20):
        begun = replicate(wait=False)
        time.sleep(number / 1000)
        begun.stop()
        assert begun.exception() is None
        wait_until(lambda: not left(), 60)  # A thread ends a moment after its last step.


def test_the_report_has_a_line_for_each_commit(
    server: Server, job: LakeJob, replicate: Replicate
) -> None:
    done = replicate(once=True)
    assert commit_lines(done.report()) == []
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
    # The insert of 1500 rows; two updates and a delete.
    found = sorted(commit_lines(done.report()))
    assert [(table, changes) for table, changes, _, _ in found] == [("a", "1,500"), ("b", "3")]
    for *_, seconds, lag in found:
        assert 0 < float(seconds) <= most
        assert least <= float(lag) + 0.1 <= most + 0.2


def commit_lines(report: list[str]) -> list[tuple[str, ...]]:
    """Return the table, the changes, the seconds and the lag that a job prints for each commit."""
    line = re.compile(r"public\.(\w+): (\S+) changes? in (\S+) s, lag (\S+) s\.")
    found = [line.fullmatch(text) for text in report if text.startswith("public.")]
    assert all(found), report
    return [match.groups() for match in found if match]


def test_two_jobs_in_one_session_keep_their_tables_equal(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    other = LakeJob(folder, server, "delta", slot="other", publication="ab")
    with other.session(spark) as also:
        first, second = replicate(), also()
        for running in (first, second):
            wait_until_live(running)
        for number in range(3, 6):
            server.execute(f"INSERT INTO a VALUES ({number}, 'n'); UPDATE b SET v = '{number}'")

        end = server.wal_end()
        slots = (job.slot, other.slot)
        wait_until(lambda: min(map(server.confirmed, slots)) >= end, TIMEOUT)
        for running in (first, second):
            running.stop()
            assert running.exception() is None
            assert running.exit_code == 0
            lags = [row["lag"] for row in running.status().collect()]
            assert all(lag is not None for lag in lags)
    assert_equal(spark, job, TABLES)
    assert_equal(spark, other, TABLES)


def test_a_quiet_job_writes_its_state_and_finds_new_tables(
    server: Server, job: LakeJob, replicate: Replicate
) -> None:
    """Clients write only to a table that is not published."""
    assert replicate(once=True).exit_code == 0
    server.execute("CREATE TABLE unpublished (id int); CREATE TABLE c (id int PRIMARY KEY)")
    before = {table: commits(job, table) for table in TABLES}
    running = replicate()

    def write(ended: threading.Event) -> None:
        while not ended.wait(0.5):
            server.execute("INSERT INTO unpublished VALUES (1)")

    with background(write):
        wait_until_live(running)
        lsn = server.wal_end()
        wait_until(lambda: job_state(job.checkpoint).confirmed >= lsn, TIMEOUT)
        wait_until(lambda: server.confirmed(job.slot) >= lsn, TIMEOUT)
        status = job_status(job.checkpoint)
        wait_until(lambda: job_status(job.checkpoint)["read"] != status["read"], TIMEOUT)
        server.execute("ALTER PUBLICATION ab ADD TABLE c")
        wait_until(lambda: states(running).get("c") == "live", MINUTE, pause=1)
    lsn = server.wal_end()
    wait_until(lambda: server.confirmed(job.slot) >= lsn, TIMEOUT)
    running.stop()
    assert (running.exit_code, running.exception()) == (0, None)
    assert job_state(job.checkpoint).confirmed >= lsn
    assert {table: commits(job, table) for table in TABLES} == before


def test_a_failed_table_goes_on_by_itself_when_it_can(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    """Until then, it holds back the WAL, and the other table goes on."""
    server.execute("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'x'; GRANT SELECT ON b TO reader")
    reader = {"user": "reader", "password": "x"}
    server.execute("GRANT SELECT ON a TO reader")
    running = replicate(**reader)
    wait_until_live(running)
    # A change that the messages do not show needs a copy, and the copy needs a right.
    server.execute("REVOKE SELECT ON a FROM reader; ALTER TABLE a ADD w int DEFAULT 5")
    server.execute("INSERT INTO a VALUES (3, 'c')")
    wait_until(lambda: states(running)["a"] == "failed", TIMEOUT)
    (reason,) = running.failed()
    assert "GRANT SELECT ON public.a TO reader;" in reason
    server.execute("UPDATE b SET v = 'y'")
    wait_until(lambda: not differences(spark, job, {"b": "b"}), TIMEOUT, pause=0.5)
    server.execute("GRANT SELECT ON a TO reader")
    wait_until(lambda: states(running)["a"] == "live", MINUTE, pause=1)
    assert running.failed() == []
    running.stop()
    assert running.exit_code == 0
    assert replicate(once=True, **reader).exit_code == 0
    assert_equal(spark, job, TABLES)
