"""Waits for what a running job does with its tables."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from spark_pgoutput.replication import Replication
from support.job_report import JobReport, wait_while_running
from support.lake_job import LakeJob
from support.lake_judge import differences
from support.servers import Server

# A busy machine needs seconds for each table.
PATIENCE = 200.0


class JobTables:
    """The tables of a running job, as its status shows them.

    Parameters
    ----------
    running : Replication
        The job.
    """

    def __init__(self, running: Replication) -> None:
        self._running = running

    def rows(self) -> dict[str, Any]:
        """Return a row for each name, of the existing table or of the table dropped last."""
        found: dict[str, Any] = {}
        for row in self._running.status().collect():
            name = row.table.removeprefix("public.")
            if name not in found or row.state != "dropped":
                found[name] = row
        return found

    def states(self) -> dict[str, str]:
        """Return the states by the names of the tables."""
        return {name: row.state for name, row in self.rows().items()}

    def wait(self, state: str, *tables: str, reason: str = "") -> None:
        """Wait until tables have a state, and reasons that contain `reason`."""

        def is_there() -> bool:
            found = self.rows()
            return all(
                table in found
                and found[table].state == state
                and reason in (found[table].reason or "")
                for table in tables
            )

        try:
            wait_while_running(self._running, is_there, PATIENCE, 0.1)
        except AssertionError:
            print(*self.rows().values(), sep="\n")
            raise


@contextmanager
def copied(
    spark: SparkSession, job: LakeJob, *tables: str, **options: object
) -> Iterator[tuple[Replication, JobReport]]:
    """Run a job in the session of the tests, and give it with its report when tables are equal."""
    with job.session(spark) as replicate:
        running = replicate(**options)
        report = JobReport(running)
        wait_until_equal(spark, job, running, tables)
        yield running, report


def is_equal(spark: SparkSession, job: LakeJob, table: str) -> bool:
    """Return whether a table of the target exists, and equals the table of the server."""
    try:
        return not differences(spark, job, {table: table})
    except PySparkException:  # it is not there yet
        return False


def wait_until_equal(
    spark: SparkSession, job: LakeJob, running: Replication, tables: Iterable[str]
) -> None:
    """Wait until tables of the target equal those of the server, which nobody changes."""
    left = set(tables)

    def are_equal() -> bool:
        rows = JobTables(running).rows()
        # A look at the status costs less than one at the tables.
        ready = [name for name in left if name not in rows or not rows[name].queue_changes]
        for name in ready:
            try:
                if not differences(spark, job, {name: name}):
                    left.remove(name)
            except AnalysisException:  # the table is not there yet
                pass
        return not left

    try:
        wait_while_running(running, are_equal, PATIENCE, 0.2)
    except AssertionError:
        print(*running.status().collect(), sep="\n")
        print(differences(spark, job, {name: name for name in left}))
        raise


def look(server: Server) -> str:
    """Make a job look at the catalog at once, by a row in a new table.

    Otherwise, the job looks once a minute. The publication of the job must be FOR ALL TABLES.
    """
    name = f"knock_{secrets.token_hex(3)}"
    server.execute(f"CREATE TABLE {name} (id int PRIMARY KEY); INSERT INTO {name} VALUES (1)")
    return name
