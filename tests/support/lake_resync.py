"""Tables that are copied while the stream runs, and transactions on them at the same time."""

from __future__ import annotations

import random
import subprocess
import threading
from contextlib import AbstractContextManager

import psycopg
from pyspark.sql import SparkSession

import spark_pgoutput
from support.background import background
from support.job_folder import job_state
from support.lake_job import LakeJob
from support.lake_points import commit_files, kill
from support.processes import TIMEOUT
from support.servers import Server, wait_until
from support.suspension import suspend_when

SETUP = """
CREATE TABLE orders (id int PRIMARY KEY, v text, note text);
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
CREATE TABLE seats (id int PRIMARY KEY, v text, note text);
CREATE TABLE other (id int PRIMARY KEY, v text, note text);
INSERT INTO orders SELECT g, 's', repeat(md5(g::text), 80) FROM generate_series(1, 300) g;
INSERT INTO seats SELECT g, 's', 'n' FROM generate_series(1, 100) g;
CREATE PUBLICATION shop FOR TABLE orders, seats, other;
"""
TABLES = {table: table for table in ("orders", "seats", "other", "added")}
_WRITTEN = ("orders", "seats", "other")

# More rows than `writing` changes, and so many that their copy takes seconds.
MORE_ROWS = 200_000


def writing(server: Server, seed: int = 1, pause: float = 0.4) -> AbstractContextManager[None]:
    """Run random transactions on all tables until the end of the block."""

    def write(ended: threading.Event) -> None:
        moments = random.Random(seed)
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            while not ended.wait(pause):
                with connection.transaction():
                    for table in _WRITTEN:
                        _change(connection, moments, table)

    return background(write)


def _change(connection: psycopg.Connection[object], moments: random.Random, table: str) -> None:
    one, two = moments.randrange(1, 400), moments.randrange(1, 400)
    insert = f"INSERT INTO {table} (id, v, note) VALUES ({one}, 'i', 'x') ON CONFLICT DO NOTHING"
    move = (
        f"UPDATE {table} SET id = {two} WHERE id = {one} AND {two} NOT IN (SELECT id FROM {table})"
    )
    statements = {
        insert: 6,
        f"UPDATE {table} SET v = 'u{two}' WHERE id BETWEEN {one} AND {one + 9}": 6,
        f"DELETE FROM {table} WHERE id = {one}": 2,
        move: 3,
        # A copy releases its locks for a TRUNCATE, and begins again.
        "TRUNCATE other": 0.1,
    }
    (statement,) = moments.choices(list(statements), list(statements.values()))
    connection.execute(statement.encode())


class Resync:
    """The progress of a resync of a table, from the checkpoint folder and the target's files.

    Parameters
    ----------
    job : LakeJob
        The job, which has copied the table before.
    """

    def __init__(self, job: LakeJob, table: str = "orders") -> None:
        self._job = job
        self._table = table
        self._generation: int = job_state(job.checkpoint).tables[table]["generation"]
        self._marked: dict[str, bool] = {}

    @property
    def requests(self) -> list[str]:
        """The names of the requests that the job has not handled."""
        return [file.name for file in (self._job.checkpoint / "requests").glob("*.json")]

    def step(self) -> int:
        """Return the number in STEPS of the last step that the job has reached."""
        table = job_state(self._job.checkpoint).tables[self._table]
        if table["generation"] == self._generation:
            # A table that keeps its past is live until it has the changes before the snapshot.
            if "copyReason" in table:
                return STEPS.index("copy begins")
            is_asked = table["status"]["name"] == "copying" or bool(self.requests)
            return STEPS.index("copy is requested") if is_asked else 0
        if table["status"]["name"] != "copying":
            return STEPS.index("table is live")
        if "lsn" not in table["status"]:
            return STEPS.index("copy begins")
        is_replaced = self._has(f"-{table['oid']}-{table['generation']}")
        return STEPS.index("table is replaced" if is_replaced else "snapshot is made")

    def _has(self, mark: str) -> bool:
        """Return whether the copy that has this mark is committed."""
        for file in commit_files(self._job, self._table):
            if file.name not in self._marked:
                # A commit of Delta has its own mark, and metadata of Iceberg have all properties.
                self._marked[file.name] = mark in file.read_text(encoding="utf-8")
        return any(self._marked.values())


STEPS = (
    "nothing",
    "copy is requested",
    "copy begins",
    "snapshot is made",
    "table is replaced",
    "table is live",
)


def kill_in_resync(
    spark: SparkSession, job: LakeJob, process: subprocess.Popen[str], step: int
) -> int:
    """Ask for a resync, and kill the job's process at a step of it.

    The job can be faster than this function. Then this asks for another resync, of a table with
    more rows, whose copy takes longer.

    Returns
    -------
    int
        How many resyncs it asked for.
    """
    for asked in range(1, 11):
        if _is_killed(spark, job, process, step):
            return asked
        job.server.execute(
            "INSERT INTO orders SELECT (SELECT 1000 + max(id) FROM orders) + g, 's', 'n'"
            f" FROM generate_series(1, {MORE_ROWS}) g"
        )
    raise AssertionError(f"The job passes over the step: {STEPS[step]}.")


class PassedOverError(Exception):
    """The job is at a later step."""


def kill_at_step(process: subprocess.Popen[str], resync: Resync, step: int) -> None:
    """Kill the processes when a step is reached.

    Raises
    ------
    PassedOverError
        If a later step is reached first. The processes then continue.
    """

    def is_there() -> bool:
        assert process.poll() is None, "the job has ended"
        now = resync.step()
        if now > step:
            raise PassedOverError
        return now == step

    suspend_when(process.pid, is_there)
    kill(process)


def _is_killed(
    spark: SparkSession, job: LakeJob, process: subprocess.Popen[str], step: int
) -> bool:
    resync = Resync(job)
    begins = STEPS.index("copy begins")
    # The snapshot waits for this transaction.
    with job.server.open_transaction() as blocking:
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["orders"])
        if step > begins:
            wait_until(lambda: resync.step() >= begins, 2 * TIMEOUT)
            blocking.execute("ROLLBACK")
        try:
            kill_at_step(process, resync, step)
        except PassedOverError:
            blocking.execute("ROLLBACK")
            wait_until(lambda: resync.step() == len(STEPS) - 1, 2 * TIMEOUT)
            return False
    print(f"killed at: {STEPS[resync.step()]}")
    return True
