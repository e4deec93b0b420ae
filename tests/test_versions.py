"""The versions of rows, in Delta and Iceberg."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake, lake_history
from support.background import background
from support.lake_history import TABLES, History
from support.lake_job import LakeJob
from support.lake_judge import assert_equal, columns_of, plain, server_rows
from support.lake_points import commits, kill_when
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

KEYED = {
    "orders": ["id"],
    "Order lines": ["a", "b ``x"],
    "seats": ["id"],
}
"""The tables with versions, with their keys."""

server = server_fixture()


class Moments:
    """What the server has after each transaction."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server = server
        self.history = History(server, seed)
        self.rows: dict[int, dict[str, set[int]]] = {}
        """The hashes of the rows of each table, by an LSN above all commits that they have."""

    def run(self, transactions: int) -> None:
        for _ in range(transactions):
            self.history.run(1)
            self.note()

    def note(self) -> int:
        lsn = int(self.server.value("SELECT pg_current_wal_insert_lsn() - '0/0'"))
        self.rows[lsn] = {table: set(map(hash, server_rows(self.server, table))) for table in KEYED}
        return lsn

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run transactions in another thread until the end of the block."""

        def run(ended: threading.Event) -> None:
            while not ended.wait(0.05):
                self.run(1)

        with background(run):
            yield

    def forget_since(self, lsn: int) -> None:
        """Forget the moments after an LSN. A copy that follows makes one version for them all."""
        self.rows = {at: rows for at, rows in self.rows.items() if at <= lsn}


def assert_moments(spark: SparkSession, job: LakeJob, moments: Moments) -> dict[str, int]:
    """Check that the versions give the rows of each moment. The last moment is the present one.

    Return how many versions there are.
    """
    moments.note()
    job.use(spark)
    counts = {}
    for table, key in KEYED.items():
        columns = columns_of(job.server, table)
        found = spark.sql(f"SELECT * FROM {job.sql_name(TABLES[table])}").collect()
        counts[table] = len(found)
        begins, ends = defaultdict(list), defaultdict(list)
        current: set[object] = set()
        by_key = defaultdict(list)
        for row in found:
            begin, end = row["_from_lsn"], row["_to_lsn"]
            assert row["_is_current"] == (end is None)
            assert (row["_to_timestamp"] is None) == (end is None)
            assert row["_from_timestamp"] is not None
            by_key[tuple(row[column] for column in key)].append((begin, end))
            version = hash(tuple(plain(row[column]) for column in columns))
            begins[begin].append(version)
            if end is None:
                current.add(version)
            else:
                ends[end].append(version)
        for versions in by_key.values():
            versions.sort()
            for (begin, end), (following, _) in itertools.pairwise(versions):
                assert begin < end <= following, (table, versions)
        first, live = min(begins), set[object]()
        changes = sorted(begins.keys() | ends.keys())
        for lsn in sorted(moments.rows):
            while changes and changes[0] < lsn:
                at = changes.pop(0)
                live.difference_update(ends[at])
                live.update(begins[at])
            if lsn > first:
                assert live == moments.rows[lsn][table], f"{table} at {lsn}"
        assert live == current
    return counts


def kill_in_the_changes(job: LakeJob, moments: Moments) -> None:
    """Kill a job soon after it has committed to a table twice, or has made it."""
    before = commits(job, "orders")
    with moments.running(), job.running() as process:
        kill_when(process, job, lambda: commits(job, "orders") > before + 1)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_the_versions_have_the_rows_of_each_moment(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(lake_history.SETUP)
    job = LakeJob(tmp_path, server, target, mode="versions")
    moments = Moments(server, seed=5)
    for _ in range(3):
        kill_in_the_changes(job, moments)
    assert job.run_once() == 0
    assert_moments(spark, job, moments)
    with job.session(spark) as replicate:
        # Several transactions of a cut, and each cut by a MERGE or directly.
        moments.run(40)
        done = replicate(once=True)
        modes = {row.table: row["mode"] for row in done.status().collect()}
        assert {modes[f"public.{table}"] for table in KEYED} == {"versions"}
        assert {modes["public.readings"], modes["public.events"]} == {"mirror"}
        before = assert_moments(spark, job, moments)
        # Keyless tables are mirrored.
        keyless = {name: TABLES[name] for name in TABLES.keys() - KEYED.keys()}
        assert_equal(spark, job, keyless)

        # A copy adds the versions of the rows that differ, and all others stay.
        lsn = moments.note()
        moments.run(15)
        tables = [*KEYED, "readings"]
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, tables=tables)
        replicate(once=True)
        moments.forget_since(lsn)
        after = assert_moments(spark, job, moments)
        assert all(before[table] <= after[table] < before[table] + 400 for table in KEYED)
        moments.run(15)
        replicate(once=True)
        assert_moments(spark, job, moments)
        options = {**job.options, "once": True, "tell": print}
        found = spark_pgoutput.verify(spark, **options)  # type: ignore[arg-type]
        assert {row.result for row in found.collect()} == {"equal"}


@pytest.mark.parametrize("target", lake.TARGETS)
def test_versions_stay_when_the_columns_of_a_table_change(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        "CREATE TABLE people (id int PRIMARY KEY, name text, email text, price int);"
        "CREATE TABLE log (v text); ALTER TABLE log REPLICA IDENTITY FULL;"
        "CREATE TABLE taken (id int PRIMARY KEY, _is_current boolean);"
        "INSERT INTO people VALUES (1, 'a', 'x', 1), (2, 'b', 'y', 2);"
        "CREATE PUBLICATION shop FOR TABLE people, log, taken"
    )
    salt = tmp_path / "salt"
    salt.write_text("salt")
    job = LakeJob(tmp_path, server, target)
    options = {
        "once": True,
        "mode": {"people": "versions", "taken": "versions", "log": "versions"},
        "columns": {"people": {"hash": ["email"]}},
        "hashSaltFile": str(salt),
        "partition": {"people": ["_is_current"]},
    }

    def versions(*columns: str) -> list[tuple[object, ...]]:
        rows = spark.sql(
            f"SELECT id, {', '.join(columns)}, _is_current FROM {job.sql_name('people')} "
            "ORDER BY id, _from_lsn"
        )
        return [tuple(row) for row in rows.collect()]

    with job.session(spark) as replicate:
        reasons = [str(reason) for reason in replicate(**options).failed()]
        assert sorted(reason for reason in reasons if "has no key" in reason)
        assert sorted(reason for reason in reasons if "'_is_current'" in reason)
        server.execute("UPDATE people SET name = 'c' WHERE id = 1")
        server.execute("ALTER TABLE people ADD age int; ALTER TABLE people RENAME name TO nick")
        server.execute("UPDATE people SET age = 7, email = 'z' WHERE id = 1")
        server.execute("DELETE FROM people WHERE id = 2")
        replicate(**options)
        assert versions("nick", "age") == [
            (1, "a", None, False),
            (1, "c", None, False),
            (1, "c", 7, True),
            (2, "b", None, False),
        ]
        hashes = [row[1] for row in versions("email")]
        assert hashes[0] == hashes[1] != hashes[2]
        assert all(len(str(found)) == 64 for found in hashes)
        # If a new type makes the job copy the table, only rows whose values differ get a version.
        server.execute("ALTER TABLE people ALTER price TYPE text USING price || ''")
        server.execute("INSERT INTO people VALUES (3, 'd', 'q', '3')")
        replicate(**options)
        copied = versions("nick", "age", "price")
        assert copied[:4] == [
            (1, "a", None, "1", False),
            (1, "c", None, "1", False),
            (1, "c", 7, "1", True),
            (2, "b", None, "2", False),
        ]
        assert copied[4:] == [(3, "d", None, "3", True)]
        # A table keeps its mode.
        server.execute("DELETE FROM people WHERE id = 3")
        replicate(**{**options, "mode": "mirror"})
        assert versions("nick")[-1] == (3, "d", False)
