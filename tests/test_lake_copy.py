"""The first copy of a table of a real server."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from support.background import background
from support.lake_catalog import LakeCatalog
from support.lake_copy import APPLICATION, Copy, copy_source, open_copy
from support.postgres_binaries import NEWEST
from support.server_values import TYPES, USER_TYPES
from support.servers import EACH_VERSION, Connection, Server, server_fixture, wait_until
from support.source import SourceClient, fails, source_client

TABLES = """
CREATE TABLE t (k int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, E'tab\\tline\\nback\\\\N'), (3, NULL), (4, '\\N'), (5, '');
CREATE SCHEMA "order";
CREATE TABLE "order"."Select ""x" (k int PRIMARY KEY, "from" text, "Ö 🐢" int);
INSERT INTO "order"."Select ""x" VALUES (1, 'one', 10), (2, 'two', 20), (3, 'three', 30);
CREATE TABLE wide (k int PRIMARY KEY, v text);
INSERT INTO wide SELECT n, repeat('x', 900) FROM generate_series(1, 40000) AS n;
CREATE TABLE root (k int PRIMARY KEY, v text) PARTITION BY RANGE (k);
CREATE TABLE low PARTITION OF root FOR VALUES FROM (0) TO (10);
CREATE TABLE high (v text, gone int, k int NOT NULL);
ALTER TABLE high DROP gone;
ALTER TABLE root ATTACH PARTITION high FOR VALUES FROM (10) TO (20);
INSERT INTO root VALUES (1, 'one'), (11, 'eleven');
CREATE PUBLICATION p FOR TABLE t, wide, "order"."Select ""x";
CREATE PUBLICATION roots FOR TABLE root WITH (publish_via_partition_root);
CREATE PUBLICATION leaves FOR TABLE root;
"""
HOLDER = f"application_name = '{APPLICATION}' AND backend_type = 'walsender'"
ALL = [(1, "a"), (2, "tab\tline\nback\\N"), (3, None), (4, "\\N"), (5, "")]

server = server_fixture(TABLES, "module", EACH_VERSION)


def tuples(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows.collect())


def test_all_rows_are_copied(spark: SparkSession, client: SourceClient) -> None:
    with open_copy(spark, client, ["p"], "t") as copy:
        assert copy.rows.schema.simpleString() == "struct<k:int,v:string>"
        assert tuples(copy.rows) == ALL
    with open_copy(spark, client, ["p"], 'order.Select "x') as copy:
        assert tuples(copy.rows) == [(1, "one", 10), (2, "two", 20), (3, "three", 30)]


@pytest.mark.takes_long
def test_a_copy_gets_the_connection_of_a_copy_that_the_driver_has_read(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    """Each copy has its own snapshot. If a read may still run, the connection is not used again."""
    server.execute(
        "CREATE TABLE grows (k serial PRIMARY KEY); CREATE PUBLICATION grows FOR TABLE grows"
    )
    held = (
        "SELECT max(pid), max(state) FROM pg_stat_activity "
        f"WHERE backend_type = 'walsender' AND application_name = '{APPLICATION}'"
    )
    copies = client.jvm.io.sparkpgoutput.lake.copy
    with closing(copies.SnapshotConnections(copy_source(client, ["grows"]))) as connections:

        def copied(rows: int, *, reads: bool) -> int:
            with open_copy(spark, client, ["grows"], "grows", connections=connections) as copy:
                server.execute("INSERT INTO grows DEFAULT VALUES")
                if reads:
                    assert copy.read_on_driver() == rows
                ((pid, state),) = server.execute(held)
                assert state == "idle in transaction"
            left = [(pid, "idle")] if reads else [(None, None)]
            wait_until(lambda: server.execute(held) == left)
            return int(pid)

        pids = [copied(rows, reads=rows != 2) for rows in range(4)]
        assert pids[0] == pids[1] == pids[2] != pids[3]
        with ExitStack() as stack:
            with open_copy(spark, client, ["grows"], "grows", connections=connections) as copy:
                assert copy.read_on_driver() == 4
                ((pid, _),) = server.execute(held)
                stack.callback(os.kill, pid, signal.SIGCONT)
                os.kill(pid, signal.SIGSTOP)
                began = time.monotonic()
            # A copy ends even if the server does not answer.
            assert 4 < time.monotonic() - began < 30
    wait_until(lambda: server.execute(held) == [(None, None)])
    server.execute("DROP TABLE grows; DROP PUBLICATION grows")


def test_several_tasks_read_a_large_table(spark: SparkSession, client: SourceClient) -> None:
    with open_copy(spark, client, ["p"], "wide") as copy:
        rows = copy.rows
        assert rows.rdd.getNumPartitions() == 2
        assert sorted(row[0] for row in rows.select("k").collect()) == [*range(1, 40001)]
        copied = copy.copy.copied()
        assert (copied.rows(), copied.share()) == (40000, 1.0)
        assert copied.bytes() > 40000 * 900


@pytest.mark.lake
def test_progress_shows_the_rows_of_tasks_that_run(
    spark: SparkSession, client: SourceClient, tmp_path: Path
) -> None:
    """
    The rows for Python are ten times as long as those of the table. Otherwise the buffers of the
    sockets can hold all of them, so that the tasks end while nobody takes their rows. Each task
    counts after a MiB of the server's bytes, which 2,000 rows exceed.
    """
    with open_copy(spark, client, ["p"], "wide") as copy, ThreadPoolExecutor(1) as pool:
        goes_on = tmp_path / "goes on"

        def consume(rows: Iterable[Row]) -> Iterator[int]:
            left = iter(rows)
            yield sum(1 for _ in islice(left, 2000))
            while not goes_on.exists():
                time.sleep(0.1)
            yield sum(1 for _ in left)

        rows = copy.rows.selectExpr("repeat(v, 10)")
        counted = pool.submit(lambda: rows.rdd.mapPartitions(consume).sum())
        try:
            wait_until(lambda: copy.copy.progress().rows() > 0)
            progress = copy.copy.progress()
            assert 0 < progress.rows() < 40000
            assert 0 < progress.share() < 1
            assert progress.bytes() > progress.rows() * 900
        finally:
            goes_on.touch()
        assert counted.result() == 40000
        wait_until(lambda: copy.copy.progress().rows() == 40000)
        assert copy.copy.progress().share() == 1


def test_a_table_whose_pages_have_no_numbers_is_read_by_one_task(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    """Only `heap`, the server's own access method, is known to have numbers of pages."""
    server.execute(
        "CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler;"
        "CREATE TABLE other (k int PRIMARY KEY, v text) USING other;"
        "INSERT INTO other SELECT * FROM wide; CREATE TABLE empty (k int PRIMARY KEY, v text);"
        "CREATE PUBLICATION other FOR TABLE other, empty"
    )
    for table, count in (("other", 40000), ("empty", 0)):
        with open_copy(spark, client, ["other"], table) as copy:
            assert copy.rows.rdd.getNumPartitions() == 1
            assert copy.rows.count() == count
    server.execute("DROP TABLE other, empty; DROP PUBLICATION other")


