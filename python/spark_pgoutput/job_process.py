"""The process that spark-submit starts: it runs a command in Spark's driver."""

from __future__ import annotations

import argparse
import os
import sys
import threading

from pyspark.sql import SparkSession

from spark_pgoutput import reports
from spark_pgoutput.checkpoint import LastStatus, adopt, resync
from spark_pgoutput.cli import parse
from spark_pgoutput.copy_display import display
from spark_pgoutput.printable import printable
from spark_pgoutput.replicate_command import job_options
from spark_pgoutput.replication import Replication, replicate
from spark_pgoutput.submitted import FAILURES, run, session, show
from spark_pgoutput.verification import verify


def main() -> int:
    """Run the command, and return its exit status."""
    arguments = parse(sys.argv[1:])
    command = arguments.command

    def work(stopping: threading.Event) -> int:
        name, more = f"spark-pgoutput {command}", dict[str, str]()
        if command == "replicate":
            name = f"{name} {arguments.slot}"
            # Otherwise, each start would give the metrics other names.
            more = {"spark.metrics.namespace": arguments.slot}
        spark = session(name, getattr(arguments, "target", None), arguments.secrets, more)
        if command == "replicate":
            job = replicate(spark, **job_options(arguments))  # type: ignore[arg-type]
            return _follow(job, stopping)
        if command == "verify":
            return _verify(spark, arguments)
        {"resync": _resync, "status": _status, "adopt": _adopt}[command](spark, arguments)
        return 0

    return run(command, work)


def _follow(job: Replication, stopping: threading.Event) -> int:
    """Print what a job does until it ends or this process gets a signal to stop."""
    with display() as shown:
        try:
            while not job.awaitTermination(1):
                if stopping.is_set():
                    job.stop()
                shown.show(job.report(), job.progress())
        except FAILURES as error:
            shown.show(job.report(), [])
            show("replicate", error)  # also after a signal, because the job ends in order
            return 1
        shown.show(job.report(), [])
    for line in job.failed():
        print(printable(f"Failed: {line}"), flush=True)
    return job.exit_code


def _verify(spark: SparkSession, arguments: argparse.Namespace) -> int:
    """Verify the tables, and return 0, 3 if a table was skipped, or 4 if one differs."""
    options = job_options(arguments) if arguments.once else {}
    given = {**options, "checkpoint": arguments.checkpoint}
    found = verify(
        spark,
        tables=arguments.table,
        timeout=arguments.timeout,
        # spark-submit mixes the standard error of a script into its output, so JSON stays alone.
        tell=None if arguments.json else lambda text: print(printable(text), flush=True),
        **given,
    ).collect()
    shown = reports.verification_json if arguments.json else reports.verification_text
    print(shown(found))
    return reports.verification_exit_code(found)


def _resync(spark: SparkSession, arguments: argparse.Namespace) -> None:
    asked = resync(
        spark,
        checkpoint=arguments.checkpoint,
        tables=arguments.table,
        all=arguments.all,
        target=arguments.target,
        format=arguments.format,
        slot=arguments.slot,
    )
    for name in ["all tables"] if arguments.all else asked:
        print(f"The job copies {printable(name)} again, within seconds or at its next start.")


def _adopt(spark: SparkSession, arguments: argparse.Namespace) -> None:
    begin = adopt(
        spark,
        url=arguments.url,
        user=arguments.user,
        slot=arguments.slot,
        publication=arguments.publication,
        checkpoint=arguments.checkpoint,
        last_lsn=arguments.last_lsn,
    )
    print(f"The job goes on with the server at {begin}. Start it.")


def _status(spark: SparkSession, arguments: argparse.Namespace) -> None:
    status = LastStatus(spark, arguments.checkpoint)
    tables = status.tables(rows=arguments.rows).collect()
    slot = None
    try:
        if arguments.url is not None:
            slot = status.slot(
                url=arguments.url,
                slot=arguments.slot,
                user=arguments.user,
                password=os.environ.get("PGPASSWORD"),
            )
    finally:  # If the server does not answer, the command still prints the tables.
        shown = (tables, slot, status.waits, status.problem)
        if arguments.json:
            print(reports.status_json(*shown, ended=status.ended))
        else:
            print(reports.status_text(*shown, ended=status.ended, files=arguments.files))


if __name__ == "__main__":
    sys.exit(main())
