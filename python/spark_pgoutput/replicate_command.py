"""The command `spark-pgoutput replicate`: its arguments, and the spark-submit that runs it."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from spark_pgoutput.jar import jar_path

_SUBMITTED = "replicate_job.py"  # beside this file
_FOR_SPARK_SUBMIT = ("--master", "--conf", "--packages", "--properties-file")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser."""
    job = parser.add_argument_group("the job")
    job.add_argument("--url", required=True, help="jdbc:postgresql://host:port/database")
    job.add_argument("--user", help="the role that connects; by default, the one of the URL")
    job.add_argument("--password-file", type=Path, help="a file whose first line is the password")
    job.add_argument("--slot", required=True, help="the slot, which the job makes at its start")
    job.add_argument(
        "--publication", required=True, help="the publications, with commas between them"
    )
    job.add_argument(
        "--target", required=True, help="a namespace of a catalog, or a folder for Delta tables"
    )
    job.add_argument("--checkpoint", required=True, help="a folder for Spark's checkpoint")
    job.add_argument(
        "--once", action="store_true", help="end when all is applied that was there at the start"
    )
    job.add_argument("--format", choices=["delta", "iceberg"], help="if the catalog writes both")
    job.add_argument(
        "--name",
        action=_Pairs,
        metavar="TABLE=NAME",
        help="the name of a table in the target, as in public.orders=orders; can be repeated",
    )
    job.add_argument(
        "--type",
        action=_Pairs,
        metavar="COLUMN=TYPE",
        help="the Spark type of a column, as in public.orders.price=STRING; can be repeated",
    )
    job.add_argument(
        "--property",
        action=_Pairs,
        metavar="NAME=VALUE",
        help="a property of the tables that the job makes; can be repeated",
    )
    job.add_argument(
        "--option",
        action=_Pairs,
        metavar="NAME=VALUE",
        help="another option, as in onTableError=skip; can be repeated",
    )
    spark = parser.add_argument_group("arguments of spark-submit")
    for name in _FOR_SPARK_SUBMIT:
        spark.add_argument(name, action="append", default=[], help="as spark-submit takes it")
    spark.add_argument("--jars", default="", help="as spark-submit takes it")


class _Pairs(argparse.Action):
    """Collects arguments of the form NAME=VALUE. The value may have an equals sign, too."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        name, equals, value = str(values).partition("=")
        if not equals or not name or not value:
            parser.error(f"argument {option_string}: '{values}' must have the form {self.metavar}")
        pairs = dict(getattr(namespace, self.dest) or {})
        pairs[name] = value
        setattr(namespace, self.dest, pairs)


def job_options(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the arguments of `spark_pgoutput.replicate`."""
    return {
        "url": arguments.url,
        "user": arguments.user,
        "slot": arguments.slot,
        "publication": arguments.publication,
        "target": arguments.target,
        "checkpoint": arguments.checkpoint,
        "once": arguments.once,
        "format": arguments.format,
        "names": arguments.name or {},
        "types": arguments.type or {},
        "properties": arguments.property or {},
        **(arguments.option or {}),
    }


def run(arguments: argparse.Namespace, given: Sequence[str]) -> NoReturn:
    """Replace this process by spark-submit, which runs the job.

    The exit status is 0 if the job has done all it should, 3 if a table is stopped, and else 1.

    Parameters
    ----------
    arguments : argparse.Namespace
        The arguments of the command.
    given : sequence of str
        The same arguments as the user wrote them. The job's process reads them again.
    """
    environment = dict(os.environ)
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("SPARK_HOME", _spark_home())
    password = _password(arguments)
    if password is not None:  # The environment is no part of what `ps` or Spark show.
        environment["PGPASSWORD"] = password
    jars = ",".join(filter(None, [arguments.jars, jar_path()]))
    command = [str(Path(environment["SPARK_HOME"]) / "bin" / "spark-submit"), "--jars", jars]
    for name in _FOR_SPARK_SUBMIT:
        for value in getattr(arguments, name[2:].replace("-", "_")):
            command += [name, value]
    command += [str(Path(__file__).with_name(_SUBMITTED)), *given]
    os.execve(command[0], command, environment)  # so that signals reach Spark


def _spark_home() -> str:
    import pyspark

    return str(Path(pyspark.__file__).parent)


def _password(arguments: argparse.Namespace) -> str | None:
    """Find the password. None leaves it to the pgpass file, which the JDBC driver reads."""
    if arguments.password_file is not None:
        text: str = arguments.password_file.read_text()
        return text.splitlines()[0] if text else ""
    if "PGPASSWORD" in os.environ or "password=" in arguments.url:
        return None
    pgpass = Path(os.environ.get("PGPASSFILE", Path.home() / ".pgpass"))
    if pgpass.exists() or not sys.stdin.isatty():
        return None
    return getpass.getpass(f"Password of {arguments.user or 'the role'} (Enter for none): ") or None
