"""The command `spark-pgoutput replicate` in processes of its own, which a test kills."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support import lake, lake_history
from support.processes import TIMEOUT, errors_of, started
from support.servers import Server

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1500m",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
}


class LakeJob:
    """A job with its target and its checkpoint.

    Parameters
    ----------
    folder : Path
        The folder of everything that belongs to the job.
    server : Server
        A server on which `lake_history.SETUP` ran.
    target : str
        ``delta`` for Delta tables in a folder, ``iceberg`` for a catalog of Iceberg.
    """

    def __init__(self, folder: Path, server: Server, target: str, slot: str = "lake") -> None:
        self.folder = folder
        self.server = server
        self.checkpoint = folder / "checkpoint"
        self.slot = slot
        self._catalog = f"lake_{secrets.token_hex(4)}"
        self.target = str(folder / "shop") if target == "delta" else f"{self._catalog}.shop"

    @property
    def options(self) -> dict[str, object]:
        """The arguments of `spark_pgoutput.replicate`."""
        return {
            "url": self.server.jdbc_url,
            "user": self.server.user,
            "password": self.server.password,
            "slot": self.slot,
            "publication": lake_history.PUBLICATION,
            "target": self.target,
            "checkpoint": str(self.checkpoint),
            "names": lake_history.NAMES,
        }

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

    def sql_name(self) -> str:
        """How a name in the target becomes a table in SQL, with ``{}`` for the name."""
        if "/" in self.target:
            return f"delta.`{self.target}/{{}}`"
        return f"{self.target}.`{{}}`"

    @contextmanager
    def running(
        self, *arguments: str, settings: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Run the command until the end of the block at the latest."""
        confs = {**SETTINGS, **lake.settings(self.folder), **self.catalog, **(settings or {})}
        command = [
            *(sys.executable, "-m", "spark_pgoutput", "replicate"),
            *("--url", self.server.jdbc_url, "--user", self.server.user, "--slot", self.slot),
            *("--publication", lake_history.PUBLICATION, "--target", self.target),
            *("--checkpoint", str(self.checkpoint), "--master", "local[2]"),
            *("--jars", confs.pop("spark.jars")),
        ]
        for name, value in lake_history.NAMES.items():
            command += ["--name", f"{name}={value}"]
        for name, value in confs.items():
            command += ["--conf", f"{name}={value}"]
        password = self.server.password
        with started([*command, *arguments], self.folder, PGPASSWORD=password) as process:
            yield process

    def run_once(self, *arguments: str) -> int:
        """Run the command until it has everything, and return its exit status."""
        with self.running("--once", *arguments) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
            if process.returncode != 0:
                print(output[-3000:], errors_of(self.folder)[-3000:])
            return process.returncode
