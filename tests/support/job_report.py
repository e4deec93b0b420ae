"""What a job has printed since it began, and what it has copied."""

from __future__ import annotations

from collections.abc import Callable

from spark_pgoutput.replication import Replication
from support.job_folder import job_state
from support.lake_job import LakeJob
from support.processes import TIMEOUT
from support.servers import wait_until


class JobReport:
    """The lines of a running job. A job gives each line only once.

    Parameters
    ----------
    job : Replication
        The job. No other code may call its `report`.
    """

    def __init__(self, job: Replication) -> None:
        self._job = job
        self._lines: list[str] = []

    def lines(self, text: str) -> list[str]:
        """Return the lines so far that contain a text."""
        self._lines.extend(self._job.report())
        return [line for line in self._lines if text in line]


def wait_while_running(
    job: Replication, holds: Callable[[], object], timeout: float, pause: float
) -> None:
    """Wait until a function returns true. The job must not fail before that."""

    def holds_while_running() -> object:
        assert job.exception() is None, job.exception()
        return holds()

    wait_until(holds_while_running, timeout, pause)


def states(job: Replication) -> dict[str, str]:
    """Return the states of the tables of a job that runs, by their names in the target."""
    assert job.exception() is None, job.exception()
    return {row.target: row.state for row in job.status().collect()}


def wait_until_live(job: Replication) -> None:
    """Wait until a job has tables, and each of them is live."""
    wait_until(lambda: set(states(job).values()) == {"live"}, 2 * TIMEOUT, pause=0.2)


def generations(job: LakeJob) -> dict[str, int]:
    """Return the number of the last copy of each table. Each copy of a job has a new number."""
    tables = job_state(job.checkpoint).tables
    return {name: table["generation"] for name, table in tables.items()}
