"""The commands that need only the target of a job: their arguments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from spark_pgoutput import password, replicate_command, spark_submit

_SUBMITTED = {"verify": "verify_job.py"}  # beside this file
_JOB = ("url", "slot", "publication", "checkpoint")


def add_resync_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `spark-pgoutput resync` to a parser."""
    request = parser.add_argument_group("the request")
    _add_target(request)
    tables = request.add_mutually_exclusive_group(required=True)
    tables.add_argument(
        "--table",
        action="append",
        help="a table of the server, as in public.orders; can be repeated",
    )
    tables.add_argument(
        "--all",
        action="store_true",
        help="all tables, with a new slot and a new checkpoint; also if the slot, the server or "
        "the checkpoint is lost",
    )
    spark_submit.add_arguments(parser)


def add_status_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `spark-pgoutput status` to a parser."""
    status = parser.add_argument_group("what is shown")
    _add_target(status)
    status.add_argument("--json", action="store_true", help="print JSON")
    server = parser.add_argument_group("the server, for the health and the lag of the slot")
    server.add_argument("--url", help="jdbc:postgresql://host:port/database")
    server.add_argument("--slot", help="the slot of the job")
    password.add_arguments(server)
    spark_submit.add_arguments(parser)


def add_verify_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `spark-pgoutput verify` to a parser."""
    request = parser.add_argument_group("the request")
    _add_target(request)
    request.add_argument(
        "--table",
        action="append",
        default=[],
        help="a table of the server, as in public.orders; can be repeated; all by default",
    )
    request.add_argument("--json", action="store_true", help="print JSON")
    request.add_argument(
        "--timeout", type=float, help="how many seconds to wait for a job; by default, for ever"
    )
    job = parser.add_argument_group("the job, if none runs")
    job.add_argument(
        "--once", action="store_true", help="run the job up to now, with its other arguments"
    )
    replicate_command.add_job_arguments(job, required=False)
    spark_submit.add_arguments(parser)


def add_adopt_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `spark-pgoutput adopt` to a parser."""
    server = parser.add_argument_group("the new server")
    server.add_argument("--url", required=True, help="jdbc:postgresql://host:port/database")
    password.add_arguments(server)
    server.add_argument("--slot", required=True, help="the slot of the job")
    server.add_argument("--publication", required=True, help="the publications of the job")
    job = parser.add_argument_group("the job")
    _add_target(job)
    job.add_argument(
        "--last-lsn",
        required=True,
        help="the value of pg_current_wal_lsn() at the old server after its last write",
    )
    spark_submit.add_arguments(parser)


def check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End with an error if arguments do not go together."""
    if arguments.command == "status" and (arguments.url is None) != (arguments.slot is None):
        parser.error("--url and --slot go together")
    if arguments.command == "verify":
        for name in _JOB:
            if arguments.once and getattr(arguments, name) is None:
                parser.error(f"--once needs --{name}")
            if not arguments.once and getattr(arguments, name) is not None:
                parser.error(f"--{name} goes with --once, which runs the job")


def run(arguments: argparse.Namespace, given: Sequence[str]) -> NoReturn:
    """Replace this process by spark-submit, which runs the command."""
    asks = getattr(arguments, "url", None) is not None
    variables = password.variables(arguments) if asks else {}
    script = _SUBMITTED.get(arguments.command, "target_job.py")
    spark_submit.submit(script, arguments, given, variables)


def _add_target(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--target",
        required=True,
        help="the target of the job: a namespace of a catalog, or a folder of Delta tables",
    )
    group.add_argument(
        "--format",
        choices=["delta", "iceberg"],
        help="the format of the tables; by default, what the catalog writes",
    )
