"""What a part of a benchmark takes: time, and the CPU of Spark's JVM and of the server."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil
import psycopg
from pyspark import SparkContext

from spark_pgoutput.demo.server import PostgresServer


@dataclass
class Cost:
    """What a part has taken: seconds by the clock, and seconds of CPU."""

    seconds: float
    spark: float
    server: float
    others: float = 0.0

    @property
    def cpu(self) -> float:
        """The seconds of CPU of all processes."""
        return self.spark + self.server + self.others


class Meter:
    """Adds up the CPU of Spark's JVM and of the server, also of backends that have ended."""

    def __init__(self, server: PostgresServer) -> None:
        gateway = SparkContext._gateway
        assert gateway
        self._jvm = psutil.Process(gateway.proc.pid)
        with psycopg.connect(server.conninfo) as connection:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert row
            self._postmaster = psutil.Process(row[0]).parent()
        self._ended: dict[int, float] = {}

    def _spark(self) -> float:
        used = self._jvm.cpu_times()
        return float(used.user + used.system)

    def _server(self) -> float:
        assert self._postmaster
        for process in self._postmaster.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                used = process.cpu_times()
                self._ended[process.pid] = used.user + used.system
        return sum(self._ended.values())

    def measure(self, run: Callable[[], float | None]) -> Cost:
        """Run something, which can return the CPU of processes of its own."""
        done = threading.Event()
        watcher = threading.Thread(target=lambda: self._watch(done))
        begin, spark, server = time.monotonic(), self._spark(), self._server()
        watcher.start()
        others = run() or 0.0
        done.set()
        watcher.join()
        seconds = time.monotonic() - begin
        return Cost(seconds, self._spark() - spark, self._server() - server, others)

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(0.1):
            self._server()
