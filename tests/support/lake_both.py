"""Mirrors that have a history, and the moment at which one of the two tables is ahead."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import SparkSession

from support.history_judge import assert_histories
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_points import commit_files
from support.lsn import parsed_lsn

_JOB = "spark-pgoutput-[0-9a-f-]{36}-[0-9]+"
# A commit of Delta has only its own mark, but metadata of Iceberg have all marks.
_DELTA = re.compile(rf'"appId":"{_JOB}-([0-9]+)","version":([0-9]+)')
_ICEBERG = re.compile(rf'"{_JOB}-([0-9]+)"\s*:\s*"([0-9A-F]+/[0-9A-F]+) ')

Mark = tuple[int, int]
"""The generation and the LSN."""


def assert_both(spark: SparkSession, job: LakeJob, tables: Mapping[str, str]) -> None:
    """Check the mirrors, and their histories.

    Parameters
    ----------
    tables : mapping of str to str
        The names of the mirrors, by those of the tables at the server.
    """
    assert_equal(spark, job, tables)
    assert_histories(spark, job, {source: f"{name}_history" for source, name in tables.items()})


def mark(job: LakeJob, table: str) -> Mark:
    """Return the newest mark of a table of the target; zeros if it has none."""
    for file in reversed(commit_files(job, table)):
        text = file.read_text()
        found = [(int(number), int(lsn)) for number, lsn in _DELTA.findall(text)]
        found += [(int(number), parsed_lsn(lsn)) for number, lsn in _ICEBERG.findall(text)]
        if found:
            return max(found)
    return (0, 0)


class Between:
    """Returns whether a mirror has a commit that its history lacks, after both were equal."""

    def __init__(self, job: LakeJob, table: str, *, in_copy: bool = False) -> None:
        self._job = job
        self._table = table
        self._were_equal = in_copy

    def __call__(self) -> bool:
        # The history is read first. So a commit between the two reads cannot make the history seem
        # newer than the mirror.
        history = mark(self._job, f"{self._table}_history")
        mirror = mark(self._job, self._table)
        if history == mirror != (0, 0):
            self._were_equal = True
        return self._were_equal and history < mirror
