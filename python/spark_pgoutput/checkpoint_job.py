"""The process of the commands that need no process of a job, which spark-submit starts."""

from __future__ import annotations

import argparse
import os
import sys
import threading

from pyspark.sql import SparkSession

from spark_pgoutput import status_report
from spark_pgoutput.checkpoint import adopt, applied, resync, slot_status, waits
from spark_pgoutput.cli import parse
from spark_pgoutput.printable import printable
from spark_pgoutput.submitted import run, session


def main() -> int:
    """Run the command, and return its exit status."""
    arguments = parse(sys.argv[1:])

    def work(_: threading.Event) -> int:
        commands = {"resync": _resync, "status": _status, "adopt": _adopt}
        # Only `resync` can name a target.
        name, target = f"spark-pgoutput {arguments.command}", getattr(arguments, "target", None)
        spark = session(name, target, arguments.secrets)
        commands[arguments.command](spark, arguments)
        return 0

    return run(arguments.command, work)


def _resync(spark: SparkSession, arguments: argparse.Namespace) -> None:
    asked = resync(
        spark,
        checkpoint=arguments.checkpoint,
        tables=arguments.table,
        all=arguments.all,
        target=arguments.target,
        format=arguments.format,
    )
    if arguments.all:
        print("The job copies all tables again, within seconds or at its next start.")
    for table in asked:
        name = printable(table)
        print(f"The job copies {name} again, within seconds or at its next start.")


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
    tables = applied(spark, arguments.checkpoint, rows=arguments.rows).collect()
    slot = None
    try:
        if arguments.url is not None:
            slot = slot_status(
                spark,
                arguments.checkpoint,
                url=arguments.url,
                slot=arguments.slot,
                user=arguments.user,
                password=os.environ.get("PGPASSWORD"),
            )
    finally:  # If the server does not answer, the command still prints the tables.
        waiting = waits(spark, arguments.checkpoint)
        if arguments.json:
            print(status_report.as_json(tables, slot, waiting))
        else:
            print(status_report.as_text(tables, slot, waiting, files=arguments.files))


if __name__ == "__main__":
    sys.exit(main())
