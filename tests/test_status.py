"""What `spark-pgoutput status` prints."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import Row, SparkSession

import spark_pgoutput
from spark_pgoutput import cli, reports
from spark_pgoutput.checkpoint import LastStatus
from support import lake
from support.lake_job import LakeJob
from support.lsn import parsed_lsn
from support.servers import Server

WRITTEN = datetime(2026, 11, 22, 12, 0, tzinfo=timezone.utc)
LONG = "a_schema.a_table_with_a_long_name_that_fills_the_line"


def table(name: str, **values: object) -> Row:
    found: dict[str, object] = {
        "table": name,
        "target": name,
        "mode": "mirror",
        "state": "live",
        "reason": None,
        "since": None,
        "next_try": None,
        "lsn": "FFFF/FFFFFFFF",
        "last_change": WRITTEN - timedelta(seconds=7),
        "lag": 0.25,
        "queue_changes": 0,
        "queue_bytes": 0,
        "files": 12,
        "deleted_rows": 1,
        "rewritten_bytes": 1_234_567_890,
        "last_rewrite": WRITTEN - timedelta(minutes=3),
        "rows": 1_234_567_890,
        "written": WRITTEN,
    }
    return Row(**{**found, **values})


def without_rows(table: Row) -> Row:
    """Return a table whose rows were not counted."""
    return Row(**{name: value for name, value in table.asDict().items() if name != "rows"})


TABLES = [
    table("public.orders"),
    table(LONG, state="copying", reason="It was added to the publication. " * 5, lsn=None),
    table("public.gone", state="dropped", rows=None, last_change=None, lag=None),
    table(
        "public.refused",
        state="failed",
        reason="PostgreSQL refuses SELECT. " * 5,
        since=WRITTEN - timedelta(hours=9),
        next_try=WRITTEN + timedelta(minutes=7),
        lag=32_400.0,
        queue_changes=12_345_678,
    ),
    table(
        "public.infinite",
        state="failed",
        reason="infinity",
        since=WRITTEN,
        queue_changes=None,
        lag=9e9,
    ),
]
SLOT = {
    "lsn": "0/1A2B3C4",
    "bytesBehindLatest": "1048576",
    "secondsBehindLatest": "83.25",
    "retainedWalBytes": "16777216",
    "walStatus": "reserved",
    "active": "true",
    "warnings": "The slot is in danger. " * 6,
}


def test_status_fits_into_80_columns() -> None:
    without_time = {name: value for name, value in SLOT.items() if name != "secondsBehindLatest"}
    text = reports.status_text(TABLES, {**without_time, "lsn": "FFFF/FFFFFFFF"})
    assert max(map(len, text.splitlines())) <= 80, text
    text = reports.status_text(TABLES, SLOT)
    assert max(map(len, text.splitlines())) <= 80, text
    for part in (
        "public.orders",
        LONG,
        "1234567890",
        "The job has read everything below 0/1A2B3C4, 1,048,576 bytes and 83 s behind.",
        "16,777,216",
        "danger",
    ):
        assert part in text
    assert "dropped" in reports.status_text(TABLES, None)


def test_status_says_why_and_since_when_a_table_has_failed() -> None:
    text = " ".join(reports.status_text(TABLES, None).split())
    tried = (WRITTEN + timedelta(minutes=7)).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    for part in (
        "refused mirror failed FFFF/FFFFFFFF 9 h 12M",
        f"The job tries again at {tried}",
        "The job tries again at its next start, and when",
        "The job wrote this at",
    ):
        assert part in text


def test_status_says_what_the_job_waits_for() -> None:
    waits = ["The server has refused the login of the role since 12:00. " * 3]
    text = reports.status_text(TABLES, None, waits)
    assert text.startswith("The job waits:\n  The server has refused")
    assert max(map(len, text.splitlines())) <= 80
    assert json.loads(reports.status_json(TABLES, None, waits))["waits"] == waits
    assert "waits" not in reports.status_text(TABLES, None)


def test_status_says_that_the_job_does_not_run() -> None:
    ended = "The job has failed. The slot 'lake' is in use by the process 4711 of the server."
    now = datetime.now(timezone.utc)
    for written, problem, has_ended, says in (
        (now, None, False, ""),
        (now - timedelta(minutes=2), None, False, " Now it does not run, or it hangs."),
        (
            now - timedelta(minutes=2),
            "The server is away.",
            False,
            " The server is away. Now it does not run, or it hangs.",
        ),
        (now, "The job has ended.", True, " The job has ended."),
        (now - timedelta(minutes=2), ended, True, f" {ended}"),
    ):
        of_job = (None, (), problem)
        shown = reports.status_text([table("t", written=written)], *of_job, ended=has_ended)
        lines = shown.splitlines()
        assert max(map(len, lines)) <= 80
        text = " ".join(lines)
        clock = written.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        assert text.endswith(f" The job wrote this at {clock}.{says}")
        found = json.loads(reports.status_json(TABLES, *of_job, ended=has_ended))
        assert (found["problem"], found["ended"]) == (problem, has_ended)


def test_status_shows_the_files_of_each_table_if_asked() -> None:
    tables = [table("public.orders"), table("public.log", files=1, last_rewrite=None)]
    tables += [table("public.parted", files=None)]
    text = " ".join(reports.status_text(tables, None, files=True).split())
    rewritten = (WRITTEN - timedelta(minutes=3)).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    for part in (
        f"12 files, 1 deleted row. 1,234.6 MB were rewritten, the last at {rewritten}",
        "1 file, 1 deleted row. No file was rewritten since the start of the job.",
        "The job has not written the table directly since its start.",
    ):
        assert part in text
    assert max(map(len, reports.status_text(tables, None, files=True).splitlines())) <= 80
    assert "files" not in reports.status_text(tables, None)


def test_status_without_rows_has_no_column_of_them() -> None:
    text = reports.status_text([without_rows(table) for table in TABLES], None)
    assert "ROWS" not in text
    assert "1234567890" not in text
    assert "ROWS" in reports.status_text(TABLES, None)


def test_status_of_a_job_without_tables_has_the_head() -> None:
    assert reports.status_text([], None).startswith("TABLE")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (99.94, "99.9 s"), (1000, "17 min"), (999, "999 s"), (1e5, "28 h")],
)
def test_lags_are_short(seconds: float, text: str) -> None:
    lines = reports.status_text([table("t", lag=seconds)], None).splitlines()
    assert text in lines[1]
    assert len(lines[1]) == len(lines[0])


def test_status_as_json_has_numbers_and_times() -> None:
    found = json.loads(reports.status_json(TABLES, SLOT))
    assert found["tables"][0]["rows"] == 1_234_567_890
    assert found["tables"][0]["written"] == "2026-11-22T12:00:00+00:00"
    assert found["tables"][1]["reason"].startswith("It was added")
    assert found["slot"]["bytesBehindLatest"] == 1 << 20
    assert found["slot"]["secondsBehindLatest"] == 83.25
    assert found["slot"]["active"] is True
    assert "slot" not in json.loads(reports.status_json(TABLES, None))


def test_url_and_slot_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.parse(["status", "--checkpoint", "/data/checkpoint", "--slot", "lake"])
    assert "--url and --slot go together" in capsys.readouterr().err


@lake.needs_lake
@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_status_is_what_the_server_says(target: str, spark: SparkSession, tmp_path: Path) -> None:
    """The server knows the times of commits, and where its WAL was before and after each one."""
    with Server(settings={"track_commit_timestamp": "on"}) as server:
        server.execute(
            "CREATE TABLE one (id int PRIMARY KEY); CREATE TABLE two (id int PRIMARY KEY);"
            "INSERT INTO one VALUES (0); CREATE PUBLICATION shop FOR TABLE one, two"
        )
        server.create_slot("judge")
        job = LakeJob(tmp_path, server, target)

        def shown() -> dict[str, tuple[int, int, object]]:
            """Return the LSN, the rows and the time of the last change of each table."""
            begun = datetime.now(timezone.utc)
            replicate(once=True)
            rows = spark_pgoutput.applied(spark, job.checkpoint, rows=True).collect()
            assert all(
                begun <= row.written.astimezone() <= datetime.now(timezone.utc) for row in rows
            )
            return {
                row.target: (
                    parsed_lsn(row.lsn),
                    row.rows,
                    row.last_change and row.last_change.astimezone(),
                )
                for row in rows
            }

        with job.session(spark) as replicate:
            begin = server.wal_end()
            copied = shown()
            end = server.wal_end()
            for table, rows in {"one": 1, "two": 0}.items():
                assert begin <= copied[table][0] <= end
                assert copied[table][1:] == (rows, None)
            server.execute("INSERT INTO one VALUES (1)")
            first = shown()
            assert last_commit(server) <= first["one"][0] <= server.wal_end()
            assert first["one"][1:] == (2, committed(server, "one"))
            # The table has all that the job has read, but none of that has changed the table.
            assert copied["two"][0] <= first["two"][0] <= server.wal_end()
            assert first["two"][1:] == copied["two"][1:]
            server.execute("INSERT INTO two VALUES (1)")
            second = shown()
            assert last_commit(server) <= second["two"][0] <= server.wal_end()
            assert second["two"][1:] == (1, committed(server, "two"))
            assert first["one"][0] <= second["one"][0] <= server.wal_end()
            assert second["one"][1:] == first["one"][1:]
        server.execute("INSERT INTO one VALUES (2)")
        before = server.wal_end()
        slot = LastStatus(spark, job.checkpoint).slot(slot=job.slot, **server.account)
        lsn = parsed_lsn(slot["lsn"])
        assert lsn == server.confirmed(job.slot)
        assert before - lsn <= int(slot["bytesBehindLatest"]) <= server.wal_end() - lsn


def last_commit(server: Server) -> int:
    """Return the LSN after the last commit of a published table, as another slot has it."""
    options = "'proto_version', '1', 'publication_names', 'shop'"
    changes = f"pg_logical_slot_peek_binary_changes('judge', NULL, NULL, {options})"
    return int(server.value(f"SELECT max(lsn) - '0/0' FROM {changes}"))


def committed(server: Server, table: str) -> object:
    """Return when the last change of a table was committed."""
    return server.value(f"SELECT max(pg_xact_commit_timestamp(xmin)) FROM {table}")


@lake.needs_lake
@pytest.mark.lake
def test_a_table_of_which_an_older_state_was_restored_is_copied_at_the_next_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Server() as server:
        server.execute(
            "CREATE TABLE one (id int PRIMARY KEY); CREATE TABLE two (id int PRIMARY KEY);"
            "CREATE PUBLICATION shop FOR TABLE one, two"
        )
        job = LakeJob(tmp_path, server, "delta")

        def shown() -> dict[str, Row]:
            tables = spark_pgoutput.applied(spark, job.checkpoint, rows=True)
            return {row.target: row for row in tables.collect()}

        with job.session(spark) as replicate:
            replicate(once=True)
            server.execute("INSERT INTO one VALUES (1); INSERT INTO two VALUES (1)")
            replicate(once=True)
            spark.sql(f"RESTORE TABLE {job.sql_name('one')} TO VERSION AS OF 0")
            server.execute("INSERT INTO two VALUES (2)")
            restored = shown()
            assert [restored[name].rows for name in ("one", "two")] == [0, 1]
            slot = LastStatus(spark, job.checkpoint).slot(slot=job.slot, **server.account)
            assert int(slot["bytesBehindLatest"]) > 0
            age = datetime.now(timezone.utc) - restored["two"].last_change.astimezone()
            assert 0 < float(slot["secondsBehindLatest"]) <= age.total_seconds()
            report = replicate(once=True).report()
        assert any("an older state of it was restored" in line for line in report), report
        copies = [line.split(":")[0] for line in report if line.startswith("Copied ")]
        assert copies == ["Copied public.one"]
        assert [(row.rows, row.state) for row in shown().values()] == [(1, "live"), (2, "live")]


@lake.needs_lake
@pytest.mark.lake
def test_a_job_without_tables_has_nothing_to_verify(spark: SparkSession, tmp_path: Path) -> None:
    with Server() as server:
        server.execute("CREATE PUBLICATION shop")
        job = LakeJob(tmp_path, server, "delta")
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
        with pytest.raises(IllegalArgumentException, match="has no tables to verify"):
            spark_pgoutput.verify(spark, checkpoint=job.checkpoint, timeout=10)


@lake.needs_lake
def test_threads_of_python_have_the_catalogs_of_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(spark_pgoutput.applied, spark, tmp_path)
        with pytest.raises(IllegalArgumentException, match=re.escape(str(tmp_path))):
            asked.result()
