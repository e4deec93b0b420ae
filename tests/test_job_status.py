"""The status file of a job, which probes, alerts and Prometheus read without Spark."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from spark_pgoutput import cli, job_status, reports
from support import lake
from support.job_report import JobReport, wait_until_live
from support.lake_job import LakeJob
from support.processes import TIMEOUT
from support.servers import Server, wait_until


def declared(name: str, prometheus: str, kind: str = "gauge") -> dict[str, str]:
    """Return a metric as a status declares it."""
    return {"name": name, "prometheus": prometheus, "type": kind, "help": f"About {name}."}


def table_of_status(schema: str, name: str, **values: object) -> dict[str, Any]:
    """Return a live table without changes, or one with other values."""
    return {
        "table": f"{schema}.{name}",
        "target": name,
        "mode": "mirror",
        "state": "live",
        "reason": None,
        "since": None,
        "next_try": None,
        "lsn": "1/A0",
        "last_change": "2026-11-22T12:00:00.123456Z",
        "lag": 0.0,
        "queue_changes": 0,
        "queue_bytes": 0,
        "files": 9,
        "deleted_rows": 1,
        "rewritten_bytes": 0,
        "last_rewrite": None,
        "oid": 16384,
        "labels": {"schema": schema, "table": name},
        "values": {"lagSeconds": 0.0, "commits": 7},
        **values,
    }


def status_of(*tables: dict[str, Any], **values: object) -> dict[str, Any]:
    """Return the status of a job that reads its slot and has just written the status."""
    return {
        "version": 1,
        "written": datetime.now(timezone.utc).isoformat().replace("+00:00", "Z"),
        "slot": "lake",
        "problem": None,
        "ended": False,
        "read": "1/A0",
        "waits": [],
        "metrics": {
            "job": [declared("reading", "spark_pgoutput_reading")],
            "table": [
                declared("lagSeconds", "spark_pgoutput_table_lag_seconds"),
                declared("commits", "spark_pgoutput_table_commits_total", "counter"),
            ],
        },
        "values": {"reading": 1},
        "tables": list(tables),
        **values,
    }


FAILED = table_of_status("public", "refused", state="failed", reason="PostgreSQL\nrefuses SELECT.")
LATE = table_of_status("public", "late", lag=120.4)


class Command:
    """Runs `spark-pgoutput status` on a status file, in this process."""

    def __init__(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file = file
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Return the exit status, and what is printed to standard output and standard error."""
        with pytest.raises(SystemExit) as ended:
            cli.main(["status", "--status-file", str(self.file), *arguments])
        printed = self._capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, printed.out, printed.err

    def of(self, status: dict[str, Any], *arguments: str) -> tuple[int, str, str]:
        """Write a status, and then run the command."""
        self.file.write_text(json.dumps(status, ensure_ascii=False), encoding="utf-8")
        return self(*arguments)


@pytest.fixture
def status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path / "status.json", capsys)


def written(ago: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(seconds=ago)).isoformat().replace("+00:00", "Z")


def test_a_job_that_reads_passes_the_check_also_with_a_failed_table(status: Command) -> None:
    code, out, _ = status.of(status_of(FAILED, LATE), "--check")
    assert (code, out) == (0, "The job reads the slot lake.\n")


@pytest.mark.parametrize("ago", [-90, 61, 10**6])
def test_a_job_that_writes_no_status_fails_the_check(status: Command, ago: float) -> None:
    found = status_of(written=written(ago))
    code, out, err = status.of(found, "--check", "--tables", "--max-lag", "1")
    assert (code, out, err.count("\n")) == (5, "", 1)
    assert found["written"] in err
    assert status.of(status_of(written=written(50)), "--check")[0] == 0


