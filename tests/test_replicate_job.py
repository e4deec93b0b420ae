"""How the process of `spark-pgoutput replicate` follows its job."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError

from spark_pgoutput import replicate_job
from spark_pgoutput.replication import CopyProgress, Replication


class FakeJob:
    """A job that ends when it is stopped, or whose JVM ends then."""

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
        return ["told"]

    def progress(self) -> list[CopyProgress]:
        return []


@pytest.mark.parametrize("jvm_ends", [False, True])
def test_a_signal_ends_the_job_in_order(jvm_ends: bool, capsys: pytest.CaptureFixture[str]) -> None:
    stopping = threading.Event()
    job: Any = FakeJob(stopping, jvm_ends)
    assert replicate_job._follow(cast(Replication, job), stopping) == 1
    assert set(capsys.readouterr().out.splitlines()) == (set() if jvm_ends else {"told"})
