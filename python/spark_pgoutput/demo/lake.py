"""The demo's job: `spark-pgoutput replicate`, which is killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from spark_pgoutput.demo.errors import DemoError
from spark_pgoutput.demo.server import PostgresServer
from spark_pgoutput.demo.session import SETTINGS, delta_package
from spark_pgoutput.demo.workload import PUBLICATION

COPIED = "Copied"
SLOT = "lake_slot"

#: The folder of the tables, in the demo's folder.
TABLES = "lake"


def run(
    server: PostgresServer, folder: Path, kill_at: Callable[[str], bool] = lambda _: False
) -> Iterator[str]:
    """Run a job that keeps the demo's tables equal, and yield the lines that it prints.

    Parameters
    ----------
    server : PostgresServer
        The server of the tables.
    folder : Path
        The folder of the tables, the checkpoint and the log.
    kill_at : callable
        Returns for a line whether the command is killed after it. By default, the command is
        never killed.
    """
    command = [
        *(sys.executable, "-m", "spark_pgoutput", "replicate", "--once"),
        *("--url", server.jdbc_url, "--user", server.user),
        *("--slot", SLOT, "--publication", PUBLICATION),
        *("--target", str(folder / TABLES), "--checkpoint", str(folder / "lake-checkpoint")),
        *("--packages", delta_package(), "--master", "local[*]"),
        *(part for pair in SETTINGS.items() for part in ("--conf", "=".join(pair))),
    ]
    log = folder / "replicate.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            env={**os.environ, "PGPASSWORD": server.password},
            cwd=folder,
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
