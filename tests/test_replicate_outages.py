"""What a running job waits for, and how it continues after that."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.checkpoint import LastStatus
from support import lake
from support.job_folder import job_state
from support.job_report import JobReport, generations, wait_until_live, wait_while_running
from support.job_tables import PATIENCE, JobTables, look, wait_until_equal
from support.lake_job import LakeJob
from support.lake_judge import assert_equal, differences
from support.lake_operations import copied
from support.lake_points import kill
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = lake.needs_lake

SETUP = """
CREATE TABLE good (id int PRIMARY KEY, v text);
INSERT INTO good VALUES (1, 'a');
CREATE PUBLICATION p FOR ALL TABLES;
"""

server = server_fixture(SETUP)


@contextmanager
def away(folder: Path) -> Iterator[None]:
    """Replace a folder by a file, so that even root can neither read nor write it."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.touch()
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


@pytest.mark.lake
def test_a_job_with_full_queues_answers_the_server(tmp_path: Path, spark: SparkSession) -> None:
    with Server(settings={"wal_sender_timeout": "2s"}) as server:
        server.execute(SETUP)
        job = LakeJob(tmp_path, server, "delta", publication="p")
        with job.session(spark) as replicate:
            running = replicate(queueMemory="4m", queueDisk="64m")
            report = JobReport(running)
            wait_until_live(running)
            copied_as = generations(job)
            with away(job.tables):
                for number in range(1, 101):  # a megabyte each
                    rows = f"generate_series({number * 250}, {number * 250 + 249}) g"
                    server.execute(
                        f"INSERT INTO good SELECT g, repeat(md5(g::text), 128) FROM {rows}"
                    )
                full = "The queues are full"
                wait_while_running(running, lambda: report.lines(full), PATIENCE, 0.1)
                session = server.execute("SELECT active_pid FROM pg_replication_slots")
                wait_while_running(
                    running,
                    lambda: full in str(LastStatus(spark, job.checkpoint_url).waits),
                    PATIENCE,
                    0.5,
                )
                time.sleep(6)
                assert server.execute("SELECT active_pid FROM pg_replication_slots") == session
            wait_until_equal(spark, job, running, ["good"])
            assert report.lines("The queues have room again")
            assert generations(job) == copied_as, report.lines("")
            running.stop()


