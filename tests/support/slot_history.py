"""A database with a slot, and clients that write all kinds of transactions at random.

Nothing here changes the catalog while another transaction has the table or type open, because what
the server sends for such a transaction depends on what the walsender has seen before.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import psycopg

from support.background import background
from support.servers import Connection, Server, wait_until

SLOT, JUDGE = "lake", "judge"
PUBLICATIONS = "shop,more"

WRITERS = 3
ACCOUNTS = 20
ACCOUNTS_TABLE = "public.accounts"
SUM = ACCOUNTS * 1000

_TABLES = """
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE documents (id bigint PRIMARY KEY, version int NOT NULL, body text, note text);
ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE journal (writer int, number bigint, entry text);
ALTER TABLE journal REPLICA IDENTITY FULL;
CREATE TABLE unpublished (writer int, entry text);
CREATE PUBLICATION shop FOR TABLE accounts, documents;
CREATE PUBLICATION more FOR TABLE journal;
"""
# Only one writer uses each of these tables, so no other transaction has it open.
_TABLES_OF_A_WRITER = """
CREATE TABLE evolving_{writer} (id bigint PRIMARY KEY, first text);
CREATE TABLE emptied_{writer} (id bigint);
ALTER PUBLICATION more ADD TABLE evolving_{writer}, emptied_{writer};
"""


def prepare(server: Server, *, failover: bool = False) -> None:
    """Make the tables, the publications and the two slots, and fill the accounts.

    Nobody moves the second slot. It has the whole history until the end.
    """
    server.execute(_TABLES)
    for writer in range(WRITERS):
        server.execute(_TABLES_OF_A_WRITER.format(writer=writer))
    server.execute("CREATE DATABASE other")
    with server.connect("other") as other:
        other.execute("CREATE TABLE other (writer int, entry text)")
    if failover:
        for slot in (SLOT, JUDGE):
            server.create_slot(slot, ", failover => true")
    else:
        server.create_slot(SLOT)
        server.execute(f"SELECT pg_copy_logical_replication_slot('{SLOT}', '{JUDGE}')")
    server.execute(f"INSERT INTO accounts SELECT i, 1000 FROM generate_series(1, {ACCOUNTS}) AS i")


def writers(server: Server, seed: object, pause: float = 0.2) -> AbstractContextManager[None]:
    """Let clients write until the end of the block. They wait while the server is down."""

    def writer(number: int) -> Callable[[threading.Event], None]:
        return lambda ended: Writer(server, number, seed, pause, ended).run()

    return background(*map(writer, range(WRITERS)))


class Writer:
    """A client that chooses its next transaction by a seed.

    Parameters
    ----------
    server : Server
        The server, prepared by `prepare`.
    number : int
        The number of the writer, from 0.
    seed : object
        The seed of all writers.
    pause : float
        The mean time between two transactions in seconds.
    ended : threading.Event
        Ends the writer.
    """

    def __init__(
        self, server: Server, number: int, seed: object, pause: float, ended: threading.Event
    ) -> None:
        self.number = number
        self._server = server
        self._dice = random.Random(f"{seed} {number}")
        self._pause = pause
        self._ended = ended
        self._next_id = number * 10**12
        self._gid = f"writer {number}"

    def run(self) -> None:
        """Write until the end. It goes on if the server was down."""
        while not self._ended.is_set():
            try:
                with self._server.connect() as connection:
                    # An older backend can still prepare a transaction after `_finish_prepared`.
                    connection.execute("SET lock_timeout = '20s'")
                    self._finish_prepared(connection)
                    while not self._ended.is_set():
                        self._write(connection)
                        time.sleep(self._dice.expovariate(1 / self._pause))
            except (psycopg.OperationalError, psycopg.Rollback):
                time.sleep(0.2)  # The server is down, perhaps during a rollback.
            except psycopg.errors.DuplicateObject:
                time.sleep(0.2)  # An older backend has prepared its transaction only now.

    def _write(self, connection: Connection) -> None:
        actions = {
            self._transfer: 8,
            self._write_little: 6,
            self._write_much: 1,
            self._nest: 4,
            self._roll_back: 2,
            self._roll_back_much: 1,
            self._prepare: 2,
            self._stay_open: 1,
            self._write_elsewhere: 2,
            self._emit: 2,
            self._change_table: 1,
            self._empty_table: 1,
            self._maintain: 1,
            self._idle: 1,
        }
        (action,) = self._dice.choices(list(actions), list(actions.values()))
        with suppress(psycopg.errors.DeadlockDetected):
            action(connection)

    def _transfer(self, connection: Connection) -> None:
        """Move money between accounts. The sum of all balances does not change."""
        with connection.transaction():
            for _ in range(self._dice.randint(1, 4)):
                amount = self._dice.randint(1, 100)
                giver, taker = self._dice.sample(range(1, ACCOUNTS + 1), 2)
                change = "UPDATE accounts SET balance = balance + %s WHERE id = %s"
                connection.execute(change, [-amount, giver])
                connection.execute(change, [amount, taker])

    def _write_little(self, connection: Connection) -> None:
        with connection.transaction():
            self._statements(connection, self._dice.randint(1, 4))

    def _write_much(self, connection: Connection) -> None:
        """Write more than the server keeps in memory for a transaction."""
        with connection.transaction():
            self._insert(connection, self._dice.randint(500, 2000))
            connection.execute(
                "UPDATE journal SET entry = upper(entry) WHERE writer = %s AND number %% 7 = 0",
                [self.number],
            )
            self._delete(connection)

    def _nest(self, connection: Connection, depth: int = 0) -> None:
        """Use savepoints in savepoints, and roll back some of them."""
        with connection.transaction() as savepoint:
            self._statements(connection, self._dice.randint(0, 2))
            for _ in range(self._dice.randint(0, 2) if depth < 3 else 0):
                self._nest(connection, depth + 1)
            self._statements(connection, self._dice.randint(0, 2))
            if depth and self._dice.random() < 0.4:
                raise psycopg.Rollback(savepoint)

    def _roll_back(self, connection: Connection) -> None:
        with connection.transaction(force_rollback=True):
            self._statements(connection, self._dice.randint(1, 5))

    def _roll_back_much(self, connection: Connection) -> None:
        """Roll back a large transaction after a savepoint. PostgreSQL 18 sends a Stream Abort."""
        with connection.transaction(force_rollback=True):
            with connection.transaction():
                self._insert(connection, 5)
            self._insert(connection, self._dice.randint(500, 2000))

    def _prepare(self, connection: Connection) -> None:
        connection.execute("BEGIN")
        self._statements(connection, self._dice.randint(1, 3))
        connection.execute(f"PREPARE TRANSACTION '{self._gid}'".encode())
        time.sleep(self._dice.random() / 4)
        how = self._dice.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        connection.execute(f"{how} PREPARED '{self._gid}'".encode())

    def _finish_prepared(self, connection: Connection) -> None:
        """Commit the prepared transaction that a crash of the server left."""
        if connection.execute(
            "SELECT FROM pg_prepared_xacts WHERE gid = %s", [self._gid]
        ).fetchone():
            connection.execute(f"COMMIT PREPARED '{self._gid}'".encode())

    def _stay_open(self, connection: Connection) -> None:
        """Leave a transaction open while others commit."""
        with connection.transaction():
            self._insert(connection, 2)
            self._ended.wait(self._dice.uniform(0.5, 3))
            self._statements(connection, 2)

    def _write_elsewhere(self, connection: Connection) -> None:
        """Write WAL for which there is no message."""
        entries = self._dice.randint(1, 200)
        with connection.transaction():
            connection.execute(
                "INSERT INTO unpublished SELECT %s, md5(i::text) FROM generate_series(1, %s) AS i",
                [self.number, entries],
            )
        if self._dice.random() < 0.5:
            with self._server.connect("other") as other:
                other.execute(
                    "INSERT INTO other SELECT %s, md5(i::text) FROM generate_series(1, %s) AS i",
                    [self.number, entries],
                )

    def _emit(self, connection: Connection) -> None:
        with connection.transaction():
            transactional = self._dice.random() < 0.5
            connection.execute(
                "SELECT pg_logical_emit_message(%s, 'writer', 'hello')", [transactional]
            )
            self._statements(connection, self._dice.randint(0, 1))

    def _change_table(self, connection: Connection) -> None:
        """Change the writer's own table in the middle of a transaction that writes to it."""
        table = f"evolving_{self.number}"
        column = f"c{self._dice.randint(1, 5)}"
        with connection.transaction():
            connection.execute(
                f"INSERT INTO {table} (id, first) VALUES (%s, 'before')".encode(), [self._id()]
            )
            change = self._dice.choice(["ADD COLUMN IF NOT EXISTS", "DROP COLUMN IF EXISTS"])
            kind = self._dice.choice(["int", "text", "numeric DEFAULT 1.5"])
            kind = kind if change.startswith("ADD") else ""
            connection.execute(f"ALTER TABLE {table} {change} {column} {kind}".encode())
            identity = self._dice.choice(["DEFAULT", "FULL"])
            connection.execute(f"ALTER TABLE {table} REPLICA IDENTITY {identity}".encode())
            connection.execute(f"INSERT INTO {table} (id) VALUES (%s)".encode(), [self._id()])
            connection.execute(f"UPDATE {table} SET first = 'after' WHERE id % 3 = 0".encode())
            connection.execute(f"DELETE FROM {table} WHERE id % 5 = 0".encode())

    def _empty_table(self, connection: Connection) -> None:
        table = f"emptied_{self.number}"
        insert = f"INSERT INTO {table} SELECT generate_series(1, 3)".encode()
        with connection.transaction():
            connection.execute(insert)
            connection.execute(f"TRUNCATE {table}".encode())
            connection.execute(insert)

    def _maintain(self, connection: Connection) -> None:
        statements = ["CHECKPOINT", "VACUUM documents", "SELECT pg_switch_wal()"]
        (statement,) = self._dice.choices(statements, [4, 4, 1])
        connection.execute(statement.encode())

    def _idle(self, connection: Connection) -> None:
        self._ended.wait(self._dice.uniform(0.1, 1.5))

    def _statements(self, connection: Connection, number: int) -> None:
        for _ in range(number):
            (what,) = self._dice.choices([self._insert, self._update, self._delete], [4, 4, 1])
            what(connection)

    def _insert(self, connection: Connection, rows: int = 1) -> None:
        first = self._id(rows)
        numbers = f"generate_series({first}, {first + rows - 1}) AS i".encode()
        if rows > 5 or self._dice.random() < 0.5:
            statement = b"INSERT INTO journal SELECT %s, i, repeat(md5(i::text), 4) FROM " + numbers
            connection.execute(statement, [self.number])
        else:
            length = self._dice.choice([1, 10, 200])
            statement = b"INSERT INTO documents SELECT i, 1, repeat(md5(i::text), %s), NULL FROM "
            connection.execute(statement + numbers, [length])

    def _update(self, connection: Connection) -> None:
        """Update some of the writer's own documents. Their bodies are TOASTed values."""
        first = self.number * 10**12
        modulus = self._dice.randint(5, 50)
        what = self._dice.choice(["version = version + 1", "note = 'é€😀'", "body = md5(body)"])
        connection.execute(
            f"UPDATE documents SET {what} WHERE id BETWEEN %s AND %s AND id %% {modulus} = 0"
            .encode(),
            [first, first + 10**12 - 1],
        )  # fmt: skip

    def _delete(self, connection: Connection) -> None:
        """Delete most of the writer's own rows, so that the tables stay small."""
        keep = self._dice.randint(2, 20)
        if self._dice.random() < 0.7:
            connection.execute(
                f"DELETE FROM journal WHERE writer = %s AND number %% {keep} <> 0".encode(),
                [self.number],
            )
        else:
            first = self.number * 10**12
            connection.execute(
                f"DELETE FROM documents WHERE id BETWEEN %s AND %s AND id %% {keep} <> 0".encode(),
                [first, first + 10**12 - 1],
            )

    def _id(self, rows: int = 1) -> int:
        first = self._next_id
        self._next_id += rows
        return first


def wait_for_slot(server: Server) -> None:
    """Wait until nobody reads the slot."""
    free = f"SELECT NOT active FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
    wait_until(lambda: server.value(free))
