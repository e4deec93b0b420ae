"""The report of a running job, with the progress of its copies, on a terminal or in a log."""

from __future__ import annotations

import importlib.util
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from spark_pgoutput.printable import printable
from spark_pgoutput.replication import CopyProgress
from spark_pgoutput.spark_submit import TERMINAL

_SECONDS_ON_A_TERMINAL = 10.0
_SECONDS_IN_A_LOG = 30.0


class Display(AbstractContextManager["Display"], ABC):
    """Shows the report of a job until the end of a block."""

    def show(self, lines: Iterable[str], copies: Sequence[CopyProgress]) -> None:
        """Print lines, and show the progress of the copies that run.

        Parameters
        ----------
        lines : iterable of str
            The report of the job since the last call.
        copies : sequence of CopyProgress
            The copies that run.
        """
        for line in lines:
            self._tell(printable(line))
        self._show([copy._replace(table=printable(copy.table)) for copy in copies])

    @abstractmethod
    def _tell(self, line: str) -> None:
        """Print a line."""

    @abstractmethod
    def _show(self, copies: Sequence[CopyProgress]) -> None:
        """Show the progress of the copies that run."""


class LogDisplay(Display):
    """Prints the report of a job, and from time to time a line for each copy that runs.

    Parameters
    ----------
    seconds : float
        The time between two lines of a copy.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._shown: dict[str, float] = {}

    def __exit__(self, *raised: object) -> None:
        """Do nothing: the lines in a log need no end."""

    def _tell(self, line: str) -> None:
        print(line, flush=True)

    def _show(self, copies: Sequence[CopyProgress]) -> None:
        now = time.monotonic()
        self._shown = {copy.table: self._shown.get(copy.table, now) for copy in copies}
        for copy in copies:
            if now - self._shown[copy.table] >= self._seconds:
                self._shown[copy.table] = now
                self._tell(
                    f"Copying {copy.table}: {copy.rows:,} rows, {_megabytes(copy)}, "
                    f"{copy.share:.0%} of the table."
                )


class TerminalDisplay(Display):
    """Prints the report of a job, above a bar for each copy that runs. It needs rich."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console
        from rich.table import Column

        name = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._console = Console(force_terminal=True, highlight=False, emoji=False)
        self._bars = progress.Progress(
            progress.TextColumn("{task.description}", table_column=name, markup=False),
            progress.BarColumn(bar_width=10),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.fields[rows]} rows", justify="right"),
            progress.TextColumn("{task.fields[size]}", justify="right"),
            progress.TimeElapsedColumn(),
            console=self._console,
            expand=True,
            transient=True,
            refresh_per_second=2,
        )
        self._running: dict[str, progress.TaskID] = {}

    def __exit__(self, *raised: object) -> None:
        """Remove the bars."""
        self._bars.stop()

    def _tell(self, line: str) -> None:
        self._console.print(line, markup=False)

    def _show(self, copies: Sequence[CopyProgress]) -> None:
        for table in self._running.keys() - {copy.table for copy in copies}:
            self._bars.remove_task(self._running.pop(table))
        for copy in copies:
            if copy.table not in self._running:
                self._running[copy.table] = self._bars.add_task(
                    copy.table, total=1.0, rows="0", size=""
                )
            self._bars.update(
                self._running[copy.table],
                completed=copy.share,
                rows=f"{copy.rows:,}",
                size=_megabytes(copy),
            )
        if copies:
            self._bars.start()
        else:
            self._bars.stop()


def display() -> Display:
    """Return the display for the standard output of the command."""
    if TERMINAL not in os.environ:
        return LogDisplay(_SECONDS_IN_A_LOG)
    if importlib.util.find_spec("rich") is None or os.environ.get("TERM") in (None, "dumb"):
        return LogDisplay(_SECONDS_ON_A_TERMINAL)
    return TerminalDisplay()


def _megabytes(copy: CopyProgress) -> str:
    return f"{copy.bytes / 1e6:,.1f} MB"
