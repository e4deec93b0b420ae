"""Tables of a lake that are compared with those of a real server."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import spark_pgoutput
from spark_pgoutput import cli, reports
from support import lake, lake_history
from support.job_report import wait_until_live
from support.lake_history import History
from support.lake_job import LakeJob
from support.lake_points import kill
from support.processes import TIMEOUT, errors_of
from support.servers import Server, server_fixture, wait_until

pytestmark = lake.needs_lake

TEMPORARY_SLOT = "SELECT 1 FROM pg_replication_slots WHERE temporary"
COUNTS = ("only_at_server", "only_in_target", "different")

server = server_fixture(lake_history.SETUP)

# Statements with which another user changes tables of the target.
BEHIND_THE_BACK = [
    "UPDATE {orders} SET status = 'changed' WHERE id = 7",
    "DELETE FROM {orders} WHERE id = 8",
    "INSERT INTO {orders} (id, status) VALUES (8000, 'added')",
    "DELETE FROM {readings} WHERE x = 3 AND y = 'y1' AND isnan(f)",
    "INSERT INTO {readings} VALUES (3000, 'added', -0.0, NULL), (3000, 'added', 0.0, NULL)",
]


def verified(spark: SparkSession, job: LakeJob, **options: object) -> dict[str, Row]:
    """Run the job up to now, and return the result of the comparison for each table."""
    job.use(spark)
    found = spark_pgoutput.verify(
        spark,
        **{**job.options, "once": True, "tell": print, **options},  # type: ignore[arg-type]
    )
    return {row.target: row for row in found.collect()}


def change(spark: SparkSession, job: LakeJob, statement: str) -> None:
    """Change a table of the target."""
    tables = {name: job.sql_name(name) for name in lake_history.TABLES.values()}
    spark.sql(statement.format(**tables))


def assert_equal(found: dict[str, Row], server: Server) -> None:
    """Check that nothing differs, and that all rows were compared."""
    assert found.keys() == set(lake_history.TABLES.values())
    for row in found.values():
        name = row.table.removeprefix("public.")
        rows = int(server.value(f'SELECT count(*) FROM "{name}"'))
        assert (row.result, row.reason, row["keys"]) == ("equal", None, []), row
        assert (row.server_rows, row.target_rows) == (rows, rows)
        assert [row[count] for count in COUNTS] == [0, 0, 0]


def shown(row: Row) -> list[tuple[str, object]]:
    return [(key.kind, json.loads(key.key)) for key in row["keys"]]


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_rows_that_somebody_else_has_written_are_named(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        replicate(once=True)
    History(server, seed=3).run(20)
    server.execute(
        "INSERT INTO orders (id) VALUES (7), (8) ON CONFLICT DO NOTHING;"
        "DELETE FROM readings WHERE x = 3;"
        "INSERT INTO readings VALUES (3, 'y1', 'NaN', NULL), (3, 'y1', 'NaN', NULL),"
        "(3, 'y', 1, NULL)"
    )
    assert_equal(verified(spark, job), server)
    for statement in BEHIND_THE_BACK:
        change(spark, job, statement)
    found = verified(spark, job, tables=["orders", "public.readings"])
    orders, readings = found["orders"], found["readings"]
    assert (orders.result, [orders[count] for count in COUNTS]) == ("different", [1, 1, 1])
    assert shown(orders) == [
        ("different", {"id": 7}),
        ("only at the server", {"id": 8}),
        ("only in the target", {"id": 8000}),
    ]
    # Without a key, rows are counted. -0 is 0.
    assert [readings[count] for count in COUNTS] == [2, 2, 0]
    assert shown(readings) == [
        ("only at the server", {"x": 3, "y": "y1", "f": "NaN", "note": None}),
        ("only in the target", {"x": 3000, "y": "added", "f": 0.0, "note": None}),
    ]
    rows = int(server.value("SELECT count(*) FROM orders"))
    assert (orders.server_rows, orders.target_rows) == (rows, rows)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_running_job_verifies_while_writers_run(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        process = replicate()
        wait_until_live(process)
        # A table that is truncated all the time is skipped.
        with History(server, seed=4, truncated={}).running():
            for _ in range(3):
                found = asked(spark, job)
                assert found.keys() == set(lake_history.TABLES.values())
                assert {row.result for row in found.values()} == {"equal"}, found
        # The writers can have deleted the rows that change behind the job's back.
        server.execute("INSERT INTO orders (id) VALUES (7), (8) ON CONFLICT DO NOTHING")
        assert asked(spark, job, tables=["orders"])["orders"].result == "equal"
        for statement in BEHIND_THE_BACK[:3]:
            change(spark, job, statement)
        found = asked(spark, job, tables=["orders", "readings"])
        assert found["readings"].result == "equal"
        assert found["orders"].result == "different"
        assert sum(found["orders"][count] for count in COUNTS) == 3
        assert process.exception() is None
        print("\n".join(process.report()))


@pytest.mark.lake
def test_a_table_whose_files_have_just_changed_is_compared_later(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Server() as server:
        server.execute(
            "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id);"
            "CREATE TABLE leaf PARTITION OF root FOR VALUES FROM (0) TO (100);"
            "CREATE TABLE rest PARTITION OF root DEFAULT; CREATE TABLE plain (id int PRIMARY KEY);"
            "INSERT INTO root SELECT generate_series(1, 200); INSERT INTO plain VALUES (1);"
            "CREATE PUBLICATION parts FOR TABLE root, plain WITH (publish_via_partition_root)"
        )
        job = LakeJob(tmp_path, server, "delta", publication="parts")
        with job.session(spark) as replicate:
            running = replicate()
            wait_until_live(running)
            for statement in ("TRUNCATE leaf", "VACUUM FULL plain", "TRUNCATE plain"):
                server.execute(statement)
                found = asked(spark, job)
                assert {row.result for row in found.values()} == {"equal"}, (statement, found)
            assert found["root"].server_rows == 101


@pytest.mark.lake
def test_job_goes_on_while_a_transaction_delays_the_snapshot(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta")
    texts: list[str] = []

    def seconds_held() -> float:
        wait_until(lambda: server.execute(TEMPORARY_SLOT), TIMEOUT)
        begun = time.monotonic()
        wait_until(lambda: not server.execute(TEMPORARY_SLOT), TIMEOUT)
        return time.monotonic() - begun

    with job.session(spark) as replicate, ThreadPoolExecutor(1) as pool:
        process = replicate()
        wait_until_live(process)
        held = pool.submit(seconds_held)
        with server.open_transaction() as blocking:
            pid = blocking.execute("SELECT pg_backend_pid()").fetchone()

            def tell(text: str) -> None:
                if "is tried again" in text:
                    texts.append(text)
                    server.execute("INSERT INTO orders (id) VALUES (9000)")
                    orders = spark.read.table(job.sql_name("orders"))
                    wait_until(lambda: orders.where("id = 9000").count() == 1, TIMEOUT)
                    blocking.execute("ROLLBACK")

            found = asked(spark, job, tell=tell)
    assert 25 < held.result() < 40  # the appliers wait for 30 s at most
    assert len(texts) == 1
    assert pid
    assert f"processes: {pid[0]} (see pg_stat_activity)" in texts[0]
    assert_equal(found, server)


@pytest.mark.lake
def test_job_goes_on_if_it_cannot_verify(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """A snapshot needs a replication slot, and others have taken all of them."""
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        process = replicate()
        wait_until_live(process)
        server.execute(
            "SELECT pg_create_physical_replication_slot('taken_' || number) FROM generate_series("
            "(SELECT count(*) + 1 FROM pg_replication_slots),"
            "current_setting('max_replication_slots')::int) AS number"
        )
        with pytest.raises(PySparkException, match="all replication slots are in use") as raised:
            asked(spark, job)
        assert raised.value.getCondition() == "PGOUTPUT_VERIFICATION_FAILED"
        server.execute("INSERT INTO orders (id) VALUES (9000)")
        server.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE slot_type = 'physical'"
        )
        assert_equal(asked(spark, job), server)
        assert process.exception() is None


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_killed_job_answers_after_its_next_start(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    history = History(server, seed=5, truncated={})
    assert job.run_once() == 0
    with history.running(), job.running() as process:
        job.wait_until_connected(process)
        with ThreadPoolExecutor(1) as pool, server.open_transaction() as blocking:
            answer = pool.submit(asked, spark, job, timeout=2 * TIMEOUT)
            wait_until(lambda: server.execute(TEMPORARY_SLOT), TIMEOUT)
            blocking.execute("ROLLBACK")
            kill(process)
            assert answers(job) == []
            wait_until(lambda: not server.execute(TEMPORARY_SLOT), TIMEOUT)
            assert job.run_once() == 0
            found = answer.result()
    assert {row.result for row in found.values()} == {"equal"}, found
    assert list((job.checkpoint / "requests").iterdir()) == []
    # The job also says what delays the verification.
    assert [kind for kind in map(kind_of, answers(job)) if kind != "waits"] == ["done"]


@pytest.mark.lake
def test_a_request_says_what_it_waits_for(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "iceberg")
    said: list[str] = []
    with job.session(spark) as replicate:
        running = replicate()
        wait_until_live(running)
        wait_until((job.checkpoint / "status.json").exists, TIMEOUT)
        asked(spark, job, tell=said.append)
        assert said[0] == "The job runs. It answers when it has compared the tables."
        running.stop()
        said.clear()
        with pytest.raises(TimeoutError):
            asked(spark, job, tell=said.append, timeout=2)
    (line,) = said
    assert line.startswith("The job has ended. The request waits until the job reads the slot.")
    assert "use --once" in line


def answers(job: LakeJob) -> list[Path]:
    """Return the files of the answers to requests."""
    return list((job.checkpoint / "answers").glob("*.json"))


def kind_of(answer: Path) -> str:
    return str(json.loads(answer.read_text())["kind"])


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_columns_that_only_one_side_has_are_not_compared(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        replicate(once=True)
    change(spark, job, "ALTER TABLE {orders} ADD COLUMNS (mine string)")
    change(spark, job, "UPDATE {orders} SET mine = 'm'")
    # Iceberg's versions have the old columns, because no row changes.
    server.execute("ALTER TABLE orders DROP flag")
    server.execute("ALTER TABLE orders RENAME status TO state")
    server.execute("ALTER TABLE seats ADD fresh int")
    server.execute("ALTER TABLE events ALTER x TYPE bigint")
    assert_equal(verified(spark, job), server)
    server.execute("UPDATE orders SET state = 'x' WHERE id < 5; UPDATE seats SET fresh = 7")
    server.execute("INSERT INTO events VALUES (3000000000, 'y')")
    assert_equal(verified(spark, job), server)


@pytest.mark.lake
def test_tables_that_are_not_live_are_skipped(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        replicate(once=True)
        server.execute("DROP TABLE seats; INSERT INTO events VALUES (1, 'y')")
        server.execute("ALTER TABLE orders ADD fresh int DEFAULT 7")
        assert replicate(once=True, onSchemaChange="error").exit_code == 3
    found = verified(spark, job, onSchemaChange="error")
    assert [found[name].result for name in ("seats", "orders")] == ["skipped"] * 2
    assert found["seats"].reason == "The table is dropped."
    assert found["orders"].reason.startswith("The table has failed. [PGOUTPUT_TABLE_CHANGED] ")
    assert found["seats"].server_rows is None
    assert found["events"].result == "equal"
    assert reports.verification_exit_code(list(found.values())) == 3


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_table_that_cannot_be_read_is_skipped_and_the_others_are_compared(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        running = replicate()
        wait_until_live(running)
        (job.tables / "seats").rename(tmp_path / "away")
        found = {row["table"]: row for row in found_by_command(job)}
        assert found["public.seats"]["result"] == "skipped"
        assert found["public.seats"]["reason"]
        assert found["public.events"]["result"] == "equal"
        (tmp_path / "away").rename(job.tables / "seats")


def found_by_command(job: LakeJob) -> list[dict[str, Any]]:
    """Ask a job that runs to verify all tables, and return what it finds."""
    _, output = job.ask("verify", "--json")
    return list(json.loads(output)["tables"])


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_command_prints_what_differs(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    assert job.run_once() == 0
    with job.running("--once", "--json", command="verify") as process:
        output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, output
    found = json.loads(output)["tables"]
    assert {row["result"] for row in found} == {"equal"}
    job.use(spark)
    change(spark, job, BEHIND_THE_BACK[0])
    with job.running("--once", command="verify") as process:
        output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 4, output
    assert '  different: {"id":7}' in output.splitlines()


@pytest.mark.lake
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_command_in_order(
    number: signal.Signals, server: Server, tmp_path: Path
) -> None:
    job = LakeJob(tmp_path, server, "delta")
    assert job.run_once() == 0
    with server.open_transaction(), job.running("--once", command="verify") as process:
        wait_until(lambda: server.execute(TEMPORARY_SLOT), TIMEOUT)
        # Ctrl+C goes to all processes of a terminal's job.
        os.killpg(process.pid, number)
        output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + number, output
    assert "RESULT" not in output
    assert "Traceback" not in errors_of(tmp_path)
    wait_until(lambda: not server.execute(TEMPORARY_SLOT), TIMEOUT)
    with job.running("--once", command="verify") as process:
        output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, output


def asked(spark: SparkSession, job: LakeJob, **options: object) -> dict[str, Row]:
    """Ask the job that runs to verify its tables."""
    job.use(spark)
    given: dict[str, object] = {"tell": print, "timeout": 2 * TIMEOUT, **options}
    found = spark_pgoutput.verify(spark, checkpoint=job.checkpoint, **given)  # type: ignore[arg-type]
    return {row.target: row for row in found.collect()}


def table(**values: object) -> Row:
    found: dict[str, object] = {
        "table": "public.orders",
        "result": "equal",
        "reason": None,
        "lsn": "FFFF/FFFFFFFF",
        "server_rows": 1_234_567_890,
        "target_rows": 1_234_567_890,
        "only_at_server": 0,
        "only_in_target": 0,
        "different": 0,
        "keys": [],
    }
    return Row(**{**found, **values})


def test_report_fits_into_80_columns() -> None:
    keys = [Row(kind="different", key='{"id":7}')]
    none = dict.fromkeys(["server_rows", "target_rows", *COUNTS, "keys"])
    tables = [
        table(),
        table(table="a_schema.a_table_with_a_long_name", result="different", keys=keys),
        table(table="public.gone", result="skipped", reason="The table is dropped. " * 9, **none),
    ]
    text = reports.verification_text(tables)
    assert max(map(len, text.splitlines())) <= 80, text
    for part in ("1234567890", '  different: {"id":7}', "below FFFF/FFFFFFFF", "skipped"):
        assert part in text
    assert "\npublic.new\\nline " in reports.verification_text([table(table="public.new\nline")])
    assert json.loads(reports.verification_json(tables))["tables"][1]["keys"] == [
        {"kind": "different", "key": '{"id":7}'}
    ]
    assert [reports.verification_exit_code(tables[:count]) for count in (1, 2, 3)] == [0, 4, 4]
    assert reports.verification_exit_code([tables[0], tables[2]]) == 3


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--once"], "--once needs --url"),
        (["--url", "jdbc:postgresql:shop"], "--url goes with --once"),
        (
            ["--exclude-column", "public.users.ssn"],
            "--exclude-column and --hash-column go with --once",
        ),
    ],
)
def test_arguments_of_a_job_go_with_once(
    arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.parse(["verify", "--checkpoint", "/data/checkpoint", *arguments])
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err