def test_a_job_that_does_not_read_fails_the_check_with_the_reason(status: Command) -> None:
    why = "The slot cannot be read:\nthe server is away\x1b[0m."
    code, out, err = status.of(status_of(problem=why), "--check")
    assert (code, out) == (5, "")
    assert err == "The slot cannot be read: the server is away\\x1b[0m.\n"
    ended = status_of(problem="It is over.", ended=True, written=written(10**6))
    assert status.of(ended, "--check") == (5, "", "It is over.\n")


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", "\udcff"])
def test_a_file_that_is_not_a_status_fails_the_check(status: Command, content: str | None) -> None:
    if content is not None:
        status.file.write_bytes(content.encode("utf-8", "surrogateescape"))
    for arguments, expected in ((["--check"], 5), (["--prometheus"], 1)):
        code, out, err = status(*arguments)
        assert (code, out, err.count("\n")) == (expected, "", 1)
        assert str(status.file) in err


def test_the_check_names_each_table_that_has_failed_or_is_late(status: Command) -> None:
    tables = status_of(FAILED, LATE, table_of_status("public", "fine"))
    code, _, err = status.of(tables, "--check", "--tables", "--max-lag", "120")
    assert code == 6
    assert err.splitlines() == [
        "The table public.refused has failed. PostgreSQL refuses SELECT.",
        "The table public.late is 120 s behind.",
    ]
    assert status("--check", "--max-lag", "121")[0] == 0
    assert status.of(status_of(LATE), "--check", "--tables")[0] == 0


