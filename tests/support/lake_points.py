"""The steps of a job that keeps tables equal, and how a test kills it between two of them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from support.lake_history import TABLES
from support.lake_job import LakeJob
from support.processes import TIMEOUT
from support.slot_stream import numbers
from support.suspension import suspend_when

STATE = "_spark_pgoutput"

_MARK = "spark-pgoutput-"  # and the job, the oid and the generation


class Progress:
    """The numbers of commits of each table, and what the checkpoint has, at one moment."""

    def __init__(self, job: LakeJob) -> None:
        self.begun = time.time()
        # The last step first: what comes meanwhile cannot seem to come out of order.
        checkpoint = _checkpoint(job)
        self.committed = max(numbers(checkpoint / "commits"), default=-1)
        self.state = commits(job, STATE)
        self.tables = {table: commits(job, table) for table in TABLES.values()}
        self.planned = max(numbers(checkpoint / "offsets"), default=-1)

    @property
    def is_applying(self) -> bool:
        """Tell whether a micro-batch is planned that Spark has not committed."""
        return self.planned > self.committed

    def changed(self, before: Progress) -> set[str]:
        """Return the tables that have commits since then."""
        return {table for table, number in self.tables.items() if number > before.tables[table]}


def _checkpoint(job: LakeJob) -> Path:
    """Return the newest checkpoint: a job that begins anew makes another one in the same folder."""
    later = job.checkpoint.glob("generation-*")
    return max(later, key=lambda path: int(path.name.split("-")[1]), default=job.checkpoint)


def commits(job: LakeJob, table: str) -> int:
    """Return how many commits a table has had; 0 if it is not there."""
    return max(map(_number, _commits(job, table)), default=0)


def _commits(job: LakeJob, table: str) -> Iterator[Path]:
    folder = job.tables / table
    yield from (folder / "_delta_log").glob("[0-9]*.json")
    yield from (folder / "metadata").glob("v[0-9]*.metadata.json")


def _number(commit: Path) -> int:
    # Delta counts from 0, and Iceberg from 1. Iceberg removes the oldest ones.
    name = commit.name.split(".")[0]
    return int(name.removeprefix("v")) + (not name.startswith("v"))


def copied(job: LakeJob) -> dict[str, float]:
    """Return when each table was copied that has its first mark, and no other commit since then."""
    found = {}
    for table in TABLES.values():
        if files := sorted(_commits(job, table), key=_number):
            # A commit of Delta has its own mark, and metadata of Iceberg have all properties.
            *older, last = [_MARK in file.read_text() for file in files]
            if last and not any(older):
                found[table] = _written(files[-1])
    return found


def _written(file: Path) -> float:
    return file.stat().st_mtime


def is_being_written(job: LakeJob, table: str, since: float) -> bool:
    """Tell whether a table has files for its next commit, which were written since a time."""
    folder = job.tables / table
    logs = folder / "_delta_log", folder / "metadata"
    return any(
        file.is_file() and _written(file) > since
        for file in folder.rglob("*")
        if not any(file.is_relative_to(log) for log in logs)
    )


Point = Callable[[LakeJob, Progress, Progress], bool]  # the progress at the start, and now


def table_is_made(job: LakeJob, before: Progress, now: Progress) -> bool:
    """A table is made, and has no rows."""
    return any(before.tables[table] == 0 and number == 1 for table, number in now.tables.items())


def table_is_copied(job: LakeJob, before: Progress, now: Progress) -> bool:
    """A table is copied, and another one is not. The state does not say so yet."""
    if now.planned >= 0 or not now.changed(before):
        return False
    done = copied(job)
    return 0 < len(done) < len(TABLES) and max(done.values()) > max(
        map(_written, _commits(job, STATE))
    )


def first_table_is_applied(job: LakeJob, before: Progress, now: Progress) -> bool:
    """A micro-batch is applied to some tables, and another one is being written."""
    changed = now.changed(before)
    return (
        now.is_applying
        and bool(changed)
        and any(is_being_written(job, table, before.begun) for table in now.tables.keys() - changed)
    )


def batch_is_applied(job: LakeJob, before: Progress, now: Progress) -> bool:
    """A micro-batch is applied to all tables. Spark has not committed it."""
    return now.is_applying and now.changed(before) == set(TABLES.values())


COPYING: tuple[Point, ...] = (table_is_made, table_is_copied)
# In this order: the first run applies all of a micro-batch, so the next run begins another one.
APPLYING: tuple[Point, ...] = (batch_is_applied, first_table_is_applied)


def suspend_at(process: subprocess.Popen[str], job: LakeJob, point: Point) -> None:
    """Stop the processes at a point. If the job was faster than this function, it tries again."""
    before = Progress(job)

    def is_there() -> bool:
        nonlocal before
        assert process.poll() is None, job.ending(process)
        now = Progress(job)
        if point(job, before, now):
            return True
        if now.committed == now.planned >= 0:
            before = now  # the next micro-batch begins here
        return False

    suspend_when(process.pid, is_there)


def kill_at(process: subprocess.Popen[str], job: LakeJob, point: Point) -> None:
    """Kill the processes at a point."""
    suspend_at(process, job, point)
    kill(process)


def kill_when(process: subprocess.Popen[str], job: LakeJob, holds: Callable[[], object]) -> None:
    """Kill the processes when something holds."""

    def is_there() -> object:
        assert process.poll() is None, job.ending(process)
        return holds()

    suspend_when(process.pid, is_there)
    kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the processes with SIGKILL."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
