"""What each command needs in the process of spark-submit: a session, signals and error texts."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_pgoutput.logging_file import logger_levels

# The errors that a command shows without a stack trace. If PySpark does not know the class of an
# error, such as that of a missing driver of a file system, the error is one of Py4J.
FAILURES = (PySparkException, Py4JJavaError, RuntimeError, TypeError, TimeoutError)

# This level applies from the first line of Spark's log on.
_QUIET = {"spark.log.level": "WARN"}

JOB_SETTINGS = {
    # Each table has queries of its own. If Spark does not keep their classes, it compiles them
    # again for each commit. By default, it keeps 100 classes. The setting is static.
    "spark.sql.codegen.cache.maxEntries": "10000",
    # Commits and copies share the cores. Otherwise, commits wait for a copy.
    "spark.scheduler.mode": "FAIR",
}

_EXTENSIONS = "spark.sql.extensions"

# The settings if the target is a folder.
DELTA_SETTINGS = {
    _EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def session(
    name: str,
    target: str | None = None,
    secrets: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a session with the settings of a command and more, unless the user gives others.

    If the target is a folder, the session has the extension of Delta in addition to those of the
    user. If the command does not name the target, a JAR of Delta decides. The values of secret
    settings are in variables of the environment, because each user sees the arguments of a process.
    """
    # A locale that is not UTF-8 lacks characters of names and of texts.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    builder = SparkSession.builder.appName(name)
    given = _submitted()
    settings = {**_QUIET, **JOB_SETTINGS, **(more or {})}
    jars = [given.get(name, "") for name in ("spark.jars", "spark.jars.packages")]
    if any("delta-spark" in each for each in jars) if target is None else "/" in target:
        settings |= DELTA_SETTINGS
        extensions = [*given.pop(_EXTENSIONS, "").split(","), settings[_EXTENSIONS]]
        settings[_EXTENSIONS] = ",".join(dict.fromkeys(filter(None, extensions)))
    hidden = {setting: os.environ[variable] for setting, variable in (secrets or {}).items()}
    for setting, value in {**settings, **hidden}.items():
        if setting not in given or setting in hidden:
            builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    jvm: Any = spark._jvm
    log4j = jvm.org.apache.logging.log4j
    for logger, level in logger_levels().items():
        log4j.core.config.Configurator.setLevel(logger, log4j.Level.toLevel(level))
    return spark


def run(command: str, work: Callable[[threading.Event], int]) -> int:
    """Do the work of a command.

    Parameters
    ----------
    command : str
        The name of the command.
    work : callable
        Takes an event that is set when a signal is to end this process, and returns the exit
        status.

    Returns
    -------
    int
        The exit status. It is 1 if an error was printed.
    """
    stopping = _signalled()
    try:
        return work(stopping)
    except FAILURES as error:
        # A signal also ends Spark. What still runs then fails, and its error has another reason.
        if not stopping.is_set():
            show(command, error)
    except Py4JError:
        # Ctrl+C in a terminal also signals the JVM, which then ends its work and exits.
        if not stopping.is_set():
            raise
    return 1


def show(command: str, error: Exception) -> None:
    """Print an error that has ended a command."""
    print(f"spark-pgoutput {command}: {_text(error)}", file=sys.stderr)


def _signalled() -> threading.Event:
    """Return an event that is set when a signal is to end this process.

    A signal must not raise an exception: it would interrupt a call of the JVM, and the next call
    would read the answer to the interrupted one.
    """
    found = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        found.set()
        logging.disable()  # Py4J logs that the JVM has ended.

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # which nohup sets
        signal.signal(signal.SIGHUP, note)
    return found


def _text(error: Exception) -> str:
    """Return the text of an error without the stack trace of the JVM."""
    message = str(error.java_exception.toString() if isinstance(error, Py4JJavaError) else error)
    found = re.search(r"\[PGOUTPUT_\w+\].+", message)
    # An error of a task has its stack trace in the message.
    return found[0] if found else re.split(r"\n\s+at |\n+Driver stacktrace:", message)[0]


def _submitted() -> dict[str, str]:
    """Return the settings that spark-submit was given."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())
