"""The changes that a real server sends make the tables that it holds.

The reader of its slot is cut off again and again while many clients write.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import psycopg
import pyarrow as pa
import pyarrow.parquet
import pytest
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_pgoutput import changes, open_transactions
from spark_pgoutput.demo.server import PostgresServer
from support.messages import frame
from support.reference_changes import Change, Row
from support.replay import replay
from support.replication import ReplicationSession, end_lsn
from support.servers import Connection, wait_until
from support.table_changes import first_position, of_one_source, opened

SETUP = """
CREATE TABLE documents (id int PRIMARY KEY, version int NOT NULL, body text STORAGE EXTERNAL);
CREATE TABLE readings (client int, place int, value int, PRIMARY KEY (place, client));
CREATE TABLE journal (client int, number int, entry text);
ALTER TABLE journal REPLICA IDENTITY FULL;
CREATE TABLE drafts (id int PRIMARY KEY, body text STORAGE EXTERNAL);
ALTER TABLE drafts REPLICA IDENTITY FULL;
CREATE TABLE notes (id int PRIMARY KEY, note text);
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT pg_create_logical_replication_slot('reader', 'pgoutput', twophase => true);
INSERT INTO documents
    SELECT id, 1, (SELECT string_agg(md5(i::text), '') FROM generate_series(id, id + 100) AS i)
    FROM generate_series(0, 9) AS id;
INSERT INTO drafts SELECT id, body FROM documents;
INSERT INTO notes SELECT id, 'before' FROM generate_series(1, 300) AS id;
"""

# What the clients do, as scripts of pgbench, and how often. They cannot wait for each other's
# locks.
SMALL = r"""
\set place random(1, 40)
\set value random(1, 1000000)
INSERT INTO readings (client, place, value) VALUES (:client_id, :place, :value)
    ON CONFLICT (client, place) DO UPDATE SET value = excluded.value;
UPDATE readings SET place = -place WHERE client = :client_id AND place = :place - 1
    AND NOT EXISTS (SELECT FROM readings WHERE client = :client_id AND place = 1 - :place);
SELECT pg_logical_emit_message(false, 'clients', 'small');
BEGIN;
UPDATE documents SET version = version + 1 WHERE id = :client_id;
UPDATE documents SET id = CASE WHEN id < 100 THEN id + 100 ELSE id - 100 END
    WHERE id IN (:client_id, :client_id + 100);
SAVEPOINT one;
DELETE FROM readings WHERE client = :client_id AND place < :place;
ROLLBACK TO one;
DELETE FROM readings WHERE client = :client_id AND place = :place + 1;
COMMIT;
"""
LARGE = r"""
\set length random(100, 200)
\set outcome random(1, 4)
BEGIN;
DELETE FROM journal WHERE client = :client_id AND number % 20 <> 0;
INSERT INTO journal (client, number, entry)
    SELECT :client_id, i, repeat(md5(i::text), 12) FROM generate_series(1, :length) AS i;
SELECT pg_logical_emit_message(true, 'clients', 'large');
SAVEPOINT one;
UPDATE journal SET number = number + 1 WHERE client = :client_id AND number % 2 = 0;
\sleep 10 ms
SAVEPOINT two;
UPDATE readings SET value = 0 WHERE client = :client_id;
ROLLBACK TO one;
SAVEPOINT three;
UPDATE readings SET value = value + 1 WHERE client = :client_id;
RELEASE three;
\sleep 10 ms
\if :outcome = 1
ROLLBACK;
\else
COMMIT;
\endif
"""
PREPARED = r"""
\set length random(1, 200)
\set outcome random(1, 4)
BEGIN;
UPDATE readings SET value = value - 1 WHERE client = :client_id;
SAVEPOINT one;
INSERT INTO journal (client, number, entry)
    SELECT :client_id, 1000 + i, repeat(md5(i::text), 12) FROM generate_series(1, :length) AS i;
