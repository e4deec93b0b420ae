"""The commands that need no process of a job: their arguments."""

from __future__ import annotations

import argparse
import math
import re

from spark_pgoutput import job_status, password, replicate_command, spark_submit
from spark_pgoutput.job_options import LISTS, OF_TABLES

# The arguments that `verify --once` needs, and all arguments that it takes, except for those of
# hidden columns: two arguments make one value, `columns`.
_NEEDED = ("url", "slot", "publication", "target")
_JOB = (
    *_NEEDED,
    *("format", "user", "password_file", "name", "type", "pg_type", *OF_TABLES, *LISTS),
    *("property", "option", "status_file"),
)


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands with their arguments."""
    _add_resync(commands)
    _add_adopt(commands)
    _add_status(commands)
    _add_verify(commands)


def check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End with an error if arguments do not go together."""
    given = [name for name, value in vars(arguments).items() if value is not None]
    if arguments.command == "status":
        if ("url" in given) != ("slot" in given):
            parser.error("--url and --slot go together")
        if "url" not in given and ("user" in given or "password_file" in given):
            parser.error("--user and --password-file go with --url")
        _check_status(parser, arguments)
    if arguments.command == "resync":
        if ("checkpoint" in given) == ("target" in given):
            parser.error("resync needs --checkpoint, or --target with --all")
        if "target" in given and not arguments.all:
            parser.error("--target goes with --all, and --table needs --checkpoint")
        for name in ("format", "slot"):
            if name in given and "target" not in given:
                parser.error(f"--{name} goes with --target")
    if arguments.command == "verify" and arguments.once:
        if "timeout" in given:
            parser.error("--timeout goes with a job that runs, and not with --once")
        for name in _NEEDED:
            if name not in given:
                parser.error(f"--once needs --{name}")
    elif arguments.command == "verify":
        for name in _JOB:
            if name in given:
                parser.error(f"--{name.replace('_', '-')} goes with --once, which runs the job")
        if "columns" in given:
            parser.error("--exclude-column and --hash-column go with --once, which runs the job")


def _check_status(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if not arguments.check and (arguments.tables or arguments.max_lag is not None):
        parser.error("--tables and --max-lag go with --check")
    if arguments.check and (arguments.prometheus or arguments.json):
        parser.error("--check prints no other status")
    if not needs_spark(arguments):
        if arguments.rows or arguments.url is not None:
            parser.error("--rows and --url need Spark, which is not started here")
        if arguments.status_file is None and not job_status.is_local(arguments.checkpoint):
            parser.error(
                "without Spark, a checkpoint that is not on this host cannot be read: start the "
                "job with --status-file, and give the file here in place of --checkpoint"
            )


def needs_spark(arguments: argparse.Namespace) -> bool:
    """Return whether `status` needs Spark."""
    return not (arguments.check or arguments.prometheus or arguments.status_file is not None)


def _add_flags(group: argparse._ActionsContainer, **texts: str) -> None:
    for name, text in texts.items():
        group.add_argument(f"--{name}", action="store_true", help=text)


def _add_resync(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "resync",
        help="copy tables of a job again",
        description="Ask a job to copy tables again. Other tables go on, and readers see the "
        "old rows until one commit replaces them. If the checkpoint folder is lost, name the "
        "target in its place, with --all.",
    )
    request = parser.add_argument_group("the request")
    replicate_command.add_checkpoint(request, required=False)
    replicate_command.add_target(request, required=False)
    request.add_argument(
        "--slot", help="the slot of the job, if the target has tables of several jobs"
    )
    tables = request.add_mutually_exclusive_group(required=True)
    tables.add_argument(
        "--table",
        action="append",
        help="a table of the server, as in public.orders; can be repeated",
    )
    _add_flags(
        tables,
        all="copy all tables, with a new slot; use it also if the slot, the server or the "
        "checkpoint folder is lost",
    )
    spark_submit.add_arguments(parser)


def _add_adopt(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "adopt",
        help="let a job go on with a server after pg_upgrade",
        description="Let a job continue with a server that pg_upgrade has made, "
        "and with the slot of the job. If the command cannot prove that no change is missing, "
        "it changes nothing, and its exit status is 1. Use resync --all then.",
    )
    server = parser.add_argument_group("the new server")
    password.add_arguments(server, url_is_required=True)
    server.add_argument("--slot", required=True, help="the slot of the job")
    server.add_argument("--publication", required=True, help="the publications of the job")
    job = parser.add_argument_group("the job")
    replicate_command.add_checkpoint(job, required=True)
    job.add_argument(
        "--last-lsn",
        type=_lsn,
        required=True,
        help="the value of pg_current_wal_lsn() at the old server after its last write",
    )
    spark_submit.add_arguments(parser)


def _add_status(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "status",
        help="show what the tables of a job have",
        description="Show the tables of a job, and with --url and --slot, the slot too. The job "
        "need not run.",
    )
    status = parser.add_argument_group("what is shown")
    where = status.add_mutually_exclusive_group(required=True)
    replicate_command.add_checkpoint(where, required=False)
    where.add_argument(
        "--status-file", help="the status file of the job, which is read without Spark"
    )
    _add_flags(
        status,
        rows="count the rows of the tables; Spark then needs the settings of the job's catalog",
        files="show the files of each table, and what the job has rewritten; JSON always has it",
    )
    _add_flags(
        status.add_mutually_exclusive_group(),
        json="print JSON",
        prometheus="print metrics as Prometheus reads them, without Spark",
    )
    check = parser.add_argument_group("probes and alerts, which start no Spark")
    _add_flags(
        check,
        check=f"end with 0 if the job runs and reads the slot, and otherwise with "
        f"{job_status.NOT_READING} and a line that says why; a failed table does not count",
        tables=f"with --check: end with {job_status.BEHIND} if a table has failed",
    )
    check.add_argument(
        "--max-lag",
        type=_seconds,
        metavar="SECONDS",
        help=f"with --check: end with {job_status.BEHIND} if a table is further behind",
    )
    server = parser.add_argument_group("the server, for the health and the lag of the slot")
    password.add_arguments(server, url_is_required=False)
    server.add_argument("--slot", help="the slot of the job")
    spark_submit.add_arguments(parser)


def _add_verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "verify",
        help="compare the tables of a job with those of the server",
        description="Ask a job to compare its tables with those of the server, both as of one LSN, "
        "while the job goes on. The exit status is 0 if all "
        "tables are equal, 4 if a table differs, and 3 if no table differs but a table was "
        "skipped. It is 1 if the verification failed, and 2 if an argument is wrong.",
    )
    request = parser.add_argument_group("the request")
    replicate_command.add_checkpoint(request, required=True)
    request.add_argument(
        "--table",
        action="append",
        default=[],
        help="a table of the server, as in public.orders; can be repeated; all by default",
    )
    _add_flags(request, json="print JSON")
    request.add_argument(
        "--timeout", type=_seconds, help="the seconds to wait for a job; by default, no limit"
    )
    job = parser.add_argument_group("the job, if none runs")
    _add_flags(job, once="run the job until everything up to now is applied")
    replicate_command.add_target(job, required=False)
    replicate_command.add_job_arguments(job, required=False)
    spark_submit.add_arguments(parser)


def _lsn(text: str) -> str:
    if not re.fullmatch(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not an LSN such as 1/6A3F08")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds")
    return seconds
