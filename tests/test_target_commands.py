"""The commands that ask a job for something, as processes beside the process of the job."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import lake
from support.job_folder import job_state
from support.lake_job import LakeJob
from support.lake_judge import assert_equal, differences
from support.lake_operations import SETUP, TABLES, write
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = [lake.needs_lake, pytest.mark.lake]

NAMES = [f"public.{table}" for table in sorted(TABLES)]
AGAIN = "again, within seconds or at its next start.\n"

server = server_fixture(SETUP)


def test_commands_ask_a_job_that_runs(server: Server, tmp_path: Path, spark: SparkSession) -> None:
    job = LakeJob(tmp_path, server, "delta")
    # The role's password is that of the pgpass file in HOME.
    home = tmp_path / "home"
    home.mkdir()
    pgpass = home / ".pgpass"
    pgpass.write_text(f"*:*:*:*:{server.password}\n")
    pgpass.chmod(0o600)
    copied: dict[str, int] = {}
    with job.running(environment={"HOME": str(home)}) as process:

        def wait_until_copied(*tables: str) -> None:
            """Wait until all tables are live, and these were copied since the last call."""

            def is_copied() -> bool:
                assert process.poll() is None, job.ending(process)
                if not job.is_read():
                    return False
                now = live(job)
                again = {table for table in now if now[table] > copied.get(table, 0)}
                return now.keys() == TABLES.keys() and again == set(tables)

            wait_until(is_copied, TIMEOUT, pause=0.5)
            copied.update(live(job))

        wait_until_copied(*TABLES)
        write(server, "first")
        code, output = job.ask("verify")
        assert (code, results(output)) == (0, dict.fromkeys(NAMES, "equal"))

        spark.sql(f"UPDATE {job.sql_name('orders')} SET v = 'behind the back' WHERE id = 1")
        code, output = job.ask("verify")
        assert (code, results(output)["public.orders"]) == (4, "different")
        assert '  different: {"id":1}' in output.splitlines()

        assert job.ask("resync", "--table", "orders") == (
            0,
            f"The job copies public.orders {AGAIN}",
        )
        wait_until_copied("orders")
        assert_equal(spark, job, {"orders": "orders"})

        assert job.ask("resync", "--all") == (0, f"The job copies all tables {AGAIN}")
        wait_until_copied(*TABLES)

        code, output = job.ask("status", "--rows", "--json")
        shown = {row["table"]: row for row in json.loads(output)["tables"]}
        assert (code, sorted(shown)) == (0, NAMES)
        for name, row in shown.items():
            assert (row["mode"], row["state"]) == ("mirror", "live")
            assert row["rows"] == server.value(f"SELECT count(*) FROM {name}")

        of_server = ("--url", server.jdbc_url, "--user", server.user, "--slot", job.slot)
        code, output = job.ask("status", *of_server)
        assert "ROWS" not in output
        lines = output.splitlines()
        assert (code, lines[0].split(". ")[0]) == (0, "The slot is reserved and in use")
        assert max(map(len, lines)) <= 80, output
        rows = [line.split() for line in lines if line.startswith("public.")]
        assert [row[:3] for row in sorted(rows)] == [[name, "mirror", "live"] for name in NAMES]

        # There was no upgrade, so `adopt` refuses.
        adopt = ("adopt", *of_server, "--publication", job.publication, "--last-lsn", "0/1")
        code, output = job.ask(*adopt)
        assert code == 1
        assert output.startswith("spark-pgoutput adopt: [PGOUTPUT_NOT_ADOPTED] ")
        assert "The job knows this server already." in output

        write(server, "last")
        wait_until(lambda: not differences(spark, job, TABLES), TIMEOUT, pause=1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
        assert process.returncode == 128 + signal.SIGTERM


def live(job: LakeJob) -> dict[str, int]:
    """Return the numbers of the last copies of the tables that are live."""
    return {
        name: table["generation"]
        for name, table in job_state(job.checkpoint).tables.items()
        if table["status"] == {"name": "live"}
    }


def results(output: str) -> dict[str, str]:
    """Return what `verify` prints of each table."""
    lines = [line.split() for line in output.splitlines() if line.startswith("public.")]
    return {name: result for name, result, *_ in lines}
