"""Spark as users start it: in processes of their own, which end with the test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

TIMEOUT = 180.0

SETTINGS = "spark.ui.enabled false\nspark.log.level ERROR\nspark.executor.memory 512m\n"


def run(command: Sequence[str], folder: Path, **environment: str) -> list[str]:
    """The lines that a process writes to its output. It has to succeed."""
    with started(command, folder, **environment) as process:
        output, errors = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, f"{output}\n{errors}"
        return output.splitlines()


def run_python(script: str, folder: Path, **environment: str) -> list[str]:
    return run([sys.executable, "-c", script], folder, **environment)


@contextmanager
def started(
    command: Sequence[str], folder: Path, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """A process in `folder` that is stopped at the end, with the processes that it started."""
    configuration = folder / "conf"
    configuration.mkdir(exist_ok=True)
    (configuration / "spark-defaults.conf").write_text(SETTINGS)
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**_environment(), "SPARK_CONF_DIR": str(configuration), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _stop(process)


def _environment() -> dict[str, str]:
    """As in a virtual environment that was activated, without what a Spark in this process set."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    programs = Path(sys.executable).parent
    return {
        **inherited,
        "PATH": f"{programs}{os.pathsep}{inherited['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        # What is left of a short run is the start of the JVM, and this makes it faster.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def _stop(process: subprocess.Popen[str]) -> None:
    """Spark removes its temporary files when it is asked to end, so it is asked first."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            break
        try:
            process.communicate(timeout=30)
            break
        except subprocess.TimeoutExpired:
            continue


def free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind(("127.0.0.1", 0))
        port: int = candidate.getsockname()[1]
        return port
