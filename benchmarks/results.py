"""The measured times, and the numbers that follow from them."""

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
        The number of cores that Spark had.
    rows : int
        The number of messages.
    seconds : list of float
        The time of each repetition.
    scan_seconds : list of float
        The times of the query's scan in the same rounds. Empty if the query has no scan.
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
        """The time per message and core without the scan, from the best repetition of each."""
        return self._nanoseconds(self.best, min(self.scan_seconds, default=0.0))

    @property
    def median_nanoseconds(self) -> float:
        """The time per message and core without the scan, from the median repetition of each."""
        median = statistics.median(self.seconds)
        return self._nanoseconds(median, statistics.median(self.scan_seconds or [0.0]))

    @property
    def million_messages_per_second(self) -> float:
        """The throughput of all cores together, with the scan."""
        return self.rows / self.best / 1e6

    @property
    def million_messages_scanned_per_second(self) -> float:
        """The throughput of the scan alone, on all cores together."""
        return self.rows / min(self.scan_seconds) / 1e6

    def _nanoseconds(self, query: float, scan: float) -> float:
        return (query - scan) * self.cores / self.rows * 1e9


@dataclass(frozen=True)
class Results:
    """The results of one run of the benchmarks.

    Attributes
    ----------
    machine : dict of str to str
        The machine and the versions.
    measurements : list of Measurement
        The measurements.
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
            The first one that matches.
        """
        found = (
            m
            for m in self.measurements
            if m.query == query and m.cores == cores and rows in (None, m.rows)
        )
        return next(found, None)

    def cores(self) -> list[int]:
        """Return the numbers of cores that were measured.

        Returns
        -------
        list of int
            Each number once, ascending.
        """
        return sorted({m.cores for m in self.measurements})

    def rows_of(self, query: Query) -> list[int]:
        """Return the numbers of rows that a query was measured on.

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

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read results that `to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON.

        Returns
        -------
        Results
            The results.
        """
        stored = json.loads(text)
        measurements = [
            Measurement(Query(**m["query"]), m["cores"], m["rows"], m["seconds"], m["scan_seconds"])
            for m in stored["measurements"]
        ]
        return cls(stored["machine"], measurements)

    def to_json(self) -> str:
        """Convert the results to JSON.

        Returns
        -------
        str
            The machine, and each measurement with its raw seconds and the numbers computed from
            them.
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