@pytest.mark.lake
@pytest.mark.parametrize("seconds", [5, 180])
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_waits_and_goes_on(
    target: str, seconds: int, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    with job.session(spark) as replicate:
        running = replicate()
        report = JobReport(running)
        tables = JobTables(running)
        wait_until_equal(spark, job, running, ["good"])

        def wait_for(line: str) -> None:
            wait_while_running(running, lambda: report.lines(line), PATIENCE, 0.1)

        # The server: changes that the job has not read yet are there when it is back.
        server.execute("INSERT INTO good SELECT g, 'b' FROM generate_series(2, 100) g")
        server.stop_fast()
        time.sleep(seconds)
        wait_for("The slot cannot be read")
        server.start_again()
        server.execute("INSERT INTO good VALUES (101, 'c')")
        wait_until_equal(spark, job, running, ["good"])
        wait_for("The job reads the slot again.")

        # The checkpoint folder: tables go on. A copy waits, because the state must have it first.
        with away(job.checkpoint):
            added = look(server)
            wait_for("The state of the job cannot be written")
            server.execute("UPDATE good SET v = 'd' WHERE id < 10")
            wait_until_equal(spark, job, running, ["good"])
            time.sleep(seconds)
            assert tables.states()[added] == "copying"
            assert not (job.tables / added).exists()
        wait_until_equal(spark, job, running, ["good", added])

        # The store: nothing is committed while it is away, and nothing is copied again.
        copies = len(report.lines("Copied "))
        with away(job.tables):
            server.execute("DELETE FROM good WHERE id < 5")
            wait_for("The table public.good")
            time.sleep(seconds)
        server.execute("INSERT INTO good VALUES (102, 'e')")
        wait_until_equal(spark, job, running, ["good", added])
        assert len(report.lines("Copied ")) == copies
        tables.wait("live", "good", added)
        assert running.failed() == []


@pytest.mark.lake
def test_a_folder_that_is_not_mounted_is_not_made_again(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """Commits of a history, and copies, wait for the folder. Its place would be on another disk."""
    server.execute("CREATE TABLE events (id int PRIMARY KEY); INSERT INTO events VALUES (1)")
    job = LakeJob(tmp_path, server, "delta", publication="p", mode={"events": "history"})

    def history() -> list[tuple[str, int | None]]:
        rows = spark.table(job.sql_name("events")).collect()
        return [(row["_change_type"], row.id) for row in rows]

    with job.session(spark) as replicate:
        running = replicate()
        report = JobReport(running)
        tables = JobTables(running)
        tables.wait("live", "good", "events")
        wait_until_equal(spark, job, running, ["good"])
        before = history()
        copies = len(report.lines("Copied "))
        aside = job.tables.with_name("aside")
        job.tables.rename(aside)
        server.execute("INSERT INTO events VALUES (2)")
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["public.good"])
        wait_while_running(
            running,
            lambda: (
                report.lines("The table public.events") and report.lines("The table public.good")
            ),
            PATIENCE,
            0.1,
        )
        time.sleep(10)
        assert not job.tables.exists()
        assert len(report.lines("Copied ")) == copies
        aside.rename(job.tables)
        server.execute("INSERT INTO good VALUES (2, 'b')")
        wait_until_equal(spark, job, running, ["good"])
        wait_while_running(running, lambda: len(history()) > len(before), PATIENCE, 0.5)
        tables.wait("live", "good", "events")
        assert sorted(history(), key=str) == sorted([*before, ("insert", 2)], key=str)
        assert len(report.lines("Copied ")) == copies + 1
        assert running.failed() == []


@pytest.mark.lake
def test_a_target_that_is_the_mount_point_itself_is_not_filled(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """While its file system is not mounted, the folder is empty, or it is missing at a start."""
    server.execute("CREATE TABLE events (id int PRIMARY KEY); INSERT INTO events VALUES (1)")
    job = LakeJob(tmp_path, server, "delta", publication="p", mode={"events": "history"})
    aside = job.tables.with_name("aside")
    with job.session(spark) as replicate:
        assert copied(replicate(once=True)) == 2
        job.tables.rename(aside)
        for is_mount_point in (False, True):
            if is_mount_point:
                job.tables.mkdir()
            with pytest.raises(PySparkException, match="none of the 2 tables") as error:
                replicate(once=True)
            assert error.value.getCondition() == "PGOUTPUT_MARK_LOST"
            assert job.tables.exists() == is_mount_point
            assert list(job.tables.glob("*")) == []
        job.tables.rmdir()
        aside.rename(job.tables)

        running = replicate()
        report = JobReport(running)
        tables = JobTables(running)
        tables.wait("live", "good", "events")
        job.tables.rename(aside)
        job.tables.mkdir()
        server.execute("INSERT INTO events VALUES (2); INSERT INTO good VALUES (2, 'b')")
        waiting = "The tables of the target are not there"
        wait_while_running(running, lambda: len(report.lines(waiting)) == 2, PATIENCE, 0.1)
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["public.good"])
        time.sleep(10)
        assert list(job.tables.iterdir()) == []
        job.tables.rmdir()
        aside.rename(job.tables)
        wait_until_equal(spark, job, running, ["good"])
        tables.wait("live", "good", "events")
        events = job.sql_name("events")
        wait_while_running(running, lambda: spark.table(events).count() == 2, PATIENCE, 0.5)
        wait_while_running(running, lambda: report.lines("Copied public.good"), PATIENCE, 0.5)
        assert report.lines("Copied public.events") == []
        assert running.failed() == []


@contextmanager
def file_system(folder: Path) -> Iterator[Callable[[str], None]]:
    """Mount a file system at a new folder. The function makes it read-only (ro) or not (rw)."""
    folder.mkdir(exist_ok=True)
    mounting = ["mount", "-t", "tmpfs", "none", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount a file system")

    def remount(how: str) -> None:
        command = ["mount", "-o", f"remount,{how}", str(folder)]
        # The command fails while a file is open for writing.
        wait_until(lambda: subprocess.run(command, check=False).returncode == 0)

    try:
        yield remount
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_goes_on_while_its_checkpoint_is_read_only(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The tables go on, and the server keeps all that the state does not have."""
    job = LakeJob(tmp_path, server, target, publication="p")
    with file_system(job.checkpoint) as remount, job.session(spark) as replicate:
        running = replicate()
        report = JobReport(running)
        wait_until_equal(spark, job, running, ["good"])
        remount("ro")
        kept = job_state(job.checkpoint).confirmed
        added = look(server)
        ends = time.monotonic() + 20
        number = 2
        while time.monotonic() < ends:
            server.execute(f"INSERT INTO good VALUES ({number}, 'b')")
            wait_until_equal(spark, job, running, ["good"])
            number += 1
        assert report.lines("The state of the job cannot be written")
        assert not (job.tables / added).exists()
        assert job_state(job.checkpoint).confirmed == kept
        assert server.confirmed(job.slot) <= kept
        remount("rw")
        wait_until_equal(spark, job, running, ["good", added])
        written = server.wal_end()
        server.execute("INSERT INTO good VALUES (0, 'c')")
        wait_until(lambda: server.confirmed(job.slot) >= written, PATIENCE)
        assert job_state(job.checkpoint).confirmed >= written
        assert len(report.lines("Copied ")) == 2
        assert running.failed() == []

        # It cannot write its last state. The tables then have commits that the state does not have.
        before = generations(job)
        remount("ro")
        server.execute("UPDATE good SET v = 'd' WHERE id % 2 = 0")
        wait_until_equal(spark, job, running, ["good"])
        running.stop()
        assert running.exception() is None
        assert report.lines("The state is not written.")
        with job.running("--once") as process:
            output, _ = process.communicate(timeout=TIMEOUT)
            assert process.returncode == 1
            assert "PGOUTPUT_CHECKPOINT_NOT_WRITABLE" in output
            assert "Read-only file system" in output
        remount("rw")
        server.execute("DELETE FROM good WHERE id % 3 = 0")
        with job.running() as process:
            wait_until(lambda: not differences(spark, job, {"good": "good"}), TIMEOUT, 0.5)
            remount("ro")
            server.execute("UPDATE good SET v = 'e' WHERE id % 4 = 0")
            wait_until(lambda: not differences(spark, job, {"good": "good"}), TIMEOUT, 0.5)
            kill(process)
        remount("rw")
        server.execute("INSERT INTO good VALUES (3, 'f')")
        assert replicate(once=True).exit_code == 0
        assert generations(job) == before
        assert_equal(spark, job, {name: name for name in ("good", added)})


def assert_handled_once(running: spark_pgoutput.Replication) -> None:
    """Check that a job copies once for a request whose file stays, and says once that it stays."""
    report = JobReport(running)
    wait_while_running(running, lambda: report.lines("Copied "), PATIENCE, 0.1)
    # The job looks for requests every two seconds.
    time.sleep(6)
    running.stop()
    assert running.exception() is None
    kept = "its file cannot be removed"
    assert len(report.lines("Copied ")) == len(report.lines(kept)) == 1


@pytest.mark.lake
def test_a_job_goes_on_while_the_server_cannot_show_a_row_filter(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """PostgreSQL has such an error (XX000) if a column of the filter is dropped at that moment."""
    server.execute(
        "CREATE TABLE filtered (id int PRIMARY KEY); CREATE TABLE wider (id int, n int);"
        "CREATE PUBLICATION f FOR TABLE filtered WHERE (id > 0), good;"
        "CREATE PUBLICATION other FOR TABLE wider WHERE (n > 0) WITH (publish = 'insert');"
        "CREATE TABLE filters AS SELECT prrelid::regclass::text AS name, prqual AS filter"
        " FROM pg_publication_rel"
    )
    filtered_by = (
        "UPDATE pg_publication_rel SET prqual = (SELECT filter FROM filters"
        " WHERE name = '{}') WHERE prrelid = 'filtered'::regclass"
    )
    job = LakeJob(tmp_path, server, "delta", publication="f")
    with job.session(spark) as replicate:
        running = replicate()
        report = JobReport(running)
        wait_until_equal(spark, job, running, ["good", "filtered"])
        server.execute(filtered_by.format("wider"))
        wait_while_running(
            running,
            lambda: report.lines("The catalog of the server cannot be read"),
            PATIENCE,
            0.1,
        )
        server.execute("INSERT INTO good VALUES (2, 'b')")
        wait_until_equal(spark, job, running, ["good"])
        server.execute(filtered_by.format("filtered"))
        server.execute("INSERT INTO filtered VALUES (1); INSERT INTO good VALUES (3, 'c')")
        wait_until_equal(spark, job, running, ["good", "filtered"])
        running.stop()


@pytest.mark.lake
def test_a_process_does_a_request_once_if_its_file_cannot_be_removed(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta", publication="p")
    with job.session(spark) as replicate:
        assert copied(replicate(once=True)) == 1
        with file_system(job.checkpoint / "requests") as remount:
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["public.good"])
            remount("ro")
            assert_handled_once(replicate())
            remount("rw")
            # The next process cannot know that it was done.
            assert copied(replicate(once=True)) == 1
            assert copied(replicate(once=True)) == 0


@pytest.mark.lake
def test_a_job_starts_over_once_if_the_file_of_the_request_cannot_be_removed(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta", publication="p")
    with job.session(spark) as replicate:
        assert copied(replicate(once=True)) == 1
        with file_system(job.checkpoint / "requests") as remount:
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            remount("ro")
            assert_handled_once(replicate())
            # The next process knows that it was done.
            assert copied(replicate(once=True)) == 0
            remount("rw")
            assert copied(replicate(once=True)) == 0
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            assert copied(replicate(once=True)) == 1


@pytest.mark.lake
def test_a_job_starts_over_although_a_table_cannot_note_it(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute("CREATE TABLE fixed (id int PRIMARY KEY); INSERT INTO fixed VALUES (1)")
    job = LakeJob(tmp_path, server, "delta", publication="p")
    job.tables.mkdir()
    with file_system(job.tables / "fixed") as remount, job.session(spark) as replicate:
        assert copied(replicate(once=True)) == 2
        spark_pgoutput.resync(spark, target=job.target, all=True)
        remount("ro")
        server.execute("INSERT INTO good VALUES (2, 'b'); INSERT INTO fixed VALUES (2)")
        running = replicate()
        report = JobReport(running)
        wait_until_equal(spark, job, running, ["good"])
        assert report.lines("can still ask for copies of all tables")
        remount("rw")
        wait_until_equal(spark, job, running, ["good", "fixed"])
        running.stop()
        assert running.exception() is None
        # The next process knows that the copies are made.
        assert copied(replicate(once=True)) == 0


@pytest.mark.lake
def test_a_job_does_not_take_a_standby_for_its_primary(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The URL names both. The standby answers while the primary is away, and lacks a table."""
    job = LakeJob(tmp_path, server, "delta", publication="p")
    with job.session(spark) as replicate, server.standby() as standby:
        running = replicate(url=standby.url_of_primary.split("?")[0])
        report = JobReport(running)
        tables = JobTables(running)
        wait_until_equal(spark, job, running, ["good"])
        standby.catch_up()
        standby.execute("SELECT pg_wal_replay_pause()")
        added = look(server)
        wait_until_equal(spark, job, running, ["good", added])
        server.stop_fast()
        wait_until(lambda: report.lines("The server that answers is a standby"), PATIENCE, 0.1)
        time.sleep(10)
        assert running.exception() is None
        assert set(tables.states().values()) == {"live"}
        server.start_again()
        server.execute(f"INSERT INTO good VALUES (2, 'b'); INSERT INTO {added} VALUES (2)")
        wait_until_equal(spark, job, running, ["good", added])
        assert len(report.lines("Copied ")) == 2


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_waits_while_only_a_standby_that_lags_answers(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """A copy, a change of columns and `verify` wait until the primary is back."""
    job = LakeJob(tmp_path, server, target, publication="p")
    with job.session(spark) as replicate, server.standby() as standby:
        running = replicate(url=standby.url_of_primary.split("?")[0])
        report = JobReport(running)
        tables = JobTables(running)
        wait_until_equal(spark, job, running, ["good"])
        standby.catch_up()
        standby.configure(recovery_min_apply_delay="1h")
        server.execute("INSERT INTO good SELECT g, 'b' FROM generate_series(2, 100) g")
        wait_until_equal(spark, job, running, ["good"])

        server.execute("ALTER TABLE good ADD COLUMN c int DEFAULT 7; DELETE FROM good WHERE id < 9")
        server.stop_fast()
        assert standby.value("SELECT count(*) FROM good") == 1
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["public.good"])
        with ThreadPoolExecutor(1) as threads:
            verified = threads.submit(
                spark_pgoutput.verify, spark, checkpoint=job.checkpoint, timeout=PATIENCE
            )
            wait_until(lambda: report.lines("The server that answers is a standby"), PATIENCE, 0.1)
            time.sleep(20)
            assert running.exception() is None
            assert len(report.lines("Copied ")) == 1
            server.start_again()
            added = look(server)
            server.execute("UPDATE good SET c = 8 WHERE id % 2 = 0")
            wait_until_equal(spark, job, running, ["good", added])
            assert all(row.result != "different" for row in verified.result().collect())
        found = spark_pgoutput.verify(spark, checkpoint=job.checkpoint, timeout=PATIENCE).collect()
        assert {row.result for row in found} == {"equal"}, found
        assert standby.value("SELECT count(*) FROM good") == 1
        tables.wait("live", "good", added)
        assert len(report.lines("Copied ")) == 3
