"""A job's password does not show, wherever it comes from."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from support import lake, lake_history
from support.job_folder import job_state
from support.lake_history import History
from support.lake_job import LakeJob
from support.processes import errors_of, free_port
from support.secrets import MARKER, texts_of_files
from support.servers import Server, server_fixture

PAGES = ("environment", "jobs", "sql?planDescription=true&length=1000", "executors")

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(
    f"{lake_history.SETUP} CREATE ROLE reader LOGIN REPLICATION PASSWORD '{MARKER}';"
    "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
    scope="module",
)


class Shown:
    """What others can see of a job while it runs: arguments of processes, and Spark's UI."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self._api = f"http://127.0.0.1:{port}/api/v1/applications"
        self.commands: set[str] = set()
        self.pages: dict[str, str] = {}

    def watch(self) -> None:
        """Look again and again, until the job has ended."""
        while self._process.poll() is None:
            self._look()
            time.sleep(0.3)

    def _look(self) -> None:
        process = psutil.Process(self._process.pid)
        for each in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):  # it has ended
                self.commands.add(" ".join(each.cmdline()))
        with suppress(OSError):  # the UI is not there yet, or not any more
            found = re.search(r'"id" : "([^"]+)"', self._page(self._api))
            if not found:
                return
            for page in PAGES:
                text = self._page(f"{self._api}/{found[1]}/{page}")
                self.pages[page] = self.pages.get(page, "") + text

    @staticmethod
    def _page(url: str) -> str:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())


@pytest.mark.parametrize("target", lake.TARGETS)
def test_the_password_of_a_job_does_not_show(server: Server, tmp_path: Path, target: str) -> None:
    job = LakeJob(tmp_path, server, target, slot=f"secret_{target}")
    history = History(server, seed=3)
    secrets = tmp_path.parent / f"{tmp_path.name} secrets"
    secrets.mkdir()
    pgpass = secrets / "pgpass"
    pgpass.write_text(f"*:*:*:reader:{MARKER}\n")
    pgpass.chmod(0o600)
    file = secrets / "password"
    file.write_text(f"{MARKER}\n")
    ways: list[tuple[list[str], dict[str, str]]] = [
        # The executors look for another file, which is not there.
        ([], {"PGPASSFILE": str(pgpass)}),
        ([], {"PGPASSWORD": MARKER}),
        (["--password-file", str(file)], {}),
    ]
    (tmp_path / "events").mkdir()
    for arguments, environment in ways:
        history.run(20)
        copies = not job.checkpoint.exists()
        port = free_port()
        settings = {
            "spark.ui.enabled": "true",
            "spark.ui.port": str(port),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",  # so that this test can read it
            "spark.eventLog.dir": str(tmp_path / "events"),
            "spark.executor.memory": "512m",
            "spark.executorEnv.PGPASSFILE": str(secrets / "absent"),
        }
        with job.running(
            *("--once", *arguments),
            settings=settings,
            master="local-cluster[1,2,512]",
            user="reader",
            environment=environment,
        ) as process:
            shown = Shown(process, port)
            shown.watch()
            output, _ = process.communicate()
        errors = errors_of(tmp_path)
        assert process.returncode == 0, output + errors
        # The test has seen the processes and the pages.
        assert any("CoarseGrainedExecutorBackend" in command for command in shown.commands)
        assert any("job_process.py" in command for command in shown.commands)
        assert "spark.eventLog.enabled" in shown.pages["environment"]
        assert not copies or "copy of" in shown.pages["jobs"]
        everything = [*shown.commands, *shown.pages.values(), output, errors]
        assert MARKER not in "".join(everything)

    files = texts_of_files(tmp_path)
    assert any("SparkListenerEnvironmentUpdate" in text for text in files.values())
    assert any("_delta_log" in name or ".metadata.json" in name for name in files)
    assert not [name for name, text in files.items() if MARKER in text]
    assert any(name.endswith("status.json") for name in files)
    assert job_state(job.checkpoint).tables.keys() == set(lake_history.TABLES.values())
    assert MARKER not in server.log
