"""The steps of a job that keeps tables equal, and how a test kills it between two of them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

from support.lake_history import TABLES
from support.lake_job import LakeJob
from support.processes import TIMEOUT
from support.servers import wait_until
from support.slot_stream import numbers

STATE = "_spark_pgoutput"


class Progress:
    """The numbers of commits of each table, and what the checkpoint has, at one moment."""

    def __init__(self, job: LakeJob) -> None:
        # The last step first: what comes meanwhile cannot seem to come out of order.
        self.committed = max(numbers(job.checkpoint / "commits"), default=-1)
        self.state = commits(job, STATE)
        self.tables = {table: commits(job, table) for table in TABLES.values()}
        self.planned = max(numbers(job.checkpoint / "offsets"), default=-1)


def commits(job: LakeJob, table: str) -> int:
    """Return how many commits a table has; 0 if it is not there."""
    folder = job.tables / table
    delta = list((folder / "_delta_log").glob("[0-9]*.json"))
    return len(delta) + len(list((folder / "metadata").glob("v[0-9]*.metadata.json")))


Point = Callable[[Progress, Progress], bool]  # the progress at the start, and now


def table_is_made(before: Progress, now: Progress) -> bool:
    """A table is made, and has no rows."""
    return any(
        old == 0 and new == 1
        for old, new in zip(before.tables.values(), now.tables.values(), strict=True)
    )


def table_is_copied(before: Progress, now: Progress) -> bool:
    """A table is copied, and another one is not. The state does not say so yet."""
    missing = [table for table, number in before.tables.items() if number < 2]
    copied = [table for table in missing if now.tables[table] >= 2]
    return now.planned < 0 and 0 < len(copied) < len(missing)


def first_table_is_applied(before: Progress, now: Progress) -> bool:
    """A micro-batch is applied to some tables, and not to others."""
    changed = [t for t, number in now.tables.items() if number > before.tables[t]]
    return now.planned > now.committed and 0 < len(changed) < len(TABLES)


def batch_is_applied(before: Progress, now: Progress) -> bool:
    """A micro-batch is applied to all tables. Spark has not committed it."""
    changed = [t for t, number in now.tables.items() if number > before.tables[t]]
    return now.planned > now.committed and len(changed) == len(TABLES)


COPYING: tuple[Point, ...] = (table_is_made, table_is_copied)
# In this order: the first run applies all of a micro-batch, so the next run begins another one.
APPLYING: tuple[Point, ...] = (batch_is_applied, first_table_is_applied)


def suspend_at(process: subprocess.Popen[str], job: LakeJob, point: Point) -> None:
    """Stop the processes at a point. If the job was faster than this function, it tries again."""
    before = Progress(job)

    def is_stopped_there() -> bool:
        nonlocal before
        assert process.poll() is None, job.ending(process)
        now = Progress(job)
        if not point(before, now):
            if now.committed == now.planned >= 0:
                before = now  # the next micro-batch begins here
            return False
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(0.02)  # until all threads stand still
        if point(before, Progress(job)):
            return True
        os.killpg(process.pid, signal.SIGCONT)
        return False

    wait_until(is_stopped_there, TIMEOUT, pause=0.002)


def kill_at(process: subprocess.Popen[str], job: LakeJob, point: Point) -> None:
    """Kill the processes at a point."""
    suspend_at(process, job, point)
    kill(process)


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the processes with SIGKILL."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=TIMEOUT)
