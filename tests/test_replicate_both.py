"""Mirrors with a history, which get their changes from one queue."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

import spark_pgoutput
from support import lake, lake_history
from support.background import background
from support.history_judge import assert_copies, history
from support.lake_both import Between, assert_both, mark
from support.lake_history import History
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_points import commit_files, kill_when
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until
from support.suspension import suspend_when

pytestmark = [lake.needs_lake, pytest.mark.lake]

ORDERS = {"orders": "orders"}

server = server_fixture()


SETUP = """
    CREATE TABLE orders (id int PRIMARY KEY, v text, note text);
    ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
    INSERT INTO orders SELECT g, 'v' || g, repeat('n', 3000) FROM generate_series(1, 9) g;
    CREATE TABLE plain (id int PRIMARY KEY);
    CREATE PUBLICATION shop FOR TABLE orders, plain;
"""


@pytest.fixture
def orders(server: Server) -> Server:
    server.execute(SETUP)
    return server


@pytest.mark.parametrize("target", lake.TARGETS)
def test_the_rows_and_the_changes_follow_the_server(
    target: str, orders: Server, tmp_path: Path, spark: SparkSession
) -> None:
    steps = [
        "UPDATE orders SET v = 'c' WHERE id = 1; UPDATE orders SET id = 30 WHERE id = 3",
        "DELETE FROM orders WHERE id = 2; INSERT INTO orders VALUES (2, 'again', 'x')",
        "ALTER TABLE orders RENAME v TO w; ALTER TABLE orders ADD added varchar(3);"
        "UPDATE orders SET added = 'a', w = 'd' WHERE id < 4",
        "ALTER TABLE orders ALTER added TYPE varchar(9); UPDATE orders SET added = 'longer'",
        "TRUNCATE orders; INSERT INTO orders VALUES (1, 'e', 'y')",
    ]
    job = LakeJob(tmp_path, orders, target, mode={"orders": "both"})
    with job.session(spark) as replicate:
        replicate(once=True)
        for step in steps:
            orders.execute(step)
            assert replicate(once=True).exit_code == 0
            assert_equal(spark, job, {"plain": "plain"})
            assert_both(spark, job, ORDERS)
        assert copies_and_truncates(history(spark, job, "orders_history")) == (1, 1)

        # A resync gives both the same snapshot.
        orders.execute("UPDATE orders SET w = 'f'")
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, tables=["orders"])
        done = replicate(once=True)
        assert_both(spark, job, ORDERS)
        assert copies_and_truncates(history(spark, job, "orders_history")) == (2, 2)
        shown = {row.target: (row["mode"], row.state) for row in done.status().collect()}
        assert shown == {"orders": ("both", "live"), "plain": ("mirror", "live")}
    found = spark_pgoutput.verify(spark, once=True, **job.options).collect()  # type: ignore[arg-type]
    assert {row.target: row.result for row in found} == {"orders": "equal", "plain": "equal"}


def copies_and_truncates(changes: list[Row]) -> tuple[int, int]:
    """Count the copies of a history, and the rows that empty it."""
    copies = {row["_commit_version"] for row in changes if row["_change_type"] == "snapshot"}
    return len(copies), sum(row["_change_type"] == "truncate" for row in changes)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_job_is_killed_between_the_two_commits(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(lake_history.SETUP)
    job = LakeJob(tmp_path, server, target, mode="both")
    changes = History(server, seed=4)
    for number, is_copy in enumerate((True, False, False)):
        with changes.running(), job.running() as process:
            kill_when(process, job, Between(job, "orders", in_copy=is_copy))
        assert mark(job, "orders_history") < mark(job, "orders")
        # The table that is behind has other columns than the one that is ahead.
        server.execute(f"ALTER TABLE orders ADD c{number} int; UPDATE orders SET c{number} = 7")
        assert job.run_once() == 0
        assert_both(spark, job, lake_history.TABLES)
        assert mark(job, "orders_history") == mark(job, "orders")


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_requested_copy_is_given_up_between_its_two_commits(
    target: str, orders: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, orders, target, mode={"orders": "both"})
    assert job.run_once() == 0
    orders.execute("UPDATE orders SET v = 'before the copy' WHERE id = 1")
    orders.execute("SELECT pg_copy_logical_replication_slot('lake', 'kept')")
    spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, tables=["orders"])
    # A job rarely ends in order at this moment. So the test makes what such an end leaves: the new
    # mirror, and all else as it was before the copy.
    parts = [job.checkpoint, job.tables / "orders_history"]
    for part in parts:
        shutil.copytree(part, tmp_path / "before" / part.name)
    assert job.run_once() == 0
    for part in parts:
        shutil.rmtree(part)
        shutil.copytree(tmp_path / "before" / part.name, part)
    orders.execute("SELECT pg_drop_replication_slot('lake')")
    orders.execute("SELECT pg_copy_logical_replication_slot('kept', 'lake')")
    assert mark(job, "orders_history") < mark(job, "orders")
    orders.execute("UPDATE orders SET v = 'after the copy' WHERE id = 1")
    assert job.run_once() == 0
    assert_both(spark, job, ORDERS)
    changes = history(spark, job, "orders_history")
    updates = [row.v for row in changes if row["_change_type"] == "update_postimage"]
    assert updates == ["before the copy", "after the copy"]
    assert mark(job, "orders_history") == mark(job, "orders")


@pytest.mark.parametrize("is_altered", [False, True])
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_requested_copy_that_fails_between_its_two_commits_loses_no_change(
    target: str, is_altered: bool, orders: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, orders, target, mode={"orders": "both"})
    assert job.run_once() == 0
    with job.running() as process:
        job.wait_until_read(process)
        # A snapshot waits for this transaction, so the table is altered after the last look at it.
        with orders.open_transaction():
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, tables=["orders"])
            making = "state = 'active' AND query LIKE 'CREATE_REPLICATION_SLOT%'"
            wait_until(
                lambda: orders.execute(f"SELECT 1 FROM pg_stat_activity WHERE {making}"), TIMEOUT
            )
            if is_altered:
                orders.execute("ALTER TABLE orders ADD added text")
        between = Between(job, "orders", in_copy=True)
        suspend_when(process.pid, job.while_running(process, between))
        # The tasks that copy the rows for the history wait for a lock behind this one, and give up.
        with background(lambda _: orders.execute("TRUNCATE orders")):
            wait_until(lambda: orders.execute("SELECT 1 FROM pg_locks WHERE NOT granted"), TIMEOUT)
            os.killpg(process.pid, signal.SIGCONT)
        end = orders.wal_end()
        orders.execute("INSERT INTO orders VALUES (1, 'after the copy')")
        wait_until(lambda: mark(job, "orders_history")[1] > end, TIMEOUT)
    job.use(spark)
    changes = history(spark, job, "orders_history")
    assert [row.v for row in changes if row["_change_type"] == "insert"] == ["after the copy"]
    assert copies_and_truncates(changes) == (1, 1)
    assert job.run_once() == 0
    assert_both(spark, job, ORDERS)


def test_a_start_writes_no_table_of_another_job(
    orders: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, orders, "delta", mode={"orders": "both"})
    assert job.run_once() == 0
    folder = tmp_path / "other"
    folder.mkdir()
    oid = "SELECT 'orders'::regclass::oid"
    with Server() as another:
        another.execute(SETUP)
        assert another.value(oid) == orders.value(oid)
        other = LakeJob(folder, another, "delta", mode={"orders": "both"})
        assert other.run_once() == 0
        spark_pgoutput.resync(spark, checkpoint=other.checkpoint_url, tables=["orders"])
        assert other.run_once() == 0
    # The slots have one name, too. The mirror has a newer generation than the history, as after a
    # copy that was given up.
    shutil.rmtree(job.tables / "orders")
    shutil.copytree(other.tables / "orders", job.tables / "orders")
    assert mark(job, "orders")[0] > mark(job, "orders_history")[0]
    before = commit_files(job, "orders")
    assert job.run_once() == 3
    assert commit_files(job, "orders") == before


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_mirror_gets_a_history_and_loses_it(
    target: str, orders: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, orders, target)
    with job.session(spark) as replicate:
        replicate(once=True)
        orders.execute("UPDATE orders SET v = 'a' WHERE id = 1")
        # A history that exists keeps the names of its columns.
        for copies, prefix in ((1, "_"), (2, "cdc_")):
            options = {"mode": {"orders": "both"}, "historyPrefix": prefix}
            assert replicate(once=True, **options).exit_code == 0
            orders.execute(f"UPDATE orders SET v = 'b{copies}' WHERE id = 2")
            assert replicate(once=True, **options).exit_code == 0
            assert_both(spark, job, ORDERS)
            kept = history(spark, job, "orders_history")
            assert_copies(kept, copies)
            orders.execute("DELETE FROM orders WHERE id = (SELECT max(id) FROM orders)")
            report = replicate(once=True).report()
            assert not [line for line in report if line.startswith("Copied")]
            assert_equal(spark, job, ORDERS)
            assert history(spark, job, "orders_history") == kept
        assert not [name for name in kept[0].__fields__ if name.startswith("cdc_")]


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_mirror_with_a_history_keeps_deleted_rows(
    target: str, orders: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, orders, target, mode={"orders": "both"})
    with job.session(spark) as replicate:
        for on_delete in ("delete", "mark"):
            replicate(once=True, on_delete=on_delete)
            orders.execute("DELETE FROM orders WHERE id = (SELECT max(id) FROM orders)")
            assert replicate(once=True, on_delete=on_delete).exit_code == 0
        marked = spark.sql(f"SELECT id, _deleted_lsn FROM {job.sql_name('orders')}").collect()
        assert {row.id: row._deleted_lsn is None for row in marked} == {
            **dict.fromkeys(range(1, 8), True),
            8: False,
        }
        changes = history(spark, job, "orders_history")
        assert [row.id for row in changes if row["_change_type"] == "delete"] == [9, 8]
        assert "_deleted_lsn" not in changes[0].__fields__


def test_a_table_with_the_name_of_a_history_needs_another_one(
    orders: Server, tmp_path: Path, spark: SparkSession
) -> None:
    orders.execute(
        "CREATE TABLE orders_history (id int PRIMARY KEY); INSERT INTO orders_history VALUES (5);"
        "ALTER PUBLICATION shop ADD TABLE orders_history"
    )
    job = LakeJob(tmp_path, orders, "delta", mode={"orders": "both"})
    with job.session(spark) as replicate:
        (reason,) = replicate(once=True).failed()
        assert reason.startswith("public.orders_history: ")
        assert "names.public.orders_history=public_orders_history" in reason
        names = {"public.orders_history": "public_orders_history"}
        assert replicate(once=True, names=names).exit_code == 0
        assert_both(spark, job, ORDERS)
        assert_equal(spark, job, {"orders_history": "public_orders_history"})


@pytest.mark.parametrize("is_older", [False, True])
def test_a_mirror_gets_no_history_in_the_table_of_another_one(
    is_older: bool, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    tables = ["orders", "orders_history"]
    for number, table in enumerate(reversed(tables) if is_older else tables):
        server.execute(
            f"CREATE TABLE {table} (id int PRIMARY KEY); INSERT INTO {table} VALUES ({number})"
        )
    server.execute("CREATE PUBLICATION shop FOR ALL TABLES")
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        modes = {"*": "history", "orders": "mirror"}
        assert replicate(once=True, mode=modes).exit_code == 0
        kept = history(spark, job, "orders_history")
        (reason,) = replicate(once=True, mode={**modes, "orders": "both"}).failed()
        assert reason.startswith("public.orders: ")
        assert "'orders_history'" in reason
        assert "names.public.orders=public_orders" in reason
        assert history(spark, job, "orders_history") == kept
        assert replicate(once=True, mode=modes).exit_code == 0
        assert_equal(spark, job, ORDERS)
        assert history(spark, job, "orders_history") == kept
