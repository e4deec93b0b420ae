"""The demo's Spark session: local, quiet, with the decoder and PostgreSQL's JDBC driver."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.demo.errors import DemoError

JDBC_DRIVER = "org.postgresql:postgresql:42.7.13"


@contextmanager
def spark_session(log: Path) -> Iterator[SparkSession]:
    """Start Spark, and stop it afterwards.

    Parameters
    ----------
    log : Path
        A file for what Spark's JVM writes to standard error, and its Python side logs.
    """
    # Py4J frees Java's objects in a thread of its own, which may meet the end of the JVM and logs
    # that as an error: on the terminal, if nothing else is said.
    logging.basicConfig(filename=log)
    builder = (
        SparkSession.builder.appName("spark-pgoutput demo")
        .master("local[*]")
        .config("spark.jars.packages", JDBC_DRIVER)
        # A session this short is over before the optimizing compiler pays: half the time without.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        # Nor does it pay to generate code for so few rows, and to plan again while a query runs.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.driver.host", "localhost")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        # Without it an error in connecting does not say what PostgreSQL said.
        .config("spark.sql.pyspark.jvmStacktrace.enabled", "true")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
    )
    with _processes_ended():
        try:
            with _standard_error_to(log):
                spark = spark_pgoutput.configure(builder).getOrCreate()
        except Exception as error:
            last_lines = log.read_text(errors="replace").splitlines()[-20:]
            raise DemoError("\n".join([f"Spark did not start: {error}", *last_lines])) from error
        yield spark
        spark.stop()


@contextmanager
def _processes_ended() -> Iterator[None]:
    """End the processes that are started meanwhile, which is Spark's JVM.

    After an interruption Spark cannot be asked to stop: the answer to the call that was
    interrupted is still to come, and would be taken for the answer to the next one. And a JVM
    that PySpark was still waiting for would not end by itself. On SIGTERM it tidies up as well.
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
    """Redirect the file descriptor, which a JVM that starts meanwhile keeps for its whole life."""
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
