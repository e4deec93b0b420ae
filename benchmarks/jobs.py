"""Versions of the package, and their jobs in processes of their own.

A job is the command `spark-pgoutput replicate` with what any version knows, and with no option or
setting that makes it faster. All figures are taken from outside of its process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

import spark_pgoutput
from spark_pgoutput.demo.server import PostgresServer

SLOT = "compared"
PUBLICATION = "compared"
FORMATS = ("delta", "iceberg")
JARS = ",".join(sorted(str(jar) for jar in (Path(__file__).parents[1] / ".lake").glob("*.jar")))

_CATALOG = "spark.sql.catalog.spark_catalog"
_START_SECONDS = 300.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Version:
    """A version of the package.

    Attributes
    ----------
    name : str
        What the report calls it.
    path : Path
        The folder that has the package, for PYTHONPATH.
    """

    name: str
    path: Path

    @classmethod
    def of_wheel(cls, name: str, wheel: Path, folder: Path) -> Version:
        """Unpack a wheel, which has the JAR in it."""
        with zipfile.ZipFile(wheel) as files:
            files.extractall(folder / name)
        return cls(name, folder / name)

    @classmethod
    def of_checkout(cls, name: str, folder: Path) -> Version:
        """Copy the package of this folder, which can then be built again while it is measured."""
        package = Path(spark_pgoutput.__file__).parent
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package, folder / name / package.name, ignore=ignored)
        return cls(name, folder / name)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that has this version and no Spark but that of PySpark."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SPARK_", "PYSPARK_", "PG"))
        }
        return {**kept, "PYTHONPATH": str(self.path), "SPARK_LOCAL_IP": "127.0.0.1"}


@dataclass(frozen=True)
class Ended:
    """What a job has taken that has ended.

    Attributes
    ----------
    status : int or None
        The exit status. It is None if the job took too long and was ended.
    seconds, cpu : float
        The seconds by the clock, and the seconds of CPU of all of its processes.
    peak : float
        The greatest resident memory of all of its processes, in MiB.
    """

    status: int | None
    seconds: float
    cpu: float
    peak: float


class Job:
    """A job with its target and its checkpoint.

    Parameters
    ----------
    version : Version
        The version that runs it.
    server : PostgresServer
        A server with the publication `PUBLICATION`.
    kind : str
        One of `FORMATS`.
    folder : Path
        A new folder of everything that belongs to the job.
    """

    def __init__(self, version: Version, server: PostgresServer, kind: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.version, self.server, self.kind, self.folder = version, server, kind, folder
        self.target = str(folder / "shop") if kind == "delta" else "ice.shop"
        self.tables = folder / "shop" if kind == "delta" else folder / "ice" / "shop"

    @property
    def options(self) -> dict[str, str]:
        """The options that each job needs, as the command and the function name them."""
        return {
            "url": self.server.jdbc_url,
            "user": self.server.user,
            "slot": SLOT,
            "publication": PUBLICATION,
            "target": self.target,
            "checkpoint": str(self.folder / "checkpoint"),
        }

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings for the format: Delta, or a catalog of Iceberg on the local disk."""
        if self.kind == "delta":
            return {
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                _CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            }
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions."
            "IcebergSparkSessionExtensions",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": str(self.folder / "ice"),
        }

    def command(self, *arguments: str) -> list[str]:
        """Return the command with more arguments."""
        line = [sys.executable, "-m", "spark_pgoutput", "replicate", "--jars", JARS]
        for name, value in self.options.items():
            line += [f"--{name}", value]
        for name, value in self.settings.items():
            line += ["--conf", f"{name}={value}"]
        return [*line, *arguments]

    def once(self, *arguments: str, timeout: float = 7200.0) -> Ended:
        """Run the job until it has everything that the server has, or until it takes too long."""
        with self._started("--once", *arguments) as process:
            begin, peak = time.monotonic(), 0.0
            while True:
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
                seconds = time.monotonic() - begin
                if ended:
                    process.returncode = os.waitstatus_to_exitcode(status)
                    # Of a process that has ended, and of all for whose ends it waited.
                    cpu = usage.ru_utime + usage.ru_stime
                    return Ended(process.returncode, seconds, cpu, peak)
                if seconds > timeout:
                    return Ended(None, seconds, cpu_of(process.pid), peak)
                peak = max(peak, _memory_of(process.pid))
                time.sleep(_POLL_SECONDS)

    def copy(self) -> Ended:
        """Let the job make its slot and copy all tables."""
        ended = self.once()
        if ended.status != 0:
            raise RuntimeError(f"The first copy ended with {ended.status}.\n{self.output()}")
        return ended

    @contextmanager
    def running(self, *arguments: str) -> Iterator[int]:
        """Run the job until the end of the block. It gives the process id when the slot is read."""
        with self._started(*arguments) as process:
            deadline = time.monotonic() + _START_SECONDS
            with psycopg.connect(self.server.conninfo, autocommit=True) as connection:
                active = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s AND active"
                while connection.execute(active, [SLOT]).fetchone() is None:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(f"The job does not read its slot.\n{self.output()}")
                    time.sleep(_POLL_SECONDS)
            yield process.pid
            if process.poll() is not None:
                raise RuntimeError(f"The job has ended.\n{self.output()}")

    def output(self) -> str:
        """Return the end of what the job's processes have printed."""
        return (self.folder / "output.txt").read_text(errors="replace")[-3000:]

    @contextmanager
    def _started(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        environment = {**self.version.environment, "PGPASSWORD": self.server.password}
        with (self.folder / "output.txt").open("ab") as output:
            process = subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and all other processes of this session."""
    for how, timeout in ((signal.SIGTERM, 60), (signal.SIGKILL, 30)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        if process.returncode is not None:
            continue
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU of a process and of all that it started, also if they have ended.

    A process has the seconds of its children that have ended.
    """
    used = 0.0
    for process in _tree(pid):
        with contextlib.suppress(psutil.Error):
            used += sum(process.cpu_times()[:4])
    return used


def postmaster(server: PostgresServer) -> int:
    """Return the process id of the server's first process."""
    with psycopg.connect(server.conninfo) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row
        return psutil.Process(row[0]).ppid()


class Window:
    """The CPU of processes from the begin of a stretch of time to its end.

    This process counts apart. It has the reader, and the writer that is not pgbench.

    Parameters
    ----------
    **processes : int
        The process ids, by the names of what they are.
    """

    def __init__(self, **processes: int) -> None:
        self._processes = processes
        self._begin = time.monotonic()
        self._used = self._now()

    def _now(self) -> Mapping[str, float]:
        used = {name: cpu_of(pid) for name, pid in self._processes.items()}
        return {**used, "this process": time.process_time()}

    def seconds(self) -> float:
        """Return the seconds by the clock since the begin."""
        return time.monotonic() - self._begin

    def cpu(self) -> dict[str, float]:
        """Return the seconds of CPU since the begin."""
        return {name: used - self._used[name] for name, used in self._now().items()}

    def per_minute(self) -> dict[str, float]:
        """Return the seconds of CPU in a minute, by the texts of the report."""
        minutes = self.seconds() / 60
        return {f"CPU of {name}, s/min": used / minutes for name, used in self.cpu().items()}


def _tree(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def _memory_of(pid: int) -> float:
    """Return the resident memory of a process and of those that it started, in MiB."""
    used = 0
    for process in _tree(pid):
        with contextlib.suppress(psutil.Error):
            used += process.memory_info().rss
    return used / 2**20
