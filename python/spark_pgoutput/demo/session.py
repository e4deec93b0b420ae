"""The demo's Spark sessions: local, short and quiet, and with few rows."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.demo.errors import DemoError
from spark_pgoutput.spark_submit import prefer_classic
from spark_pgoutput.submitted import DELTA_SETTINGS

SETTINGS = {
    # A session is too short for the optimizing compiler. Without it, a session takes half the time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # The rows are too few for generated code, for adaptive plans and for several tasks. Delta reads
    # the state of a table by tasks of its own, before and after each commit.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# The Sparks that Delta runs on. The JAR has the same list in `LakeFormat`.
DELTA_SPARKS = ("4.0", "4.1", "4.2")


@contextmanager
def spark_session(log: Path, *, writes_delta: bool) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end.

    Parameters
    ----------
    log : Path
        A file for the standard error of Spark's JVM and for the log of its Python side.
    writes_delta : bool
        Whether the session needs Delta, which Spark downloads.
    """
    # Py4J frees Java objects in a thread of its own. If the JVM ends before it, that thread logs
    # an error, by default on the terminal.
    logging.basicConfig(filename=log)
    prefer_classic(os.environ)
    delta = {"spark.jars.packages": delta_package(), **DELTA_SETTINGS} if writes_delta else {}
    local = {"spark.driver.host": "localhost", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.appName("spark-pgoutput demo").master("local[*]")
    builder = builder.config(map={**SETTINGS, **local, **delta})
    with _processes_ended():
        try:
            with _standard_error_to(log):
                spark = spark_pgoutput.configure(builder).getOrCreate()
        except Exception as error:
            last_lines = log.read_text(errors="replace").splitlines()[-20:]
            raise DemoError("\n".join([f"Spark did not start: {error}", *last_lines])) from error
        yield spark
        spark.stop()


def has_delta() -> bool:
    """Return whether Delta runs on this Spark."""
    return _spark() in DELTA_SPARKS


def delta_package() -> str:
    """Return the coordinates of Delta for this Spark."""
    return f"io.delta:delta-spark_{_spark()}_2.13:4.4.0"


def _spark() -> str:
    """Return the version of Spark without the patch release."""
    return ".".join(pyspark.__version__.split(".")[:2])


@contextmanager
def _processes_ended() -> Iterator[None]:
    """End the processes that start inside this block, such as Spark's JVM.

    After an interruption, Python cannot ask Spark to stop: the answer to the interrupted call is
    still to come, and Py4J would take it for the answer to the next call. If PySpark was still
    waiting for the JVM to start, the JVM would not end by itself. On SIGTERM it removes its
    temporary files.
    """
    before = set(psutil.Process().children(recursive=True))
    try:
        yield
    finally:
        started = set(psutil.Process().children(recursive=True)) - before
        for process in started:
            process.terminate()
        psutil.wait_procs(started, timeout=10)


@contextmanager
def _standard_error_to(log: Path) -> Iterator[None]:
    """Redirect standard error, which a JVM that starts inside this block keeps until its end."""
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