def test_the_check_starts_no_spark_and_takes_less_than_a_second(tmp_path: Path) -> None:
    """The test measures processor time, because other tests can keep the machine busy."""
    (tmp_path / "status.json").write_text(json.dumps(status_of()), encoding="utf-8")
    code = (
        "import sys\nfrom spark_pgoutput.cli import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n"
        "    assert not {'pyspark', 'subprocess'} & set(sys.modules)"
    )
    line = [sys.executable, "-c", code, "status", "--checkpoint", str(tmp_path), "--check"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(line, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


@pytest.mark.parametrize("folder", ["/data/checkpoint", "file:/data", "file:///data", "data"])
def test_folders_of_this_host_are_read_without_spark(folder: str) -> None:
    assert job_status.is_local(folder)


@pytest.mark.parametrize("folder", ["s3a://bucket/job", "hdfs:///job", "abfss://c@a/job"])
def test_another_folder_needs_a_status_file(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.parse(["status", "--checkpoint", folder, "--check"])
    assert ended.value.code == 2
    assert "--status-file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("--checkpoint c --tables", "--tables and --max-lag go with --check"),
        ("--checkpoint c --max-lag 5", "--tables and --max-lag go with --check"),
        ("--checkpoint c --check --json", "--check prints no other status"),
        ("--checkpoint c --check --rows", "need Spark"),
        ("--status-file s --rows", "need Spark"),
        ("--status-file s --checkpoint c", "not allowed with"),
        ("--check", "one of the arguments --checkpoint --status-file is required"),
        ("--status-file s --check --max-lag -1", "not a number of seconds"),
        ("--status-file s --check --max-lag soon", "'soon' is not a number of seconds"),
        ("--status-file s --chek", "unrecognized arguments: --chek"),
    ],
)
def test_arguments_that_do_not_go_together_are_errors(
    arguments: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.parse(["status", *arguments.split()])
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith("usage: spark-pgoutput status ")
    assert problem in printed.splitlines()[-1]


def test_prometheus_reads_the_names_of_tables_as_they_are(status: Command) -> None:
    odd = 'a "b"\\\n{},é'
    tables = [
        table_of_status("public", "orders"),
        table_of_status(odd, odd, values={"commits": 1}),
        {**table_of_status("public", "orders", state="dropped"), "labels": None},
    ]
    del tables[2]["labels"]
    code, out, _ = status.of(status_of(*tables), "--prometheus")
    assert code == 0
    families = {family.name: family for family in text_string_to_metric_families(out)}
    assert {name: family.type for name, family in families.items()} == {
        "spark_pgoutput_reading": "gauge",
        "spark_pgoutput_table_lag_seconds": "gauge",
        "spark_pgoutput_table_commits": "counter",
    }
    assert families["spark_pgoutput_reading"].documentation == "About reading."
    (reading,) = families["spark_pgoutput_reading"].samples
    assert (reading.labels, reading.value) == ({"slot": "lake"}, 1)
    commits = families["spark_pgoutput_table_commits"].samples
    assert [(sample.labels, sample.value) for sample in commits] == [
        ({"slot": "lake", "schema": "public", "table": "orders"}, 7),
        ({"slot": "lake", "schema": odd, "table": odd}, 1),
    ]
    (lag,) = families["spark_pgoutput_table_lag_seconds"].samples
    assert lag.labels["table"] == "orders"  # the lag of the other one is not known


def test_a_status_file_is_shown_as_a_checkpoint_is(status: Command) -> None:
    found = status_of(FAILED, waits=["The server is away."])
    code, out, _ = status.of(found)
    assert code == 0
    assert "The job waits:\n  The server is away." in out
    assert "public.refused     mirror  failed" in out
    code, out, _ = status("--json")
    (table,) = json.loads(out)["tables"]
    assert set(table) == {*reports.STATUS_FIELDS, "written"}
    assert table["last_change"] == "2026-11-22T12:00:00.123456+00:00"


def test_a_status_of_another_version_is_shown_without_what_it_lacks(status: Command) -> None:
    table = table_of_status("public", "orders")
    del table["queue_bytes"]
    found = status_of(table)
    del found["ended"]
    code, out, _ = status.of(found, "--json")
    assert code == 0
    assert json.loads(out)["tables"][0]["queue_bytes"] is None
    assert json.loads(out)["ended"] is False


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_names_that_the_locale_has_no_characters_for_are_printed(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "größe😀"
    file = tmp_path / "status.json"
    file.write_text(json.dumps(status_of(table_of_status("public", name))), encoding="utf-8")

    def printed(*arguments: str) -> bytes:
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", out)
        with pytest.raises(SystemExit) as ended:
            cli.main(["status", "--status-file", str(file), *arguments])
        assert ended.value.code == 0
        out.seek(0)
        return out.buffer.read()

    assert json.loads(printed("--json"))["tables"][0]["table"] == f"public.{name}"
    assert f'table="{name}"' in printed("--prometheus").decode("utf-8")
    assert name.encode(encoding, "backslashreplace") in printed()


@lake.needs_lake
@pytest.mark.parametrize("target", lake.JOB_TARGETS)
def test_a_job_writes_what_it_does_to_its_status_file(
    target: str, spark: SparkSession, tmp_path: Path, status: Command
) -> None:
    with Server() as server:
        server.execute(
            "CREATE TABLE one (id int PRIMARY KEY); INSERT INTO one VALUES (1);"
            'CREATE TABLE "Z.e" (id int PRIMARY KEY); CREATE PUBLICATION shop FOR ALL TABLES'
        )
        job = LakeJob(tmp_path, server, target)
        status.file = tmp_path / "run" / "status.json"
        with job.session(spark) as replicate:
            running = replicate(statusFile=str(status.file))
            wait_until(lambda: status.file.exists(), TIMEOUT)
            assert status("--check")[:2] == (0, "The job reads the slot lake.\n")
            wait_until_live(running)
            server.execute("INSERT INTO one VALUES (2), (3)")
            report = JobReport(running)
            wait_until(lambda: report.lines("public.one: 2 changes"), TIMEOUT)
        code, out, err = status("--check")
        assert (code, err) == (5, "The job has ended.\n")
        _, out, _ = status("--prometheus")
        samples = {
            (sample.name.removeprefix("spark_pgoutput_"), sample.labels.get("table")): sample.value
            for family in text_string_to_metric_families(out)
            for sample in family.samples
        }
        for table, changes, commits in (("one", 2, 1), ("Z.e", 0, 0)):
            assert samples["table_state", table] == 0
            assert samples["table_changes_total", table] == changes
            assert samples["table_commits_total", table] == commits
            assert samples["table_lag_seconds", table] == 0
        assert samples["slot_wal_status", None] == 0
        assert samples["slot_retained_bytes", None] > 0
        assert 0 <= samples["last_message_age_seconds", None] < 60
        assert abs(time.time() - samples["status_timestamp_seconds", None]) < TIMEOUT
        assert 0 < samples["read_lsn", None] <= server.wal_end()
        # The checkpoint folder has the same status, except for its time.
        code, _, err = status.__class__(job.checkpoint / "status.json", status._capsys)("--check")
        assert (code, err) == (5, "The job has ended.\n")
