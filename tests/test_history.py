"""Histories of tables, in Delta and Iceberg."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

import spark_pgoutput
from spark_pgoutput import cli, replicate_command, replication
from support import lake, lake_history, lake_resync
from support.history_judge import assert_copies, assert_histories, history, played
from support.job_report import JobReport, wait_until_live
from support.lake_history import History
from support.lake_job import LakeJob
from support.lake_judge import assert_equal, columns_of, server_rows
from support.lake_points import APPLYING, COPYING, kill_at
from support.lake_resync import STEPS, Resync, kill_in_resync, writing
from support.lsn import parsed_lsn
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = lake.needs_lake

server = server_fixture()


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_history_has_all_changes_and_leads_to_the_table(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        """
        CREATE TABLE orders (id int PRIMARY KEY, v text, note text);
        ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
        CREATE TABLE plain (id int PRIMARY KEY);
        INSERT INTO orders VALUES (1, 'a', repeat('n', 3000)), (2, 'b', NULL);
        CREATE PUBLICATION shop FOR TABLE orders, plain;
        """
    )
    job = LakeJob(tmp_path, server, target)
    modes = {"orders": "history"}
    with job.session(spark) as replicate:
        copy = replicate(once=True, mode=modes)
        (text,) = [line for line in copy.report() if line.startswith("Copied public.orders: ")]
        server.execute("UPDATE orders SET v = 'c' WHERE id = 1")
        server.execute("UPDATE orders SET id = 3 WHERE id = 2; DELETE FROM orders WHERE id = 3")
        server.execute("TRUNCATE orders, plain; INSERT INTO orders VALUES (4, 'd', 'x')")
        server.execute("SELECT pg_copy_logical_replication_slot('lake', 'kept')")
        shutil.copytree(job.checkpoint, tmp_path / "kept")
        replicate(once=True, mode=modes)
        forget_all_but_the_tables(job, tmp_path / "kept")
        done = replicate(once=True, mode=modes)
        assert {row.table: row["mode"] for row in done.status().collect()} == {
            "public.orders": "history",
            "public.plain": "mirror",
        }
        # A mirror stays a mirror.
        report = replicate(once=True, mode="history").report()
        assert [line for line in report if "Set mode.public.plain=both" in line]
    found = assert_histories(spark, job, {"orders": "orders"})["orders"]
    assert [shown(row) for row in found] == [
        ("snapshot", 1, "a", "nnn", []),
        ("snapshot", 2, "b", None, []),
        ("update_postimage", 1, "c", None, ["note"]),
        ("update_preimage", 2, None, None, ["v", "note"]),
        ("update_postimage", 3, "b", None, []),
        ("delete", 3, None, None, ["v", "note"]),
        ("truncate", None, None, None, []),
        ("insert", 4, "d", "x", []),
    ]
    copied = parsed_lsn(text.removesuffix(".").split(" as of ")[1])
    versions = [row["_commit_version"] for row in found]
    assert set(versions[:2]) == {copied - 1}
    assert min(versions[2:]) >= copied
    assert all(row["_keys"] == ["id"] for row in found)
    times = [row["_commit_timestamp"] for row in found]
    assert times == sorted(times)
    assert [row["_xid"] is None for row in found] == [True] * 2 + [False] * 6


def forget_all_but_the_tables(job: LakeJob, kept: Path) -> None:
    """Make the server send changes again that the tables already have, as after a kill."""
    shutil.rmtree(job.checkpoint)
    shutil.copytree(kept, job.checkpoint)
    job.server.drop_slot("lake")
    job.server.execute("SELECT pg_copy_logical_replication_slot('kept', 'lake')")


def shown(row: Row) -> tuple[object, ...]:
    note = row.note and row.note[:3]
    return (row["_change_type"], row.id, row.v, note, row["_missing"])


def test_the_command_takes_modes_of_single_tables() -> None:
    names = ("slot", "publication", "target", "checkpoint")
    url = "--url=jdbc:postgresql://localhost/shop"
    required = ["replicate", url, *(f"--{name}=x" for name in names)]
    given = ["--mode", "history", "--mode", "public.orders=mirror"]
    options = replicate_command.job_options(cli.parse([*required, *given]))
    assert options["mode"] == {"*": "history", "public.orders": "mirror"}
    found = replication.java_options({"mode": options["mode"], "password": "secret"})
    assert found == {"mode": "history", "mode.public.orders": "mirror", "password": "secret"}


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_job_is_killed_between_two_steps(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(lake_history.SETUP)
    job = LakeJob(tmp_path, server, target, mode="history")
    changes = History(server, seed=3)
    for points in (COPYING, APPLYING):
        for point in points:
            with changes.running(), job.running() as process:
                kill_at(process, job, point)
        assert job.run_once() == 0
        assert_histories(spark, job)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_job_is_killed_at_each_step_of_a_resync(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(lake_resync.SETUP)
    server.execute("CREATE TABLE added (id int PRIMARY KEY, v text)")
    server.execute("ALTER PUBLICATION shop ADD TABLE added")
    job = LakeJob(tmp_path, server, target, mode="history")
    job.use(spark)
    assert job.run_once() == 0
    copies = 1
    for step in range(1, len(STEPS)):
        with job.running() as process, writing(server, seed=step):
            copies += kill_in_resync(spark, job, process, step)
        assert job.run_once() == 0
        assert Resync(job).requests == [], STEPS[step]
        found = assert_histories(spark, job, lake_resync.TABLES)
        # The history from before the copy stays.
        assert_copies(found["orders"], copies)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_history_that_is_copied_gets_the_changes_that_wait_first(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        """
        CREATE TABLE orders (id int PRIMARY KEY, v text);
        INSERT INTO orders VALUES (1, 'a'), (2, 'b');
        CREATE PUBLICATION shop FOR TABLE orders;
        """
    )
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        # Only the copy makes the job apply changes before an hour has passed.
        process = replicate(mode="history", interval="60min")
        report = JobReport(process)
        wait_until_live(process)
        server.execute("UPDATE orders SET v = 'c' WHERE id = 1")
        server.execute("UPDATE orders SET v = 'd' WHERE id = 1; DELETE FROM orders WHERE id = 2")
        wait_until(lambda: process.status().collect()[0]["queue_changes"] == 3, TIMEOUT)
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["orders"])
        wait_until(lambda: len(report.lines("Copied public.orders: ")) == 2, TIMEOUT)
        server.execute("INSERT INTO orders VALUES (3, 'e')")
        process.stop()
        replicate(once=True, mode="history")
    found = assert_histories(spark, job, {"orders": "orders"})["orders"]
    assert [(row["_change_type"], row.id, row.v) for row in found] == [
        ("snapshot", 1, "a"),
        ("snapshot", 2, "b"),
        ("update_postimage", 1, "c"),
        ("update_postimage", 1, "d"),
        ("delete", 2, None),
        ("truncate", None, None),
        ("snapshot", 1, "d"),
        ("insert", 3, "e"),
    ]


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_columns_of_a_history_follow_those_of_the_server(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        """
        CREATE TABLE orders (id int PRIMARY KEY, v text, note text, gone text);
        ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
        INSERT INTO orders SELECT g, 'v' || g, repeat('n', 3000), 'g' FROM generate_series(1, 9) g;
        CREATE PUBLICATION shop FOR TABLE orders;
        """
    )
    steps = [
        # These are followed.
        "UPDATE orders SET v = 'before' WHERE id = 1; ALTER TABLE orders RENAME note TO remark;"
        "UPDATE orders SET v = 'after' WHERE id = 1",
        "ALTER TABLE orders ADD added int; INSERT INTO orders VALUES (10, 'x', 'y', 'z', 7)",
        "UPDATE orders SET gone = 'last' WHERE id = 2; ALTER TABLE orders DROP gone;"
        "UPDATE orders SET v = 'dropped' WHERE id = 2",
        # These are new copies.
        "ALTER TABLE orders ALTER id TYPE bigint; INSERT INTO orders (id) VALUES (9000000000)",
        "ALTER TABLE orders ALTER added TYPE text USING 't' || added;"
        "DELETE FROM orders WHERE id = 3",
        "ALTER TABLE orders ADD fresh int DEFAULT 7; UPDATE orders SET fresh = 8 WHERE id = 4",
        "ALTER TABLE orders REPLICA IDENTITY FULL; UPDATE orders SET v = 'full' WHERE id = 5",
    ]
    job = LakeJob(tmp_path, server, target, mode="history")
    with job.session(spark) as replicate:
        replicate(once=True)
        copies = []
        for step in steps:
            server.execute(step)
            assert replicate(once=True).exception() is None
            changes = history(spark, job, "orders")
            copies.append(sum(row["_change_type"] == "truncate" for row in changes))
            state = played(with_new_names(changes, note="remark"), columns_of(server, "orders"))
            assert state == server_rows(server, "orders"), step
    assert copies == [0, 0, 0, 1, 2, 3, 4]
    inserted = [row for row in changes if row.id == 10]
    assert [row.added_before_3 for row in inserted][:3] == [7, 7, None]
    assert [row.added for row in inserted][:3] == [None, None, "t7"]
    assert {row.gone for row in changes[:9]} == {"g"}
    updated = [row for row in changes if (row.id, row["_change_type"]) == (2, "update_postimage")]
    assert [row.gone for row in updated] == ["last", None]


def with_new_names(changes: list[Row], **names: str) -> list[Row]:
    """Give the columns in `_missing` their present names."""
    return [
        Row(**{**row.asDict(), "_missing": [names.get(name, name) for name in row["_missing"]]})
        for row in changes
    ]


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_each_copy_has_the_same_column_of_the_type_varchar(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    modes = {"changes": "history", "rows": "mirror", "old": "versions"}
    for table in modes:
        server.execute(
            f"CREATE TABLE {table} (id int PRIMARY KEY, v text, a text[]);"
            f"INSERT INTO {table} VALUES (1, 'one', '{{a}}'), (2, NULL, NULL)"
        )
    server.execute("CREATE PUBLICATION shop FOR ALL TABLES")
    job = LakeJob(tmp_path, server, target, mode=modes)
    types = {
        **{f"public.{table}.v": "VARCHAR(9)" for table in modes},
        **{f"public.{table}.a": "ARRAY<VARCHAR(5)>" for table in modes},
    }
    with job.session(spark) as replicate:
        for number in (1, 2, 3):
            if number > 1:
                spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, tables=list(modes))
            for text in ("copy", "again"):
                done = replicate(once=True, types=types)
                assert (done.exit_code, done.failed()) == (0, [])
                for table in modes:
                    server.execute(
                        f"UPDATE {table} SET v = '{text}{number}', a = '{{{text}}}' WHERE id = 1"
                    )
            assert_copies(history(spark, job, "changes"), number)
        assert replicate(once=True, types=types).exit_code == 0
        assert_equal(spark, job, {"rows": "rows"})
        assert_histories(spark, job, {"changes": "changes"})
        for table in modes:
            schema = spark.table(job.sql_name(table)).schema
            fields = [field for field in schema if not field.name.startswith("_")]
            assert [field.name for field in fields] == ["id", "v", "a"]
            texts = [field.metadata.get("__CHAR_VARCHAR_TYPE_STRING") for field in fields]
            # Iceberg has no VARCHAR.
            has = target == "delta"
            assert texts == ([None, "varchar(9)", "array<varchar(5)>"] if has else [None] * 3)
            if has and table != "changes":
                assert schema["v"].metadata["comment"] == "text"


@pytest.mark.lake
def test_a_column_with_a_name_of_a_history_needs_another_prefix(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        'CREATE TABLE t (id int PRIMARY KEY, "_XID" int); INSERT INTO t VALUES (1, 2);'
        "CREATE PUBLICATION shop FOR TABLE t"
    )
    job = LakeJob(tmp_path, server, "delta", mode="history")
    with job.session(spark) as replicate:
        failed = replicate(once=True)
        assert failed.exit_code == 3
        (reason,) = failed.failed()
        assert "[PGOUTPUT_TARGET_NAME]" in reason
        assert "historyPrefix" in reason
        assert replicate(once=True, historyPrefix="cdc_").exit_code == 0
        server.execute("INSERT INTO t VALUES (2, 3)")
        assert replicate(once=True).exit_code == 0  # which keeps its prefix
        rows = spark.sql(f"SELECT * FROM {job.sql_name('t')} ORDER BY id").collect()
        assert [(row["_XID"], row.cdc_change_type) for row in rows] == [
            (2, "snapshot"),
            (3, "insert"),
        ]
        with pytest.raises(PySparkException, match=r"mode\.x names no table") as error:
            replicate(
                checkpoint=str(tmp_path / "new"),
                slot="other",
                target=f"{tmp_path}/other",
                mode={"x": "history"},
            )
        assert error.value.getCondition() == "PGOUTPUT_REPLICATE_OPTION"
    assert [row["mode"] for row in spark_pgoutput.applied(spark, job.checkpoint).collect()] == [
        "history"
    ]
