"""Tables that are copied, and to which changes are applied, side by side."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import lake
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_points import commits
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = [lake.needs_lake, pytest.mark.lake]

TABLES = {table: table for table in ("a", "b", "c")}

server = server_fixture(
    "CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY, v text);"
    "CREATE TABLE c (id int PRIMARY KEY, v text); CREATE PUBLICATION p FOR TABLE a, b, c"
)


@pytest.mark.parametrize("copies", [1, 2])
def test_tables_are_copied_side_by_side(
    copies: int, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta", publication="p")
    server.create_slot(job.slot)
    with job.session(spark) as replicate:
        # Each copy makes a temporary slot, which waits for the end of this transaction.
        with server.open_transaction():
            process = replicate(once=True, wait=False, parallelCopies=copies)
            query = "SELECT count(*) FROM pg_replication_slots WHERE temporary"
            wait_until(lambda: server.value(query) == copies, TIMEOUT)
            time.sleep(2)  # another copy would begin in this time
            assert server.value(query) == copies
        process.awaitTermination()
        lines = process.report()
    assert running_at_once(lines) == copies, lines
    assert_equal(spark, job, TABLES)


def running_at_once(lines: list[str]) -> int:
    """Return how many copies were under way at the same time, by the report of a job."""
    most = now = 0
    for line in lines:
        now += line.startswith("Copying ") - line.startswith("Copied ")
        most = max(most, now)
    assert now == 0, lines
    return most


@pytest.mark.parametrize("target", lake.TARGETS)
def test_tables_are_written_side_by_side(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The table with the oldest change comes first. The others do not wait for a long commit."""
    job = LakeJob(tmp_path, server, target, publication="p")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        for tables, first in ((1, "a"), (2, "bc")):
            server.execute(
                "BEGIN; DELETE FROM a;"
                "INSERT INTO a SELECT g, repeat(md5(g::text), 4) FROM generate_series(1, 300000) g;"
                f"INSERT INTO b VALUES ({tables}); INSERT INTO c VALUES ({tables}); COMMIT"
            )
            before = {table: commits(job, table) for table in TABLES}
            process = replicate(once=True, wait=False, parallelTables=tables)
            order: list[str] = []
            has_ended = False
            while not has_ended:
                has_ended = process.awaitTermination(0.05)
                now = {table: commits(job, table) for table in TABLES}
                order += [t for t in TABLES if now[t] > before[t] and t not in order]
            assert (process.exit_code, sorted(order)) == (0, list(TABLES))
            assert order[0] in first, order
            assert_equal(spark, job, TABLES)
