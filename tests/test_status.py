"""What `spark-pgoutput status` prints."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import Row, SparkSession

import spark_pgoutput
from spark_pgoutput import cli, status_report
from spark_pgoutput.target import slot_status
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
        "lsn": "FFFF/FFFFFFFF",
        "last_change": WRITTEN - timedelta(seconds=7),
        "rows": 1_234_567_890,
        "written": WRITTEN,
    }
    return Row(**{**found, **values})


TABLES = [
    table("public.orders"),
    table(LONG, state="copying", reason="It was added to the publication. " * 5, lsn=None),
    table("public.gone", state="stopped", rows=None, last_change=None),
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
    text = status_report.as_text(TABLES, SLOT)
    assert max(map(len, text.splitlines())) <= 80, text
    for part in (
        "public.orders",
        LONG,
        "1234567890",
        "1,048,576 bytes and 83 s",
        "16,777,216",
        "danger",
    ):
        assert part in text
    assert "stopped" in status_report.as_text(TABLES, None)


def test_status_as_json_has_numbers_and_times() -> None:
    found = json.loads(status_report.as_json(TABLES, SLOT))
    assert found["tables"][0]["rows"] == 1_234_567_890
    assert found["tables"][0]["written"] == "2026-11-22T12:00:00+00:00"
    assert found["tables"][1]["reason"].startswith("It was added")
    assert found["slot"]["bytesBehindLatest"] == 1 << 20
    assert found["slot"]["secondsBehindLatest"] == 83.25
    assert found["slot"]["active"] is True
    assert "slot" not in json.loads(status_report.as_json(TABLES, None))


def test_url_and_slot_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.parse(["status", "--target", "/data/lake", "--slot", "lake"])
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
        server.execute("SELECT pg_create_logical_replication_slot('judge', 'pgoutput')")
        job = LakeJob(tmp_path, server, target)

        def wal_end() -> int:
            return int(server.value("SELECT pg_current_wal_flush_lsn() - '0/0'"))

        def shown() -> dict[str, tuple[int, int, object]]:
            """Return the LSN, the rows and the time of the last change of each table."""
            begun = datetime.now(timezone.utc)
            replicate(once=True)
            rows = spark_pgoutput.applied(spark, job.target).collect()
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
            begin = wal_end()
            copied = shown()
            end = wal_end()
            for table, rows in {"one": 1, "two": 0}.items():
                assert begin <= copied[table][0] <= end
                assert copied[table][1:] == (rows, None)
            server.execute("INSERT INTO one VALUES (1)")
            first = shown()
            assert last_commit(server) <= first["one"][0] <= wal_end()
            assert first["one"][1:] == (2, committed(server, "one"))
            assert first["two"] == copied["two"]
            server.execute("INSERT INTO two VALUES (1)")
            second = shown()
            assert last_commit(server) <= second["two"][0] <= wal_end()
            assert second["two"][1:] == (1, committed(server, "two"))
            assert second["one"] == first["one"]
        server.execute("INSERT INTO one VALUES (2)")
        before = wal_end()
        slot = slot_status(spark, job.target, slot=job.slot, **server.account)
        lsn = parsed_lsn(slot["lsn"])
        slots = f"FROM pg_replication_slots WHERE slot_name = '{job.slot}'"
        assert lsn == int(server.value(f"SELECT confirmed_flush_lsn - '0/0' {slots}"))
        assert before - lsn <= int(slot["bytesBehindLatest"]) <= wal_end() - lsn


def last_commit(server: Server) -> int:
    """Return the LSN behind the last commit of a published table, by another slot."""
    options = "'proto_version', '1', 'publication_names', 'shop'"
    changes = f"pg_logical_slot_peek_binary_changes('judge', NULL, NULL, {options})"
    return int(server.value(f"SELECT max(lsn) - '0/0' FROM {changes}"))


def committed(server: Server, table: str) -> object:
    """Return when the last change of a table was committed."""
    return server.value(f"SELECT max(pg_xact_commit_timestamp(xmin)) FROM {table}")


@lake.needs_lake
@pytest.mark.lake
def test_status_of_a_job_whose_table_was_restored(spark: SparkSession, tmp_path: Path) -> None:
    with Server() as server:
        server.execute(
            "CREATE TABLE one (id int PRIMARY KEY); CREATE TABLE two (id int PRIMARY KEY);"
            "CREATE PUBLICATION shop FOR TABLE one, two"
        )
        job = LakeJob(tmp_path, server, "delta")
        with job.session(spark) as replicate:
            replicate(once=True)
            server.execute("INSERT INTO one VALUES (1); INSERT INTO two VALUES (1)")
            replicate(once=True)
        spark.sql(f"RESTORE TABLE {job.sql_name('one')} TO VERSION AS OF 0")
        server.execute("INSERT INTO two VALUES (2)")
        # What was written, but has nothing new, does not make the data newer.
        state = job.sql_name("_spark_pgoutput")
        spark.sql(f"UPDATE {state} SET written = now() + INTERVAL 1 HOUR WHERE kind = 'job'")
        rows = {row.table: row for row in spark_pgoutput.applied(spark, job.target).collect()}
        slot = slot_status(spark, job.target, slot=job.slot, **server.account)
    restored, other = rows["public.one"], rows["public.two"]
    assert (restored.rows, other.rows) == (0, 1)
    assert "RESTORE" in restored.reason
    assert other.reason is None
    assert int(slot["bytesBehindLatest"]) > 0
    age = datetime.now(timezone.utc) - other.last_change.astimezone()
    assert 0 < float(slot["secondsBehindLatest"]) <= age.total_seconds()


@lake.needs_lake
@pytest.mark.lake
def test_a_job_without_tables_has_nothing_to_verify(spark: SparkSession, tmp_path: Path) -> None:
    with Server() as server:
        server.execute("CREATE PUBLICATION shop")
        job = LakeJob(tmp_path, server, "delta")
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
        with pytest.raises(IllegalArgumentException, match="has no tables to verify"):
            spark_pgoutput.verify(spark, target=job.target, timeout=10)


@lake.needs_lake
def test_threads_of_python_have_the_catalogs_of_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(spark_pgoutput.applied, spark, tmp_path)
        with pytest.raises(IllegalArgumentException, match="has no job of replicate"):
            asked.result()
