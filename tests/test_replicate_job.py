"""How the process of `spark-pgoutput replicate` follows its job."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from spark_pgoutput import job_process, submitted
from spark_pgoutput.replication import CopyProgress, Replication


class FakeJob:
    """A stand-in for a job that ends when it is stopped, or whose JVM ends."""

    exit_code = 1

    def __init__(self, stopping: threading.Event, jvm_ends: bool) -> None:
        self._stopping = stopping
        self._jvm_ends = jvm_ends
        self._stopped = False

    def awaitTermination(self, timeout: float) -> bool:  # noqa: N802
        if self._jvm_ends:
            self._stopping.set()
            raise Py4JError("gone")
        return self._stopped

    def stop(self) -> None:
        self._stopped = True

    def report(self) -> list[str]:
        self._stopping.set()
        return ["a line"]

    def progress(self) -> list[CopyProgress]:
        return []

    def failed(self) -> list[str]:
        return ["public.orders: no rights"]


EXTENSIONS = "spark.sql.extensions"
DELTA = "io.delta.sql.DeltaSparkSessionExtension"


@pytest.mark.parametrize("jvm_ends", [False, True])
def test_a_signal_ends_the_job_in_order(
    jvm_ends: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = threading.Event()
    job: Any = FakeJob(stopping, jvm_ends)
    monkeypatch.setattr(submitted, "_signalled", lambda: stopping)
    follow = partial(job_process._follow, cast(Replication, job))
    assert submitted.run("replicate", follow) == 1
    printed = capsys.readouterr().out.splitlines()
    assert set(printed[:-1]) == (set() if jvm_ends else {"a line"})
    assert printed[-1:] == ([] if jvm_ends else ["Failed: public.orders: no rights"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_noted_but_an_ignored_sighup_is_not(number: signal.Signals) -> None:
    """A closed terminal sends SIGHUP, too. A command that nohup started ignores it."""
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert not _is_noted(signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert _is_noted(number)
    finally:
        logging.disable(logging.NOTSET)
        for one, handler in before.items():
            signal.signal(one, handler)


def test_an_error_after_a_signal_is_not_printed_because_spark_has_ended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = threading.Event()
    monkeypatch.setattr(submitted, "_signalled", lambda: stopping)

    def work(stopping: threading.Event, signalled: bool = False) -> int:
        if signalled:
            stopping.set()
        raise RuntimeError("No active Spark session found.")

    assert submitted.run("replicate", work) == 1
    assert "No active Spark session found." in capsys.readouterr().err
    assert submitted.run("replicate", partial(work, signalled=True)) == 1
    assert capsys.readouterr().err == ""


def _is_noted(number: signal.Signals) -> bool:
    stopping = submitted._signalled()
    signal.raise_signal(number)
    return stopping.is_set()


def test_an_error_that_pyspark_does_not_know_is_printed_in_one_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Examples are the error of a file system whose JAR is missing, and the errors of tasks."""
    jvm: Any = spark._jvm
    configuration = jvm.org.apache.hadoop.conf.Configuration()
    folder = jvm.org.apache.hadoop.fs.Path("nowhere://bucket/checkpoint")
    damaged = tmp_path / "lines.gz"
    damaged.write_text("not compressed")
    lines = spark.sparkContext._jsc.textFile(str(damaged))
    for fail, begin in (
        (lambda: folder.getFileSystem(configuration), "org.apache.hadoop.fs."),
        (lambda: lines.count(), "org.apache.spark.SparkException: Job aborted due to stage"),
    ):

        def work(_: threading.Event, fail: Callable[[], object] = fail) -> int:
            with pytest.raises(Py4JJavaError) as raised:
                fail()
            raise raised.value

        assert submitted.run("replicate", work) == 1
        printed = capsys.readouterr().err.splitlines()
        assert printed[0].startswith(f"spark-pgoutput replicate: {begin}")
        assert len(printed) == 1


@pytest.fixture
def set_here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the settings that a command gives to its session."""
    found: dict[str, str] = {}

    class Builder:
        def appName(self, _: str) -> Builder:  # noqa: N802
            return self

        def config(self, name: str, value: str) -> Builder:
            found[name] = value
            return self

        def getOrCreate(self) -> SparkSession:  # noqa: N802
            return spark

    monkeypatch.setattr(SparkSession, "builder", Builder())
    return found


def test_the_session_of_a_command_keeps_the_code_of_all_tables(
    set_here: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting of the user wins. The page gives sessions in Python the same settings."""
    page = Path(__file__).parents[1] / "docs" / "replicate.md"
    assert len(submitted.JOB_SETTINGS) == 2
    for name, value in submitted.JOB_SETTINGS.items():
        monkeypatch.setattr(submitted, "_submitted", lambda: {})
        submitted.session("replicate", "lakehouse.shop")
        assert set_here.pop(name) == value
        monkeypatch.setattr(submitted, "_submitted", lambda name=name: {name: "x"})
        submitted.session("replicate", "lakehouse.shop")
        assert name not in set_here
        assert f'builder.config("{name}", "{value}")' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "has_delta"),
    [
        ({"spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0"}, True),
        ({"spark.jars": "/opt/delta-spark_4.1_2.13-4.4.0.jar,/opt/other.jar"}, True),
        ({"spark.jars": "/opt/iceberg-spark-runtime-4.1_2.13-1.11.0.jar"}, False),
        ({}, False),
    ],
)
def test_the_session_of_a_command_that_names_no_target_has_delta_if_its_jar_is_there(
    given: dict[str, str],
    has_delta: bool,
    set_here: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submitted, "_submitted", lambda: dict(given))
    submitted.session("status")
    assert (EXTENSIONS in set_here) == has_delta


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, DELTA),
        ({EXTENSIONS: "org.example.Other"}, f"org.example.Other,{DELTA}"),
        ({EXTENSIONS: f"{DELTA},org.example.Other"}, f"{DELTA},org.example.Other"),
    ],
)
def test_the_session_of_a_folder_has_the_extension_of_delta(
    given: dict[str, str],
    expected: str,
    set_here: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submitted, "_submitted", lambda: dict(given))
    submitted.session("replicate", "/data/lake")
    assert set_here[EXTENSIONS] == expected