def test_a_copy_has_the_row_filter_and_the_column_list(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    if server.version < 15:
        pytest.skip("new in 15")
    server.execute("CREATE PUBLICATION filtered FOR TABLE t (k) WHERE (k > 1 AND k < 4)")
    with open_copy(spark, client, ["filtered"], "t") as copy:
        assert tuples(copy.rows) == [(2,), (3,)]


def test_partitions_are_copied_as_they_are_published(
    spark: SparkSession, client: SourceClient
) -> None:
    with open_copy(spark, client, ["roots"], "root") as copy:
        assert tuples(copy.rows) == [(1, "one"), (11, "eleven")]
    with open_copy(spark, client, ["leaves"], "high") as copy:
        assert tuples(copy.rows) == [("eleven", 11)]


def test_a_value_that_does_not_fit_is_an_error_with_a_remedy(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    server.execute(
        "CREATE TABLE late (k int, d date); INSERT INTO late VALUES (1, 'infinity');"
        "ALTER PUBLICATION p ADD TABLE late"
    )
    remedy = r"PGOUTPUT_INVALID_VALUE.*types.public.late.d=STRING"
    with (
        open_copy(spark, client, ["p"], "late") as copy,
        pytest.raises(Exception, match=remedy),
    ):
        copy.rows.collect()
    with open_copy(spark, client, ["p"], "late", {"public.late.d": "STRING"}) as copy:
        assert tuples(copy.rows) == [(1, "infinity")]


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.lake)])
def test_a_commit_is_in_the_copy_or_follows_it(
    spark: SparkSession, server: Server, client: SourceClient, rounds: int
) -> None:
    server.execute(
        "CREATE TABLE busy (k bigserial PRIMARY KEY, v int); CREATE PUBLICATION busy FOR TABLE busy"
    )
    server.create_slot("busy")
    copies = []
    with writers(server, "INSERT INTO busy (v) VALUES (1)"):
        for _ in range(rounds):
            with open_copy(spark, client, ["busy"], "busy") as copy:
                time.sleep(0.2)
                copies.append((copy.lsn, {row[0] for row in copy.rows.collect()}))
    commits = {
        row["k"]: row["_commit_version"]
        for row in changes(spark, server, "busy", "busy", "public.busy").collect()
    }
    lsns = sorted(lsn for lsn, _ in copies)
    between = [lsn for lsn in commits.values() if lsns[0] <= lsn < lsns[-1]]
    assert len(between) > rounds, "the writers have written nothing between the copies"
    for lsn, keys in copies:
        assert keys == {key for key, commit in commits.items() if commit < lsn}
    server.execute("SELECT pg_drop_replication_slot('busy'); DROP TABLE busy")
    server.execute("DROP PUBLICATION busy")


