"""The demo's Spark session: local and quiet."""

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
from spark_pgoutput.demo.settings import SETTINGS, delta_settings
from spark_pgoutput.spark_submit import prefer_classic


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
    builder = (
        SparkSession.builder.appName("spark-pgoutput demo")
        .master("local[*]")
        .config("spark.driver.host", "localhost")
        .config("spark.driver.bindAddress", "127.0.0.1")
    )
    for name, value in {**SETTINGS, **(delta_settings() if writes_delta else {})}.items():
        builder = builder.config(name, value)
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
