"""The command `spark-pgoutput replicate` in processes of its own, which a test kills."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.replication import Replication
from support import lake, lake_history
from support.lake_options import TableOptions, write_config
from support.processes import TIMEOUT, errors_of, started
from support.servers import Held, Server, wait_until

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1500m",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
}

Replicate = Callable[..., Replication]


class LakeJob:
    """A job with its target and its checkpoint.

    Parameters
    ----------
    folder : Path
        The folder of everything that belongs to the job.
    server : Server
        A server on which `lake_history.SETUP` ran, or that has another publication.
    target : str
        ``delta`` for Delta tables in a folder, ``iceberg`` for a catalog of Iceberg.
    mode : str or mapping of str to str
        The mode of all tables: ``mirror``, ``history`` or ``both``; or the modes of single tables.
    tables : mapping of str to TableOptions, optional
        Options of single tables, which the job reads from a file.
    """

    def __init__(
        self,
        folder: Path,
        server: Server,
        target: str,
        slot: str = "lake",
        publication: str = lake_history.PUBLICATION,
        mode: str | Mapping[str, str] = "mirror",
        tables: Mapping[str, TableOptions] | None = None,
    ) -> None:
        self.folder = folder
        self.server = server
        self.checkpoint = folder / "checkpoint"
        self.slot = slot
        self.publication = publication
        self.mode = mode
        # Other publications use the default names in the target.
        is_history = lake_history.PUBLICATION in publication.split(",")
        self.names = lake_history.NAMES if is_history else {}
        self.format = target
        self._catalog = f"lake_{secrets.token_hex(4)}"
        self.target = str(folder / "shop") if target == "delta" else f"{self._catalog}.shop"
        #: The options of single tables.
        self.table_options = tables or {}
        self._config = folder / "job.yaml"
        if tables:
            write_config(self._config, tables)

    @property
    def options(self) -> dict[str, object]:
        """The arguments of `spark_pgoutput.replicate`."""
        return {
            **self.server.account,
            "slot": self.slot,
            "publication": self.publication,
            "target": self.target,
            "checkpoint": self.checkpoint_url,
            "names": self.names,
            "mode": self.mode,
            **({"config": self._config} if self.table_options else {}),
        }

    @property
    def checkpoint_url(self) -> str:
        """The checkpoint, as users name it."""
        return str(self.checkpoint)

    @property
    def catalog(self) -> dict[str, str]:
        """The settings of the catalog of the job's Iceberg tables."""
        name = f"spark.sql.catalog.{self._catalog}"
        return {
            name: "org.apache.iceberg.spark.SparkCatalog",
            f"{name}.type": "hadoop",
            f"{name}.warehouse": str(self.folder / "ice"),
            f"{name}.cache-enabled": "false",
        }

    @property
    def tables(self) -> Path:
        """The folder that has a folder for each table."""
        return Path(self.target) if "/" in self.target else self.folder / "ice" / "shop"

    def sql_name(self, table: str) -> str:
        """Return what SQL calls a table of the target."""
        return (
            f"delta.`{self.target}/{table}`" if "/" in self.target else f"{self.target}.`{table}`"
        )

    def use(self, spark: SparkSession) -> None:
        """Give a session the catalog of the job."""
        for name, value in self.catalog.items():
            spark.conf.set(name, value)

    @contextmanager
    def running(
        self,
        *arguments: str,
        settings: Mapping[str, str] | None = None,
        master: str = "local[2]",
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        command: str = "replicate",
    ) -> Iterator[subprocess.Popen[str]]:
        """Run the command until the end of the block at the latest.

        Parameters
        ----------
        *arguments : str
            More arguments of the command.
        settings : mapping of str to str, optional
            More settings of Spark.
        master : str, optional
            Where Spark runs.
        user : str, optional
            Who connects, if not the server's first user.
        environment : mapping of str to str, optional
            More variables of the environment. By default, it has the password.
        command : str, optional
            Another command that takes the arguments of ``replicate``.
        """
        line = [
            *self._line(command, master, settings),
            *("--url", self.server.jdbc_url, "--user", user or self.server.user),
            *("--slot", self.slot, "--publication", self.publication),
            *("--target", self.target),
        ]
        for name, value in self.names.items():
            line += ["--name", f"{name}={value}"]
        modes = {"*": self.mode} if isinstance(self.mode, str) else self.mode
        for name, value in modes.items():
            line += ["--mode", f"{name}={value}"]
        if self.table_options:
            line += ["--config", str(self._config)]
        given = {"PGPASSWORD": self.server.password} if environment is None else environment
        with started([*line, *arguments], self.folder, **given) as process:
            try:
                yield process
            except BaseException:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    print(self.ending(process))
                raise

    def ask(self, command: str, *arguments: str) -> tuple[int, str]:
        """Run a command with the checkpoint. Return its exit status and what it prints."""
        folder = self.folder / "asks"
        folder.mkdir(exist_ok=True)
        line = [*self._line(command, "local[2]"), *arguments]
        with started(line, folder, PGPASSWORD=self.server.password) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
        print(f"{command} ends with {process.returncode}.\n{output}{errors_of(folder)[-3000:]}")
        return process.returncode, output

    def _line(
        self, command: str, master: str, settings: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the arguments that each command has."""
        formats = lake.settings(self.folder, lake.DELTA, lake.ICEBERG)
        confs = {**SETTINGS, **formats, **self.catalog, **(settings or {})}
        line = [
            *(sys.executable, "-m", "spark_pgoutput", command),
            *("--checkpoint", self.checkpoint_url),
            *("--master", master, "--jars", confs.pop("spark.jars")),
        ]
        for name, value in confs.items():
            line += ["--conf", f"{name}={value}"]
        return line

    def ending(self, process: subprocess.Popen[str]) -> str:
        """Return what a job that has ended printed, and Spark's log."""
        output, _ = process.communicate(timeout=TIMEOUT)
        return f"The job has ended.\n{output[-3000:]}\n{errors_of(self.folder)[-3000:]}"

    def assert_replaced(self, process: subprocess.Popen[str]) -> None:
        """Wait for the end of a process, and check that another process has its job."""
        output, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 1, output
        assert "[PGOUTPUT_OTHER_JOB]" in output

    def wait_until_connected(self, process: subprocess.Popen[str]) -> None:
        """Wait until Spark has started and the job has a connection to the server."""
        name = f"spark-pgoutput (slot {self.slot})"
        query = f"SELECT 1 FROM pg_stat_activity WHERE application_name = '{name}'"
        wait_until(self.while_running(process, lambda: self.server.execute(query)), TIMEOUT)

    def wait_until_read(self, process: subprocess.Popen[str]) -> None:
        """Wait until the job reads the slot."""
        wait_until(self.while_running(process, self.is_read), TIMEOUT)

    def while_running(
        self, process: subprocess.Popen[str], holds: Callable[[], Held]
    ) -> Callable[[], Held]:
        """Return a function that fails if the process has ended, and otherwise calls `holds`."""

        def holds_while_running() -> Held:
            assert process.poll() is None, self.ending(process)
            return holds()

        return holds_while_running

    def is_read(self) -> bool:
        """Return whether a connection reads the slot."""
        return bool(
            self.server.execute(
                f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{self.slot}' AND active"
            )
        )

    @contextmanager
    def session(self, spark: SparkSession) -> Iterator[Replicate]:
        """Give a function that runs the job in a session of a test, with more options.

        With ``once=True`` it returns when the job has ended, and raises the error if there is one,
        unless it is called with ``wait=False``. At the end of the block, all jobs are stopped, and
        their reports are printed.
        """
        self.use(spark)
        jobs: list[Replication] = []

        def replicate(wait: bool = True, **options: object) -> Replication:
            job = spark_pgoutput.replicate(spark, **{**self.options, **options})  # type: ignore[arg-type]
            jobs.append(job)
            if wait and options.get("once"):
                job.awaitTermination()
            return job

        try:
            yield replicate
        finally:
            for job in jobs:
                job.stop()
                print(*job.report(), sep="\n")

    def run_once(self, *arguments: str, timeout: float = TIMEOUT) -> int:
        """Run the command until it has applied everything, and return its exit status."""
        with self.running("--once", *arguments) as process:
            output, _ = process.communicate(timeout=timeout)
            if process.returncode != 0:
                print(output[-3000:], errors_of(self.folder)[-3000:])
            return process.returncode


def job_fixtures(publication: str) -> tuple[Any, Any]:
    """Return the fixtures `job` and `replicate` of a module that has the fixture `server`.

    The first one gives a job for each format, and the second one runs it in the session of tests.

    Parameters
    ----------
    publication : str
        The publication of the job.
    """

    @pytest.fixture(params=lake.TARGETS)
    def job(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> LakeJob:
        return LakeJob(tmp_path, server, request.param, publication=publication)

    @pytest.fixture
    def replicate(job: LakeJob, spark: SparkSession) -> Iterator[Replicate]:
        with job.session(spark) as replicate:
            yield replicate

    return job, replicate
