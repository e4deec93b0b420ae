"""The steps of a job that keeps tables equal, and how a test kills it between two of them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from support.job_folder import job_state
from support.lake_history import TABLES
from support.lake_job import LakeJob
from support.processes import TIMEOUT
from support.suspension import suspend_when

_MARK = "spark-pgoutput-"  # The job, the oid and the generation follow in the name.


class Progress:
    """The numbers of commits of each table, and the state of the job, at one moment."""

    def __init__(self, job: LakeJob) -> None:
        self.begun = time.time()
        # The job writes the state after a commit. So this reads the state first, and never finds a
        # state that is newer than the commits.
        self.state = job_state(job.checkpoint)
        self.tables = {table: commits(job, table) for table in TABLES.values()}

    def changed(self, before: Progress) -> set[str]:
        """Return the tables that have commits since the earlier moment."""
        return {table for table, number in self.tables.items() if number > before.tables[table]}


def commits(job: LakeJob, table: str) -> int:
    """Return how many commits a table has had; 0 if it is not there."""
    return max(map(_number, _commits(job, table)), default=0)


def commit_files(job: LakeJob, table: str) -> list[Path]:
    """Return the file of each commit, the newest last."""
    return sorted(_commits(job, table), key=_number)


def _commits(job: LakeJob, table: str) -> Iterator[Path]:
    folder = job.tables / table
    yield from (folder / "_delta_log").glob("[0-9]*.json")
    yield from (folder / "metadata").glob("v[0-9]*.metadata.json")


def _number(commit: Path) -> int:
    # Delta counts from 0, and Iceberg from 1. Iceberg removes the oldest ones.
    name = commit.name.split(".")[0]
    return int(name.removeprefix("v")) + (not name.startswith("v"))


def copied(job: LakeJob) -> set[str]:
    """Return the tables that have their first mark, and no other commit since then."""
    found = set()
    for table in TABLES.values():
        if files := commit_files(job, table):
            # A commit of Delta has its own mark, and metadata of Iceberg have all properties.
            *older, last = [_MARK in file.read_text() for file in files]
            if last and not any(older):
                found.add(table)
    return found


def is_being_written(job: LakeJob, table: str, since: float) -> bool:
    """Return whether a table has files for its next commit, which were written since a time."""
    folder = job.tables / table
    logs = folder / "_delta_log", folder / "metadata"
    return any(
        file.is_file() and file.stat().st_mtime > since
        for file in folder.rglob("*")
        if not any(file.is_relative_to(log) for log in logs)
    )


# A point takes the progress at the start, and now.
Point = Callable[[LakeJob, Progress, Progress], bool]


def snapshot_is_noted(job: LakeJob, before: Progress, now: Progress) -> bool:
    """The state has the LSN of a table's snapshot, and the table has no rows."""
    return any(
        now.state.has_snapshot(table) and number <= 1 for table, number in now.tables.items()
    )


def table_is_made(job: LakeJob, before: Progress, now: Progress) -> bool:
    """A table is made, and has no rows."""
    return any(before.tables[table] == 0 and number == 1 for table, number in now.tables.items())


def table_is_copied(job: LakeJob, before: Progress, now: Progress) -> bool:
    """A table is copied, and another one is not. The state does not say so yet."""
    is_begun = bool(now.changed(before)) and any(number <= 1 for number in now.tables.values())
    return is_begun and any(now.state.status(table) == "copying" for table in copied(job))


def first_table_is_applied(job: LakeJob, before: Progress, now: Progress) -> bool:
    """Changes are applied to some tables, and another one is being written."""
    changed = now.changed(before)
    return bool(changed) and any(
        is_being_written(job, table, before.begun) for table in now.tables.keys() - changed
    )


def tables_are_applied(job: LakeJob, before: Progress, now: Progress) -> bool:
    """Changes are applied to all tables. The state does not say so yet."""
    return now.changed(before) == set(TABLES.values()) and all(
        now.state.mark(table) == before.state.mark(table) for table in TABLES.values()
    )


def state_is_written(job: LakeJob, before: Progress, now: Progress) -> bool:
    """The state is written with all tables, and the LSN is confirmed at this moment."""
    return (
        now.changed(before) == set(TABLES.values()) and now.state.confirmed > before.state.confirmed
    )


COPYING: tuple[Point, ...] = (snapshot_is_noted, table_is_made, table_is_copied)
APPLYING: tuple[Point, ...] = (tables_are_applied, first_table_is_applied, state_is_written)


def suspend_at(process: subprocess.Popen[str], job: LakeJob, point: Point) -> None:
    """Stop the processes at a point. If the job is too fast for this, wait for the next time."""
    before = Progress(job)

    def is_there() -> bool:
        nonlocal before
        now = Progress(job)
        if point(job, before, now):
            return True
        if (
            now.changed(before) == set(TABLES.values())
            and now.state.confirmed > before.state.confirmed
        ):
            before = now  # each table was applied, and the state has it
        return False

    suspend_when(process.pid, job.while_running(process, is_there))


def kill_at(process: subprocess.Popen[str], job: LakeJob, point: Point) -> None:
    """Kill the processes at a point."""
    suspend_at(process, job, point)
    kill(process)


def kill_when(process: subprocess.Popen[str], job: LakeJob, holds: Callable[[], object]) -> None:
    """Kill the processes when a condition holds."""
    suspend_when(process.pid, job.while_running(process, holds))
    kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the processes with SIGKILL."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
