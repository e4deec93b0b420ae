"""What was measured, and what is worked out from it."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass

from benchmarks.queries import Query


@dataclass(frozen=True)
class Measurement:
    """The repetitions of one query on one number of cores and rows.

    Attributes
    ----------
    query : Query
        The query.
    cores : int
        How many cores Spark had.
    rows : int
        How many messages there were.
    seconds : list of float
        What each repetition took.
    scan_seconds : list of float
        What the query's scan took in the same rounds; none if it has no scan.
    """

    query: Query
    cores: int
    rows: int
    seconds: list[float]
    scan_seconds: list[float]

    @property
    def best(self) -> float:
        """The seconds of the fastest repetition."""
        return min(self.seconds)

    @property
    def nanoseconds(self) -> float:
        """What a message costs a core above the scan, in the best repetitions of both."""
        return self._nanoseconds(self.best, min(self.scan_seconds, default=0.0))

    @property
    def median_nanoseconds(self) -> float:
        """What a message costs a core above the scan, in the median repetitions of both."""
        median = statistics.median(self.seconds)
        return self._nanoseconds(median, statistics.median(self.scan_seconds or [0.0]))

    @property
    def million_messages_per_second(self) -> float:
        """How many messages all cores together get through, the scan included."""
        return self.rows / self.best / 1e6

    @property
    def million_messages_scanned_per_second(self) -> float:
        """How many messages all cores together only read."""
        return self.rows / min(self.scan_seconds) / 1e6

    def _nanoseconds(self, query: float, scan: float) -> float:
        return (query - scan) * self.cores / self.rows * 1e9


@dataclass(frozen=True)
class Results:
    """Everything that a run of the benchmarks found.

    Attributes
    ----------
    machine : dict of str to str
        Where it ran and with which versions.
    measurements : list of Measurement
        What was measured.
    """

    machine: dict[str, str]
    measurements: list[Measurement]

    def find(self, query: Query, cores: int, rows: int | None = None) -> Measurement | None:
        """Find the measurement of a query.

        Parameters
        ----------
        query : Query
            The query.
        cores : int
            The number of cores.
        rows : int, optional
            The number of rows; if left out, any.

        Returns
        -------
        Measurement, optional
            The first that fits.
        """
        found = (
            m
            for m in self.measurements
            if m.query == query and m.cores == cores and rows in (None, m.rows)
        )
        return next(found, None)

    def cores(self) -> list[int]:
        """Tell on how many cores it ran.

        Returns
        -------
        list of int
            Each number once, ascending.
        """
        return sorted({m.cores for m in self.measurements})

    def rows_of(self, query: Query) -> list[int]:
        """Tell with how many rows a query ran.

        Parameters
        ----------
        query : Query
            The query.

        Returns
        -------
        list of int
            Each number once, ascending.
        """
        return sorted({m.rows for m in self.measurements if m.query == query})

    def to_json(self) -> str:
        """Write everything down.

        Returns
        -------
        str
            JSON: the machine, and each measurement with its raw seconds and what follows from them.
        """
        measurements = [
            asdict(m)
            | {
                "best_nanoseconds": m.nanoseconds,
                "median_nanoseconds": m.median_nanoseconds,
                "million_messages_per_second": m.million_messages_per_second,
            }
            for m in self.measurements
        ]
        return json.dumps({"machine": self.machine, "measurements": measurements}, indent=1) + "\n"