def changes(
    spark: SparkSession, server: Server, slot: str, publication: str, table: str, **options: str
) -> DataFrame:
    return (
        spark.read.format("pgoutput")
        .options(**server.account)
        .options(slot=slot, publication=publication, table=table)
        .options(**options)
        .load()
    )


def writers(server: Server, statement: str, number: int = 3) -> AbstractContextManager[None]:
    """Run a statement again and again, each time in a transaction of its own."""

    def write(ended: threading.Event) -> None:
        with server.connect() as connection:
            while not ended.wait(0.001):
                connection.execute(statement.encode())

    return background(*[write] * number)


@contextmanager
def beside_the_snapshot(
    server: Server, statement: str, run: Callable[[Connection], object] | None = None
) -> Iterator[Connection]:
    """Give a transaction that begins before a copy has its snapshot, which does not wait for it.

    A new slot waits twice for all transactions that have written something (`snapbuild.c`), and not
    for one that begins during the second wait.

    Parameters
    ----------
    server : Server
        The server.
    statement : str
        The first statement of the transaction, before the snapshot.
    run : callable, optional
        Continues the transaction as soon as the copy waits for it. Then the transaction commits.
    """

    def wait_for(connection: Connection, ended: threading.Event) -> None:
        blocked = f"{connection.info.backend_pid} = ANY (pg_blocking_pids(pid))"
        query = f"SELECT 1 FROM pg_stat_activity WHERE {blocked}"
        wait_until(lambda: ended.is_set() or server.execute(query))
        assert not ended.is_set(), "the copy has not waited"

    def conduct(ended: threading.Event) -> None:
        try:
            wait_for(first, ended)
            second.execute("BEGIN")
            second.execute("SELECT pg_current_xact_id()")
            first.execute("COMMIT")
            wait_for(second, ended)
            third.execute("BEGIN")
            third.execute(statement.encode())
            second.execute("COMMIT")
            if run is not None:
                wait_for(third, ended)
                run(third)
                third.execute("COMMIT")
        except BaseException:
            third.rollback()
            raise
        finally:
            # Otherwise, the copy would wait forever.
            first.rollback()
            second.rollback()

    with server.connect() as first, server.connect() as second, server.connect() as third:
        first.execute("BEGIN")
        first.execute("SELECT pg_current_xact_id()")
        with background(conduct):
            yield third


