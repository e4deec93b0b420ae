"""A standalone cluster of Spark on this machine, whose workers a test kills."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.processes import accepts_connections, errors_of, free_port, started
from support.servers import wait_until

START = 300.0  # on a busy machine
DEPLOY = "org.apache.spark.deploy"


class Cluster:
    """A master and its workers, each of which has one core.

    Parameters
    ----------
    folder : Path
        The folder that has a folder for each process.
    stack : ExitStack
        The stack that ends the processes.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start("master", f"{DEPLOY}.master.Master", "--port", str(port))
        wait_until(lambda: accepts_connections(port), START, 0.1)

    def worker(self, name: str) -> subprocess.Popen[str]:
        """Start a worker, and wait until the master knows it."""
        resources = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name))
        worker = self._start(name, f"{DEPLOY}.worker.Worker", *resources, self.url)

        def is_known() -> bool:
            assert worker.poll() is None, errors_of(self._folder / name)[-3000:]
            return "Successfully registered with master" in errors_of(self._folder / name)

        wait_until(is_known, START, 0.1)
        return worker

    def _start(self, name: str, *command: str) -> subprocess.Popen[str]:
        folder = self._folder / name
        folder.mkdir(parents=True)
        line = ["spark-class", *command, "--host", "127.0.0.1", "--webui-port", "0"]
        variables = {"JDK_JAVA_OPTIONS": "-Xmx256m -Dspark.log.level=INFO"}
        return self._stack.enter_context(started(line, folder, **variables))


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start a master. At the end of the block, it and its workers end."""
    with ExitStack() as stack:
        yield Cluster(folder, stack)


def kill_machine(worker: subprocess.Popen[str]) -> None:
    """Kill a worker with its executors."""
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
