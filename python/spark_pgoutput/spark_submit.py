"""Commands that run in Spark: the arguments of spark-submit, and the process that runs a script."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import MutableMapping, Sequence
from pathlib import Path
from typing import NoReturn

from spark_pgoutput import password
from spark_pgoutput.jar import jar_path
from spark_pgoutput.logging_file import use_logging_file
from spark_pgoutput.spark_defaults import spark_default, spark_home

# This variable of the environment says to a script that the command's output is a terminal. The
# script cannot see it, because spark-submit gives its scripts pipes.
TERMINAL = "SPARK_PGOUTPUT_TERMINAL"

# The size of the driver's heap, if no setting of Spark has it. Spark's own default is 1g.
_MEMORY = "SPARK_DRIVER_MEMORY"

# Options of the JVM, if the user gives no others.
# - Code runs about five times as often as by default before the JVM optimizes it. A small commit
#   runs much code of Spark and of the formats a little. In the first minutes, to optimize all of it
#   takes more CPU than it saves.
# - The heap has regions of 8 MB. By default, those of a small heap have 1 MB, and each writer of a
#   Parquet file allocates arrays of 1 MB. G1 does not move an array of half a region or more, and
#   often looks through the whole heap because of them.
_JVM_OPTIONS = (
    "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=5000 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=200000 "
    "-XX:G1HeapRegionSize=8m"
)

_PASSED_ON = ("--master", "--conf", "--packages", "--properties-file")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that go to spark-submit unchanged."""
    spark = parser.add_argument_group("arguments of spark-submit")
    for name in _PASSED_ON:
        spark.add_argument(name, action="append", default=[], help="as spark-submit takes it")
    spark.add_argument("--jars", default="", help="as spark-submit takes it")
    # The variables of the environment that have the values of secret settings.
    parser.set_defaults(secrets={})


def submit(arguments: argparse.Namespace, given: Sequence[str]) -> NoReturn:
    """Replace this process by spark-submit, which runs the script `job_process.py`.

    Parameters
    ----------
    arguments : argparse.Namespace
        The arguments of the command.
    given : sequence of str
        The same arguments as the user wrote them. The script reads them again.
    """
    # Neither `ps` nor Spark shows the password in these variables.
    environment = {**os.environ, **password.variables(arguments)}
    if arguments.command == "replicate":
        environment[_MEMORY] = environment.get(_MEMORY) or "2g"
        # Of two equal options, the later one counts: the user's, in this variable or in a setting.
        given_options = environment.get("SPARK_SUBMIT_OPTS", "")
        environment["SPARK_SUBMIT_OPTS"] = f"{_JVM_OPTIONS} {given_options}".rstrip()
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    # Another Python, or Jupyter, which runs the user's own drivers, may not have this package.
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    try:
        environment["SPARK_HOME"] = spark_home()
    except ImportError:
        sys.exit(
            "The package pyspark is not installed. Install it, or set the variable SPARK_HOME to "
            "the folder of Spark."
        )
    prefer_classic(environment)
    use_logging_file(environment, environment["SPARK_HOME"])
    if sys.stdout is not None and sys.stdout.isatty():  # None if the user has closed it
        environment[TERMINAL] = "1"
        environment["COLUMNS"] = str(shutil.get_terminal_size().columns)
    jars = ",".join(filter(None, [_jars_of_user(arguments), jar_path()]))
    command = [str(Path(environment["SPARK_HOME"]) / "bin" / "spark-submit"), "--jars", jars]
    for name in _PASSED_ON:
        for value in getattr(arguments, name[2:].replace("-", "_")):
            command += [name, value]
    # The driver runs on this machine, which has the password and takes the exit status.
    command += ["--deploy-mode", "client"]
    # Otherwise, the setting spark.pyspark.python would override the variable of the environment.
    command += ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
    command += [str(Path(__file__).with_name("job_process.py")), *given]
    try:
        os.execve(command[0], command, environment)  # so that signals reach Spark
    except OSError as error:
        sys.exit(f"Spark cannot be started. Check the variable SPARK_HOME. {error}")


def prefer_classic(environment: MutableMapping[str, str]) -> None:
    """Let PySpark make a session in Spark's driver, where a command works, and no Connect client.

    Without SPARK_API_MODE, the package pyspark-connect or SPARK_CONNECT_MODE would decide.
    """
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        environment.pop(name, None)
    environment["SPARK_API_MODE"] = "classic"


def _jars_of_user(arguments: argparse.Namespace) -> str | None:
    """Return the JARs that the user names, in an argument or a setting, which --jars replaces."""
    settings = dict(conf.split("=", 1) for conf in arguments.conf if "=" in conf)
    file = Path(arguments.properties_file[-1]) if arguments.properties_file else None
    return arguments.jars or settings.get("spark.jars") or spark_default("spark.jars", file)