def test_a_commit_at_the_lsn_of_the_snapshot_is_not_in_the_copy(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    """Its record is the next one in the WAL, unless the server itself writes another one first."""
    server.execute(
        "CREATE TABLE next (k int PRIMARY KEY); CREATE PUBLICATION next FOR TABLE next;"
        "INSERT INTO next VALUES (0)"
    )
    server.create_slot("next")
    distances = []
    for k in range(1, 6):
        with (
            beside_the_snapshot(server, f"INSERT INTO next VALUES ({k})") as inserting,
            open_copy(spark, client, ["next"], "next") as copy,
        ):
            inserting.execute("COMMIT")
            assert tuples(copy.rows) == [(n,) for n in range(k)]
            found = changes(spark, server, "next", "next", "public.next").where(f"k = {k}")
            (commit,) = found.select("_commit_version").collect()
            distances.append(commit[0] - copy.lsn)
        if distances[-1] == 0:
            break
    assert distances[-1] == 0, distances
    server.execute("SELECT pg_drop_replication_slot('next'); DROP TABLE next")
    server.execute("DROP PUBLICATION next")


@pytest.mark.parametrize(
    "statement", ["TRUNCATE moved", "CLUSTER moved USING moved_pkey", "DELETE FROM moved"]
)
def test_a_copy_is_right_if_a_statement_moves_rows_while_the_snapshot_is_made(
    spark: SparkSession, server: Server, client: SourceClient, statement: str
) -> None:
    server.execute(
        "CREATE TABLE IF NOT EXISTS moved (k int PRIMARY KEY); TRUNCATE moved;"
        "INSERT INTO moved VALUES (1), (2)"
    )
    if not server.execute("SELECT 1 FROM pg_publication WHERE pubname = 'moved'"):
        server.execute("CREATE PUBLICATION moved FOR TABLE moved")
    found = LakeCatalog(client).tables("moved")["public.moved"]

    def change(locker: Connection) -> None:
        locker.execute(statement.encode())
        locker.execute("INSERT INTO moved VALUES (3)")

    with (
        beside_the_snapshot(server, "LOCK TABLE moved IN ACCESS EXCLUSIVE MODE", change),
        open_copy(spark, client, ["moved"], "moved", found=found) as copy,
    ):
        rows = tuples(copy.rows)
        # The DELETE moves no rows, so the snapshot from before it stays valid.
        before, after = [(1,), (2,)], {"C": [(1,), (2,), (3,)], "T": [(3,)]}
        assert rows == after.get(statement[0], before)


@pytest.mark.parametrize(
    "statement", ["ALTER k TYPE bigint", "ADD v int DEFAULT 3", "RENAME k TO l", "DROP x"]
)
def test_a_table_that_is_altered_before_the_copy_is_an_error(
    spark: SparkSession, server: Server, client: SourceClient, statement: str
) -> None:
    server.execute(
        "DROP TABLE IF EXISTS altered; CREATE TABLE altered (k int PRIMARY KEY, x int);"
        "INSERT INTO altered VALUES (1)"
    )
    publications = server.execute("SELECT 1 FROM pg_publication WHERE pubname = 'altered'")
    verb = "ALTER PUBLICATION altered ADD" if publications else "CREATE PUBLICATION altered FOR"
    server.execute(f"{verb} TABLE altered")
    found = LakeCatalog(client).tables("altered")["public.altered"]

    def alter(locker: Connection) -> None:
        locker.execute(f"ALTER TABLE altered {statement}".encode())

    with (
        beside_the_snapshot(server, "LOCK TABLE altered IN ACCESS EXCLUSIVE MODE", alter),
        fails("PGOUTPUT_TABLE_CHANGED", "altered before the copy"),
        open_copy(spark, client, ["altered"], "altered", found=found),
    ):
        pass


def test_a_statement_that_would_move_rows_waits_for_the_copy(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    server.execute("CREATE TABLE held (k int); INSERT INTO held VALUES (1)")
    server.execute("ALTER PUBLICATION p ADD TABLE held")
    with open_copy(spark, client, ["p"], "held") as copy:
        statements = ["TRUNCATE held", "VACUUM FULL held", "ALTER TABLE held ALTER k TYPE bigint"]
        for statement in statements:
            with pytest.raises(Exception, match="lock timeout"):
                limited(server, statement)
        server.execute("INSERT INTO held VALUES (2)")
        assert tuples(copy.rows) == [(1,)]
    limited(server, "TRUNCATE held")


def limited(server: Server, statement: str) -> None:
    """Run a statement that does not wait long for a lock."""
    with server.connect() as connection:
        connection.execute("SET lock_timeout = '50ms'")
        connection.execute(statement.encode())


def test_a_lost_snapshot_is_an_error_and_not_an_empty_table(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    with open_copy(spark, client, ["p"], "wide") as copy:
        rows = copy.rows
        server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {HOLDER}")
        wait_until(lambda: not server.execute(f"SELECT 1 FROM pg_stat_activity WHERE {HOLDER}"))
        with pytest.raises(Exception, match=r"PGOUTPUT_COPY_INTERRUPTED.*has ended"):
            rows.collect()


def test_a_snapshot_with_the_name_of_one_from_before_a_restart_is_not_read(
    spark: SparkSession,
) -> None:
    """The server makes the names of snapshots of counters, which begin again when it starts."""
    names = "SELECT pg_ls_dir('pg_snapshots')"
    with Server() as server, ExitStack() as copies:

        def copy() -> Copy:
            client = copies.enter_context(source_client(spark, server))
            return copies.enter_context(open_copy(spark, client, ["p"], "t"))

        server.execute("CREATE TABLE t (k int); CREATE PUBLICATION p FOR TABLE t")
        rows = copy().rows
        name = server.value(names)
        server.stop_fast()
        server.start_again()
        server.execute("INSERT INTO t VALUES (1)")
        later = copy()
        assert server.value(names) == name
        assert tuples(later.rows) == [(1,)]
        with pytest.raises(Exception, match=r"PGOUTPUT_COPY_INTERRUPTED.*has ended"):
            rows.collect()


def test_a_task_reads_no_other_table_that_has_got_the_name(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    """A session waits to swap two tables, and the connection that holds the snapshot is lost."""
    server.execute(
        "CREATE TABLE kept (k int); INSERT INTO kept VALUES (1);"
        "CREATE TABLE other (k int); INSERT INTO other VALUES (2);"
        "ALTER PUBLICATION p ADD TABLE kept"
    )
    swap = "BEGIN; ALTER TABLE kept RENAME TO old; ALTER TABLE other RENAME TO kept; COMMIT"

    def waiting() -> int:
        count: int = server.value("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return count

    with open_copy(spark, client, ["p"], "kept") as copy, ThreadPoolExecutor() as threads:
        rows = copy.rows
        swapped = threads.submit(server.execute, swap)
        wait_until(lambda: waiting() == 1)
        read = threads.submit(rows.collect)
        wait_until(lambda: waiting() == 2)
        server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {HOLDER}")
        with pytest.raises(Exception, match=r"PGOUTPUT_COPY_INTERRUPTED.*renamed during"):
            read.result(60)
        swapped.result(60)


@pytest.mark.lake
def test_a_copy_ends_if_a_statement_waits_for_its_lock(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    server.execute("CREATE TABLE wanted (k int); INSERT INTO wanted VALUES (1)")
    server.execute("ALTER PUBLICATION p ADD TABLE wanted")
    truncation = threading.Thread(target=lambda: server.execute("TRUNCATE wanted"))
    with open_copy(spark, client, ["p"], "wanted") as copy:
        truncation.start()
        wait_until(lambda: server.execute("SELECT 1 FROM pg_locks WHERE NOT granted"))
        with pytest.raises(Exception, match=r"PGOUTPUT_COPY_INTERRUPTED.*releases its locks"):
            copy.rows.collect()
    truncation.join(10)
    assert not truncation.is_alive()


def test_a_copy_ignores_time_limits_of_the_role_and_refuses_a_row_policy(
    spark: SparkSession, server: Server
) -> None:
    server.execute(
        "CREATE ROLE short LOGIN REPLICATION PASSWORD 'x'; GRANT SELECT (k, v) ON wide TO short;"
        "ALTER ROLE short SET statement_timeout = '1s'; ALTER ROLE short SET lock_timeout = '1s';"
        "ALTER ROLE short SET idle_in_transaction_session_timeout = '1s';"
        "ALTER ROLE short SET idle_session_timeout = '1s'"
    )
    if server.version >= 17:
        server.execute("ALTER ROLE short SET transaction_timeout = '1s'")
    with source_client(spark, server) as superuser:
        found = LakeCatalog(superuser).tables("p")["public.wide"]
    with source_client(spark, server, Server.database, "short", "x") as client:
        with open_copy(spark, client, ["p"], "wide", found=found) as copy:
            time.sleep(1.5)
            # A grant on columns does not let the role read the numbers of pages.
            assert copy.rows.rdd.getNumPartitions() == 1
            assert copy.rows.selectExpr("count(v)").collect() == [(40000,)]
        server.execute("ALTER TABLE wide ENABLE ROW LEVEL SECURITY")
        try:
            with (
                fails("PGOUTPUT_CONNECTION", "row-level security policy"),
                open_copy(spark, client, ["p"], "wide", found=found),
            ):
                pass
        finally:
            server.execute("ALTER TABLE wide DISABLE ROW LEVEL SECURITY")


def test_each_type_is_copied_as_it_is_streamed(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    if server.version < NEWEST:
        pytest.skip("the random values need the newest server")
    server.create_slot("types")
    columns = [f"c{number} {kind.name}" for number, kind in enumerate(TYPES)]
    values = [
        " ".join(
            [
                "CASE n",
                *(
                    f"WHEN {place} THEN {literal(text)}::{kind.name}"
                    for place, text in enumerate(kind.extremes)
                ),
                f"WHEN 50 THEN NULL ELSE ({kind.random})::{kind.name} END",
            ]
        )
        for kind in TYPES
    ]
    server.execute(USER_TYPES)
    server.execute(
        f"CREATE TABLE types (k int PRIMARY KEY, {', '.join(columns)});"
        "CREATE PUBLICATION types FOR TABLE types;"
        f"INSERT INTO types SELECT n, {', '.join(values)} FROM generate_series(0, 100) n"
    )

    def assert_same(types: dict[str, str], rows: str) -> None:
        with open_copy(spark, client, ["types"], "types", types) as copy:
            fields = copy.rows.schema.fields
            schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
            streamed = (
                spark.read.format("pgoutput")
                .options(**server.account)
                .options(slot="types", publication="types", tables="types", schema=schema)
                .options(mode="PERMISSIVE")
                .load()
                .where(f"_change_type = 'insert' AND {rows}")
            )
            copied = texts(copy.rows)
            assert len(copied) > 50
            assert copied == texts(streamed.select(*copy.rows.schema.fieldNames()))

    # The extremes do not fit all default types.
    assert_same({f"c{number}": "STRING" for number in range(len(TYPES))}, "true")
    server.execute("DELETE FROM types WHERE k < 30")
    unsigned = [f"c{number}" for number, kind in enumerate(TYPES) if kind.name == "xid8"]
    assert_same(dict.fromkeys(unsigned, "DECIMAL(20,0)"), "k >= 30")


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def texts(rows: DataFrame) -> list[str]:
    return [str(row) for row in rows.orderBy("k").collect()]
