"""The files of a table, and what it costs Spark and DuckDB to read all of it.

A scan is cold: neither reader knows the table, and the operating system has none of its files in
memory. Each look scans a table and a fresh copy of it, one right after the other, because the speed
of the machine changes from minute to minute.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, functions

from benchmarks.jobs import Job
from benchmarks.lake import session
from benchmarks.reader import Reader, connection

_WARM_SCANS = 5
# A query of Delta reads the files of data, and those of deletion vectors that are not in the log.
_DELTA_FILES = (
    "count(*)",
    "count(DISTINCT CASE WHEN deletionVector.storageType = 'u' "
    "THEN deletionVector.pathOrInlineDv END)",
)


class Scan(NamedTuple):
    """How many seconds a scan of the table takes, and a scan of a fresh copy."""

    table: float
    fresh: float

    @property
    def ratio(self) -> float:
        """How many times as long as the scan of a fresh copy the scan of the table takes."""
        return self.table / self.fresh


class Look(NamedTuple):
    """What a look at a table has found.

    Attributes
    ----------
    files : int
        The files of data and of deleted rows in its newest version.
    spark, duckdb : Scan
        The scans by each reader.
    """

    files: int
    spark: Scan
    duckdb: Scan


class Scans:
    """Scans a table of a job and that of a job that has only copied it.

    Parameters
    ----------
    job, fresh : Job
        The jobs.
    table : str
        The name of the table.
    """

    def __init__(self, job: Job, fresh: Job, table: str) -> None:
        self._jobs = {"ice": job, "fresh": fresh}
        self._table = table
        self._spark = session(job.folder)
        # With the default of 50 tasks, to read the small log of the table takes longer than a scan.
        self._spark.conf.set("spark.databricks.delta.snapshotPartitions", "2")
        settings = {
            name.replace("catalog.ice", "catalog.fresh"): value
            for name, value in fresh.settings.items()
            if "catalog.ice" in name
        }
        for name, value in settings.items():
            self._spark.conf.set(name, value)
        self._readers = {name: Reader(own.kind, own.tables) for name, own in self._jobs.items()}
        connection().execute("SET enable_external_file_cache = false")
        for _ in range(_WARM_SCANS):
            self.look()

    def look(self) -> Look:
        """Count the files of the table, and compare its scan with that of the fresh copy."""
        return Look(self._files(), self._compare(self._by_spark), self._compare(self._by_duckdb))

    def close(self) -> None:
        """End the session."""
        self._spark.stop()

    def _compare(self, scan: Callable[[str], None]) -> Scan:
        """Scan each table twice in turn, and return the shorter times."""
        seconds: dict[str, list[float]] = {name: [] for name in self._jobs}
        for _ in range(2):
            for name, job in self._jobs.items():
                _forget_files(job.tables / self._table)
                begin = time.monotonic()
                scan(name)
                seconds[name].append(time.monotonic() - begin)
        return Scan(min(seconds["ice"]), min(seconds["fresh"]))

    def _by_spark(self, name: str) -> None:
        job = self._jobs[name]
        if job.kind == "delta":
            _delta_logs(self._spark).clearCache()
            rows = self._spark.table(f"delta.`{job.tables / self._table}`")
        else:
            rows = self._spark.table(f"{name}.shop.{self._table}")
        rows.agg(*(functions.max(column) for column in rows.columns)).collect()

    def _by_duckdb(self, name: str) -> None:
        self._readers[name].scan(self._table)

    def _files(self) -> int:
        job = self._jobs["ice"]
        if job.kind == "iceberg":
            files = f"ice.shop.{self._table}.files"
            return self._spark.table(files).select("file_path").distinct().count()
        logs = _delta_logs(self._spark)
        logs.clearCache()
        log = logs.forTable(self._spark._jsparkSession, str(job.tables / self._table))
        added = DataFrame(log.unsafeVolatileSnapshot().allFiles().toDF(), self._spark)
        return sum(added.selectExpr(*_DELTA_FILES).first() or ())


def _delta_logs(spark: SparkSession) -> Any:  # noqa: ANN401 - a class of the JVM
    return spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]


def _forget_files(folder: Path) -> None:
    """Let the operating system forget the files in a folder."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
