"""What a job that keeps tables equal has told since it began."""

from __future__ import annotations

from spark_pgoutput.replication import Replication


class JobReport:
    """The lines of a running job. A job gives each line only once.

    Parameters
    ----------
    job : Replication
        The job, whose lines nobody else takes.
    """

    def __init__(self, job: Replication) -> None:
        self._job = job
        self._lines: list[str] = []

    def lines(self, text: str) -> list[str]:
        """Return the lines so far that have a text."""
        self._lines.extend(self._job.report())
        return [line for line in self._lines if text in line]
