"""Tables of each kind, and random transactions on them."""

from __future__ import annotations

import random
import string
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import psycopg

from support.background import background
from support.servers import Connection, Server

PUBLICATION = "shop"

# A large value is stored out of line, so that an update of another column does not send it.
SETUP = f"""
CREATE TABLE orders (
  id bigint PRIMARY KEY, status text, price numeric(12,2), paid timestamptz, flag boolean,
  note text, tags int[], ratio float8
);
CREATE TABLE "Order lines" (a int, "b ``x" text, "größe" text, note text, PRIMARY KEY (a, "b ``x"));
CREATE TABLE seats (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, guest text, note text);
ALTER TABLE seats REPLICA IDENTITY FULL;
CREATE TABLE readings (x int, y text, f float8, note text);
ALTER TABLE readings REPLICA IDENTITY FULL;
CREATE TABLE events (x int, y text);
ALTER TABLE events REPLICA IDENTITY NOTHING;
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
ALTER TABLE "Order lines" ALTER note SET STORAGE EXTERNAL;
ALTER TABLE seats ALTER note SET STORAGE EXTERNAL;
INSERT INTO orders SELECT g, 's' || g % 5, g / 7.0,
  '2026-01-01 UTC'::timestamptz + g * interval '1 s', g % 2 = 0,
  CASE WHEN g % 3 > 0 THEN repeat(md5(g::text), 80) END, ARRAY[g, NULL, 2], g / 3.0
  FROM generate_series(1, 1000) g;
INSERT INTO "Order lines" SELECT g, 'k' || g % 7, 'v', repeat(md5(g::text), 80)
  FROM generate_series(1, 300) g;
INSERT INTO seats SELECT g, 'v' || g, repeat(md5(g::text), 80) FROM generate_series(1, 200) g;
INSERT INTO readings SELECT g % 50, 'y' || g % 3,
  CASE WHEN g % 5 = 0 THEN 'NaN'::float8 ELSE g % 2 END, CASE WHEN g % 2 = 0 THEN 'z' END
  FROM generate_series(1, 300) g;
INSERT INTO events SELECT g % 20, 'y' FROM generate_series(1, 100) g;
CREATE PUBLICATION {PUBLICATION} FOR TABLE orders, "Order lines", seats, readings, events;
"""

# The tables of the target, by the tables of the server.
TABLES = {
    "orders": "orders",
    "Order lines": "order_lines",
    "seats": "seats",
    "readings": "readings",
    "events": "events",
}
NAMES = {"public.Order lines": "order_lines"}

# What is truncated, and how often: the weights of `History`.
TRUNCATED = dict.fromkeys(
    ["orders", '"Order lines"', "readings", "events", "orders, readings", "seats"], 0.05
)


# The server refuses a key that exists, a TRUNCATE before the deferred checks of the transaction,
# and a row that fits no partition.
_REFUSALS = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.ObjectInUse,
    psycopg.errors.CheckViolation,
)