SAVEPOINT two;
DELETE FROM readings WHERE client = :client_id;
ROLLBACK TO two;
PREPARE TRANSACTION 'client :client_id';
\sleep 20 ms
\if :outcome = 1
ROLLBACK PREPARED 'client :client_id';
\else
COMMIT PREPARED 'client :client_id';
\endif
"""
SCRIPTS = {"small": (SMALL, 6), "large": (LARGE, 2), "prepared": (PREPARED, 2)}
CLIENTS = 3
TRANSACTIONS_PER_SECOND = 30


class Seen(NamedTuple):
    """The types of the messages that a session has read so far."""

    tags: bytes

    @property
    def in_block(self) -> bool:
        return self.tags.rfind(b"S") > self.tags.rfind(b"E")

    @property
    def in_prepared(self) -> bool:
        return self.tags.rfind(b"b") > max(map(self.tags.rfind, (b"P", b"B", b"S")))

    @property
    def in_transaction(self) -> bool:
        return self.tags.rfind(b"B") > max(map(self.tags.rfind, (b"C", b"b", b"S")))


def after_changes(place: Callable[[Seen], bool]) -> Callable[[Seen], bool]:
    return lambda seen: seen.tags[-1:] in b"IUD" and seen.tags[-2:-1] in b"IUD" and place(seen)


# The statements that run right before each session, and where the session is cut off. The prepared
# transactions stay open for several sessions. No statement truncates a table that the clients write
# to, because sometimes the server then ends a session with "could not map filenumber … to relation
# OID".
SESSIONS: list[tuple[Callable[[Seen], bool], str]] = [
    (
        after_changes(lambda seen: seen.in_block),
        """
        BEGIN;
        UPDATE documents SET version = -1 WHERE id = 7;
        DELETE FROM documents WHERE id = 8;
        PREPARE TRANSACTION 'held long';
        """,
    ),
    (
        lambda seen: seen.tags[-1:] in b"Pp",
        """
        ALTER TABLE readings ADD COLUMN note text;
        BEGIN;
        LOCK TABLE readings IN EXCLUSIVE MODE;
        UPDATE readings SET note = 'place ' || place WHERE place % 2 = 0;
        COMMIT;
        """,
    ),
    (
        after_changes(lambda seen: seen.in_prepared),
        """
        BEGIN;
        INSERT INTO drafts SELECT i, repeat(md5(i::text), 20) FROM generate_series(100, 400) AS i;
        SAVEPOINT one;
        DELETE FROM drafts;
        ROLLBACK TO one;
        UPDATE drafts SET id = id + 1000 WHERE id % 3 = 0;
        PREPARE TRANSACTION 'held large';
        """,
    ),
    (
        after_changes(lambda seen: seen.in_block),
        """
        BEGIN;
        UPDATE notes SET note = 'soon gone';
        TRUNCATE notes;
        INSERT INTO notes SELECT id, 'after' FROM generate_series(200, 400) AS id;
        COMMIT;
        BEGIN;
        INSERT INTO documents VALUES (20, 1, 'gone');
        PREPARE TRANSACTION 'held in vain';
        """,
    ),
    (
        after_changes(lambda seen: seen.in_transaction),
        """
        COMMIT PREPARED 'held large';
        ALTER TABLE drafts RENAME TO letters;
        UPDATE letters SET id = -id WHERE id < 10;
        """,
    ),
    (
        after_changes(lambda seen: seen.in_block),
        """
        ROLLBACK PREPARED 'held in vain';
        ALTER TABLE journal ADD COLUMN note text;
        BEGIN;
        LOCK TABLE journal IN EXCLUSIVE MODE;
        UPDATE journal SET note = 'noted' WHERE number % 5 = 0;
        COMMIT;
        """,
    ),
    (
        after_changes(lambda seen: seen.in_prepared),
        """
        BEGIN;
        DELETE FROM letters WHERE id % 4 = 0;
        TRUNCATE notes;
        INSERT INTO documents SELECT 1000 + id, 1, body FROM letters;
        ROLLBACK;
        """,
    ),
]
RENAMED = {"public.drafts": "public.letters"}

LAST_MESSAGE = "that is all"

pytestmark = pytest.mark.takes_long


class History(NamedTuple):
    """The messages that the reader stored, and what they should make.

    `tables` are those of the server. It has rolled back the transactions `rolled_back`.
    """

    messages: list[bytes]
    session_ends: list[int]
    tables: dict[str, list[Row]]
    rolled_back: set[int]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with (
        PostgresServer() as server,
        psycopg.connect(server.conninfo, autocommit=True) as connection,
    ):
        run(connection, SETUP)
        messages: list[bytes] = []
        ends: list[int] = []
        with clients(server, connection, tmp_path_factory.mktemp("scripts")):
            for number, (cut, statements) in enumerate(SESSIONS):
                run(connection, statements)
                messages += session(server, connection, number, cut)
                ends.append(len(messages))
        for (gid,) in connection.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            connection.execute(sql.SQL("COMMIT PREPARED {}").format(gid))
        run(connection, f"SELECT pg_logical_emit_message(false, 'reader', '{LAST_MESSAGE}');")
        messages += session(server, connection, len(SESSIONS), None)
        streamed = {int.from_bytes(data[1:5], "big") for data in messages if data[:1] == b"S"}
        rolled_back = connection.execute(
            "SELECT array_agg(xid) FROM unnest(%s::bigint[]) AS xid "
            "WHERE pg_xact_status(xid::text::xid8) = 'aborted'",
            [list(streamed)],
        ).fetchone()
        assert rolled_back is not None
        yield History(messages, ends, tables_of(connection), set(rolled_back[0] or ()))


def run(connection: Connection, statements: str) -> None:
    """Run the statements one by one, because some cannot be in a transaction with others."""
    for statement in statements.split(";\n"):
        if statement.strip():
            connection.execute(statement.encode())


@contextmanager
def clients(server: PostgresServer, connection: Connection, folder: Path) -> Iterator[None]:
    """Let clients write until they are killed in the middle of it."""
    command = [str(server.bin / "pgbench"), "--no-vacuum", "--time=300", "--random-seed=7"]
    command += [f"--client={CLIENTS}", f"--rate={TRANSACTIONS_PER_SECOND}"]
    for name, (script, weight) in SCRIPTS.items():
        (folder / name).write_text(script)
        command.append(f"--file={folder / name}@{weight}")
    command += [f"--host={server.host}", f"--port={server.port}", f"--username={server.user}"]
    command.append(server.database)
    with subprocess.Popen(
        command,
        env={**os.environ, "PGPASSWORD": server.password},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as pgbench:
        try:
            yield
            assert pgbench.poll() is None
        finally:
            pgbench.kill()
        assert pgbench.stderr
        assert "ERROR" not in pgbench.stderr.read()
    wait_for(
        connection,
        "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'pgbench')",
    )


def wait_for(connection: Connection, query: str) -> None:
    wait_until(lambda: connection.execute(query.encode()).fetchone() == (True,), 20)


def session(
    server: PostgresServer,
    connection: Connection,
    number: int,
    cut: Callable[[Seen], bool] | None,
) -> list[bytes]:
    """Read in one session. It confirms some of it, and the next one reads the rest again."""
    wait_for(connection, "SELECT NOT active FROM pg_replication_slots")
    options = {
        "proto_version": "4",
        "publication_names": "everything",
        "messages": "true",
        "streaming": ("on", "parallel")[number % 2],
        "two_phase": "true",
    }
    messages: list[bytes] = []
    tags = bytearray()
    dice = random.Random(number)
    # After this time, the session has caught up and reads transactions while they run.
    earliest = time.monotonic() + 0.8
    with ReplicationSession(server.conninfo, "reader", options) as reader:
        for message in reader:
            messages.append(message)
            tags += message[:1]
            lsn = end_lsn(message)
            if lsn is not None and message[:1] not in b"Pp" and dice.random() < 0.2:
                reader.confirm(lsn)
            if cut is None:
                if message.endswith(LAST_MESSAGE.encode()):
                    return messages
            elif time.monotonic() > earliest and cut(Seen(bytes(tags[-2000:]))):
                # Most readers end. For the others, the server ends the session, and they store all
                # that it has sent.
                if number % 3 > 0:
                    return messages
                connection.execute("SELECT pg_terminate_backend(%s)", [reader.server_process])
                cut = lambda _: False  # noqa: E731
    return messages


def tables_of(connection: Connection) -> dict[str, list[Row]]:
    """Return the rows of the published tables as text."""
    tables = {}
    columns = connection.execute(
        "SELECT table_schema, table_name, array_agg(column_name::text ORDER BY ordinal_position) "
        "FROM information_schema.columns JOIN pg_publication_tables "
        "ON (schemaname, tablename) = (table_schema, table_name) GROUP BY 1, 2"
    )
    for schema, table, names in columns.fetchall():
        texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(n)) for n in names)
        query = sql.SQL("SELECT {} FROM {}").format(texts, sql.Identifier(schema, table))
        tables[f"{schema}.{table}"] = [
            dict(zip(names, row, strict=True)) for row in connection.execute(query)
        ]
    return tables


def rebuilt(found: Sequence[Change], history: History) -> dict[str, list[Row]]:
    """Return the tables with their last names and their last columns."""

    def with_last_names(change: Change) -> Change:
        table = RENAMED.get(change.table, change.table)
        if change.row is None:
            return replace(change, table=table)
        # A column that the table did not have yet is NULL.
        columns = [name for name in history.tables[table][0] if name not in change.missing]
        return replace(change, table=table, row={**dict.fromkeys(columns), **change.row})

    return replay(map(with_last_names, found))


def assert_same_tables(found: Sequence[Change], history: History) -> None:
    tables = rebuilt(found, history)
    assert set(tables) == set(history.tables)
    for name, rows in history.tables.items():
        assert in_order(tables[name]) == in_order(rows), name


def in_order(rows: Sequence[Row]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


@pytest.fixture(scope="module")
def messages(spark: SparkSession, history: History) -> DataFrame:
    return frame(spark, history.messages)


def test_the_sessions_were_cut_off_inside_transactions(history: History) -> None:
    stored = history.messages
    tags = b"".join(message[:1] for message in stored)
    assert set(tags) >= set(b"BCRIUDTMSEcAbPKrp")
    sessions = [Seen(tags[:end]) for end in history.session_ends]
    assert any(seen.in_block for seen in sessions)
    assert any(seen.in_prepared for seen in sessions)
    for ends in b"Cc", b"Pp":
        transactions = [message for message in stored if message[:1] in ends]
        assert len(set(transactions)) < len(transactions)  # the server sent some again


def test_replayed_changes_make_the_tables_of_the_server(
    messages: DataFrame, history: History
) -> None:
    found = of_one_source(changes(messages, "seq"))
    assert {"public.drafts", "public.letters"} <= {change.table for change in found}
    assert any("body" in change.missing for change in found)
    assert_same_tables(found, history)

    left_open = opened(open_transactions(messages, "seq"))
    assert {transaction.state for transaction in left_open} <= {"streaming"}
    assert {transaction.xid for transaction in left_open} <= history.rolled_back


def test_reads_that_continue_each_other_make_the_tables(
    spark: SparkSession, messages: DataFrame, history: History
) -> None:
    """A read ends with a session or in the middle of one."""
    size = len(history.messages)
    dice = random.Random(1)
    ends = sorted({*history.session_ends[1::2], *dice.sample(range(size), 2), size})
    start, greatest, states = 0, None, set()
    found: list[Change] = []
    for end in ends:
        messages.filter(F.col("seq") < start).createOrReplaceTempView("read_before")
        read = messages.filter(F.col("seq").between(start, end - 1))
        options = {"relations": "read_before"}
        if greatest is not None:
            options["after"] = str(greatest)
        found += of_one_source(changes(read, "seq", options=options))
        greatest = max((change.commit_version for change in found), default=None)
        left_open = opened(open_transactions(read, "seq", options=options))
        states |= {transaction.state for transaction in left_open}
        start = min(map(first_position, left_open), default=end)
    spark.catalog.dropTempView("read_before")
    assert {"streaming", "prepared"} <= states
    assert_same_tables(found, history)


def test_a_stream_makes_the_tables_of_the_server(
    spark: SparkSession, history: History, tmp_path: Path
) -> None:
    """The messages come in two files, and the query starts again for the second one."""
    (tmp_path / "input").mkdir()
    stream = spark.readStream.schema("seq BIGINT, data BINARY").parquet(str(tmp_path / "input"))
    start = 0
    for end in [history.session_ends[3], len(history.messages)]:
        table = {"seq": list(range(start, end)), "data": history.messages[start:end]}
        pyarrow.parquet.write_table(pa.table(table), tmp_path / "input" / f"{end}.parquet")
        query = (
            changes(stream, "seq")
            .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "changes"))
        )
        query.awaitTermination()
        start = end
    assert_same_tables(of_one_source(spark.read.parquet(str(tmp_path / "changes"))), history)
