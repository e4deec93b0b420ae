"""What a running job waits for when it is away, and how it goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import lake
from support.job_report import JobReport
from support.job_tables import PATIENCE, JobTables, look, wait_until_equal
from support.lake_job import LakeJob
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
    """Let nobody read or write a folder: a file has its name. (Root may write everywhere.)"""
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.touch()
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


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
            def is_told() -> bool:
                assert running.exception() is None, running.exception()
                return bool(report.lines(line))

            wait_until(is_told, PATIENCE, 0.1)

        # The server: changes that were not read yet are there when it is back.
        server.execute("INSERT INTO good SELECT g, 'b' FROM generate_series(2, 100) g")
        server.stop_fast()
        time.sleep(seconds)
        wait_for("The slot cannot be read")
        server.start_again()
        server.execute("INSERT INTO good VALUES (101, 'c')")
        wait_until_equal(spark, job, running, ["good"])
        wait_for("The job reads the slot again.")

        # The checkpoint folder: tables go on. A copy waits, because the state must say so first.
        with away(job.checkpoint):
            added = look(server)
            wait_for("The state of the job cannot be written")
            server.execute("UPDATE good SET v = 'd' WHERE id < 10")
            wait_until_equal(spark, job, running, ["good"])
            time.sleep(seconds)
            assert tables.states()[added] == "copying"
            assert not (job.tables / added).exists()
        wait_until_equal(spark, job, running, ["good", added])

        # The store: nothing is committed meanwhile, and nothing is copied again.
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