class History:
    """Random transactions, with savepoints that are rolled back, on all tables.

    Parameters
    ----------
    server : Server
        A server on which SETUP ran.
    seed : int
        The seed. The same seed gives the same statements.
    truncated : mapping of str to float
        The tables that are truncated, as TRUNCATE names them, with the weights of these changes.
        The weights of all changes add up to about 100.
    others : callable, optional
        Makes a change of other tables. It takes a random generator and a function that executes a
        statement.
    """

    def __init__(
        self,
        server: Server,
        seed: int,
        truncated: Mapping[str, float] = TRUNCATED,
        others: Callable[[random.Random, Callable[..., object]], None] | None = None,
    ) -> None:
        self._server = server
        self._truncated = truncated
        self._others = others
        self._random = random.Random(seed)
        self._number = 0
        #: How many transactions the server has committed.
        self.commits = 0

    def run(self, transactions: int) -> None:
        """Run transactions, one after the other."""
        with psycopg.connect(self._server.conninfo) as connection:
            for _ in range(transactions):
                self._transaction(connection)

    def run_until(self, ended: threading.Event, pause: float = 0.05) -> None:
        """Run transactions until an event is set. They wait while the server is down."""
        while not ended.wait(pause):
            try:
                with psycopg.connect(self._server.conninfo) as connection:
                    while not ended.wait(pause):
                        self._transaction(connection)
            except psycopg.OperationalError as error:
                if not _passes(error):
                    raise

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run transactions in another thread until the end of a block. At least one must commit."""
        before = self.commits
        with background(self.run_until):
            yield
        assert self.commits > before, "nothing was written"

    def _transaction(self, connection: Connection) -> None:
        self._number += 1
        try:
            with connection.transaction():
                for _ in range(self._random.choice([1, 1, 3, 10, 30])):
                    self._savepoint(connection)
                if self._random.random() < 0.05:
                    raise _RolledBackError
        except (psycopg.errors.UniqueViolation, _RolledBackError):
            return  # a deferred key is checked at the end
        self.commits += 1

    def _savepoint(self, connection: Connection) -> None:
        try:
            with connection.transaction():
                weights = [weight for weight, _ in self._changes]
                change = self._random.choices([c for _, c in self._changes], weights)[0]
                change(connection.execute)
                if self._random.random() < 0.03:
                    raise _RolledBackError
        except (*_REFUSALS, _RolledBackError):
            pass

    @property
    def _changes(self) -> list[tuple[float, Callable[..., None]]]:
        return [
            (18, self._insert_order),
            (22, self._update_orders),
            (5, self._update_note),
            (7, self._delete_order),
            (8, self._move_order),
            (3, self._move_in_a_chain),
            (3, self._swap_orders),
            (10, self._change_lines),
            (8, self._change_seats),
            (10, self._change_readings),
            (3, self._insert_event),
            (sum(self._truncated.values()), self._truncate),
            (25 if self._others else 0, self._change_others),
        ]

    def _id(self, most: int = 1300) -> int:
        return self._random.randint(1, most)

    def _note(self) -> str | None:
        long = "".join(self._random.choices(string.ascii_letters, k=8)) * 400
        return self._random.choice([None, "short", long])

    def _insert_order(self, execute: Callable[..., object]) -> None:
        ratio = self._random.choice([None, float("nan"), float("inf"), -0.0, 1 / 3])
        execute(
            "INSERT INTO orders VALUES (%s, %s, %s, now(), %s, %s, %s, %s)"
            " ON CONFLICT (id) DO UPDATE SET note = excluded.note",
            [
                *(self._id(), f"i{self._number}", self._random.randrange(10**6) / 100),
                *(self._random.choice([True, False, None]), self._note()),
                *([self._random.randrange(9), None], ratio),
            ],
        )

    def _update_orders(self, execute: Callable[..., object]) -> None:
        low = self._id()
        high = low + self._random.randrange(5)
        execute(
            "UPDATE orders SET price = price + 1, status = %s WHERE id BETWEEN %s AND %s",
            [f"u{self._number}", low, high],
        )

    def _update_note(self, execute: Callable[..., object]) -> None:
        execute("UPDATE orders SET note = %s WHERE id = %s", [self._note(), self._id()])

    def _delete_order(self, execute: Callable[..., object]) -> None:
        execute("DELETE FROM orders WHERE id = %s", [self._id()])

    def _move_order(self, execute: Callable[..., object]) -> None:
        execute("UPDATE orders SET id = %s WHERE id = %s", [self._id(), self._id()])

    def _move_in_a_chain(self, execute: Callable[..., object]) -> None:
        low = self._id()
        for id_ in range(low, low + 4):
            new = id_ + 10000 if id_ % 2 else id_ + 1
            execute("UPDATE orders SET id = %s WHERE id = %s", [new, id_])

    def _swap_orders(self, execute: Callable[..., object]) -> None:
        one = self._id()
        for new, old in ((-1, one), (one, one + 1), (one + 1, -1)):
            execute("UPDATE orders SET id = %s WHERE id = %s", [new, old])

    def _change_lines(self, execute: Callable[..., object]) -> None:
        a, b = self._id(330), f"k{self._random.randrange(7)}"
        table, key = '"Order lines"', '"b ``x"'
        kind = self._random.randrange(3)
        if kind == 0:
            execute(
                f'UPDATE {table} SET {key} = %s, "größe" = %s WHERE a = %s',
                [b, f"m{self._number}", a],
            )
        elif kind == 1:
            execute(f"INSERT INTO {table} VALUES (%s, %s, 'i', %s)", [a, b, self._note()])
        else:
            execute(f"DELETE FROM {table} WHERE a = %s", [a])

    def _change_seats(self, execute: Callable[..., object]) -> None:
        kind = self._random.randrange(3)
        if kind == 0:
            one, two = self._random.sample(range(1, 201), 2)
            execute("UPDATE seats SET id = %s - id WHERE id IN (%s, %s)", [one + two, one, two])
        elif kind == 1:
            execute(
                "UPDATE seats SET guest = %s WHERE id = %s", [f"u{self._number}", self._id(200)]
            )
        else:
            execute("DELETE FROM seats WHERE id = %s", [self._id(200)])
            execute("INSERT INTO seats VALUES (%s, 'i', %s)", [self._id(220), self._note()])

    def _change_readings(self, execute: Callable[..., object]) -> None:
        x = self._random.randrange(50)
        some = "ctid IN (SELECT ctid FROM readings WHERE x = %s LIMIT 2)"
        kind = self._random.randrange(3)
        if kind == 0:
            y = self._random.choice([None, "y1"])
            f = self._random.choice([None, float("nan"), 0.5])
            execute("INSERT INTO readings VALUES (%s, %s, %s, %s)", [x, y, f, self._note()])
        elif kind == 1:
            execute(f"UPDATE readings SET y = %s WHERE {some}", [f"u{self._number % 3}", x])
        else:
            execute(f"DELETE FROM readings WHERE {some}", [x])

    def _insert_event(self, execute: Callable[..., object]) -> None:
        execute("INSERT INTO events VALUES (%s, 'i')", [self._random.randrange(20)])

    def _truncate(self, execute: Callable[..., object]) -> None:
        (tables,) = self._random.choices(list(self._truncated), list(self._truncated.values()))
        execute(f"TRUNCATE {tables}")

    def _change_others(self, execute: Callable[..., object]) -> None:
        if self._others:
            self._others(self._random, execute)


class _RolledBackError(Exception):
    """Rolls a transaction or a savepoint back."""


def _passes(error: psycopg.OperationalError) -> bool:
    """Return whether an error means that the server ends or is down, or is a deadlock."""
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P", "40P01"))
