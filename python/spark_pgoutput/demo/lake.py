"""The demo's job: `spark-pgoutput replicate`, which is killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_pgoutput.demo.errors import DemoError
from spark_pgoutput.demo.server import PostgresServer
from spark_pgoutput.demo.session import SETTINGS, delta_package

COPIED = "Copied"
SLOT = "lake_slot"


@dataclass(frozen=True)
class DemoJob:
    """A job that keeps the demo's tables equal.

    Parameters
    ----------
    server : PostgresServer
        The server of the tables.
    publication : str
        The publication of the tables.
    folder : Path
        The folder of the tables, the checkpoint and the log.
    """

    server: PostgresServer
    publication: str
    folder: Path

    @property
    def tables(self) -> Path:
        """The folder of the tables."""
        return self.folder / "lake"

    def run(self, kill_at: Callable[[str], bool] = lambda _: False) -> Iterator[str]:
        """Run the command, and yield the lines that it prints.

        Parameters
        ----------
        kill_at : callable
            Returns for a line whether the command is killed after it. By default, the command is
            never killed.
        """
        command = [
            *(sys.executable, "-m", "spark_pgoutput", "replicate", "--once"),
            *("--url", self.server.jdbc_url, "--user", self.server.user),
            *("--slot", SLOT, "--publication", self.publication),
            *("--target", str(self.tables), "--checkpoint", str(self.folder / "lake-checkpoint")),
            *("--packages", delta_package(), "--master", "local[*]"),
            *(part for pair in SETTINGS.items() for part in ("--conf", "=".join(pair))),
        ]
        log = self.folder / "replicate.log"
        with log.open("ab") as errors:
            process = subprocess.Popen(
                command,
                env={**os.environ, "PGPASSWORD": self.server.password},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        try:
            assert process.stdout
            for line in process.stdout:
                yield line.rstrip()
                if kill_at(line):
                    os.killpg(process.pid, signal.SIGKILL)
                    return
            if process.wait() != 0:
                last = log.read_text(errors="replace").splitlines()[-20:]
                raise DemoError("\n".join(["spark-pgoutput replicate failed:", *last]))
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
