"""Tables of a server, and what writes into them."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from benchmarks.jobs import PUBLICATION, end
from spark_pgoutput.demo.server import PostgresServer

# A type of a column, and its value in the row of an id. Each table begins with the first one.
_TYPES = (
    ("int", "(id % 1000)::int"),
    ("text", "'order note ' || md5(id::text)"),
    ("numeric(12, 2)", "id % 1000000 / 100.0"),
    ("timestamp", "timestamp '2024-01-01' + id % 1000000 * interval '1 s'"),
    ("boolean", "id % 3 = 0"),
    ("text", "(ARRAY['new', 'paid', 'shipped', 'returned'])[(1 + id % 4)::int]"),
    ("float8", "sqrt(id)"),
)
COLUMNS = 9

# The server sorts a table of so many rows in an instant. In a larger one, a condition can meet
# fewer rows than it asks for, because some are deleted.
_MOST_SORTED = 10_000

# The server has the settings of PostgreSQL, but for what a machine of this size gets, and fsync.
SETTINGS = {
    "max_wal_size": "8GB",
    "shared_buffers": "512MB",
    "max_connections": "50",
    "logical_decoding_work_mem": "64MB",
}
_CLIENTS = 8


class Table(NamedTuple):
    """A table: its name, the numbers of its columns and rows, and the type of its key."""

    name: str
    rows: int
    columns: int = COLUMNS
    key: str = "bigint"

    @property
    def _key(self) -> str:
        return "md5(id::text)::uuid" if self.key == "uuid" else "id"

    def insert(self, ids: str) -> str:
        """Return the statement that inserts rows. The ids are a table with a column `id`."""
        types = [_TYPES[number % len(_TYPES)] for number in range(self.columns - 2)]
        values = ", ".join([self._key, "clock_timestamp()", *(value for _, value in types)])
        return f"INSERT INTO {self.name} SELECT {values} FROM {ids}"

    def update(self, where: str) -> str:
        """Return the statement that updates rows."""
        return f"UPDATE {self.name} SET c2 = c2 + 1, written = clock_timestamp() WHERE {where}"

    def some(self, count: int) -> str:
        """Return the condition that so many rows meet, which are anywhere in the table."""
        if self.rows <= _MOST_SORTED:
            return f"id IN (SELECT id FROM {self.name} ORDER BY random() LIMIT {count})"
        ids = f"SELECT ceil(random() * {self.rows})::bigint AS id FROM generate_series(1, {count})"
        return f"id IN (SELECT {self._key} FROM ({ids}) AS ids)"

    def create(self) -> str:
        """Return the statement that makes the table."""
        types = [_TYPES[number % len(_TYPES)][0] for number in range(self.columns - 2)]
        others = "".join(f", c{number} {kind}" for number, kind in enumerate(types, 2))
        return (
            f"CREATE TABLE {self.name} (id {self.key} PRIMARY KEY, "
            f"written timestamptz NOT NULL DEFAULT clock_timestamp(){others})"
        )


def make(server: PostgresServer, tables: Sequence[Table]) -> None:
    """Make the tables with their rows, and the publication of them."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        for table in tables:
            connection.execute(table.create().encode())
            connection.execute(table.insert(f"generate_series(1, {table.rows}) AS id").encode())
        connection.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES".encode())
        connection.execute("CREATE SEQUENCE ids START 1000000000")
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


@contextmanager
def pgbench(
    server: PostgresServer, tables: Sequence[Table], rate: int, folder: Path
) -> Iterator[int]:
    """Change a row in each transaction, so many a second, and give the process id of pgbench.

    Of four transactions, three update a row anywhere in a table, and one inserts a row.
    """
    scripts: list[str] = []
    for table in tables:
        update = f"\\set id random(1, {table.rows})\n{table.update('id = :id')};\n"
        insert = f"{table.insert('''(SELECT nextval('ids') AS id)''')};\n"
        for kind, text, weight in (("update", update, 3), ("insert", insert, 1)):
            script = folder / f"{kind}_{table.name}.sql"
            script.write_text(text)
            scripts += ["--file", f"{script}@{weight}"]
    command = [
        *(str(server.bin / "pgbench"), "--no-vacuum", "--protocol=prepared"),
        *(f"--rate={rate}", f"--client={_CLIENTS}", "--time=1000000", *scripts),
        *("--host", server.host, "--port", str(server.port), "--username", server.user),
        server.database,
    ]
    environment = {**os.environ, "PGPASSWORD": server.password}
    with (folder / "pgbench.txt").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process.pid
        assert process.poll() is None, (folder / "pgbench.txt").read_text()
    finally:
        end(process)


def transactions(server: PostgresServer) -> int:
    """Return how many transactions the server has given an xid. It counts also those that wait."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        row = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
        assert row
        return int(row[0])


class Write(NamedTuple):
    """A transaction.

    Attributes
    ----------
    table : str
        The table that it changed.
    written : float
        Its greatest `written`, in seconds since 1970.
    committed : float
        When it was committed, in seconds since 1970.
    lsn : int
        An LSN in it. Its commit has a greater one.
    """

    table: str
    written: float
    committed: float
    lsn: int


class Writer(threading.Thread):
    """Writes into tables at regular times. All tables get their transactions at the same time.

    Parameters
    ----------
    changes : int
        The changes of each transaction: half updates, then inserts, then deletes. If it is 1, the
        change is an insert.
    every : float
        The seconds between transactions of a table.
    """

    def __init__(
        self, server: PostgresServer, tables: Sequence[Table], changes: int, every: float
    ) -> None:
        super().__init__(daemon=True)
        self._server, self._tables, self._changes, self._every = server, tables, changes, every
        self._done = threading.Event()
        self.writes: list[Write] = []

    def run(self) -> None:
        """Write until `stop` is called."""
        with psycopg.connect(self._server.conninfo) as connection:
            begin, number = time.monotonic(), 0
            while not self._done.wait(max(0.0, begin + number * self._every - time.monotonic())):
                for table in self._tables:
                    written, lsn = self._write(connection, table)
                    connection.commit()
                    self.writes.append(Write(table.name, written, time.time(), lsn))
                number += 1

    def stop(self) -> None:
        """End the writes."""
        self._done.set()
        self.join()

    def _write(self, connection: psycopg.Connection, table: Table) -> tuple[float, int]:
        updates = self._changes // 2
        deletes = self._changes // 5
        inserts = self._changes - updates - deletes
        ids = f"(SELECT nextval('ids') AS id FROM generate_series(1, {inserts}))"
        if deletes:
            connection.execute(f"DELETE FROM {table.name} WHERE {table.some(deletes)}".encode())
        if updates:
            connection.execute(table.update(table.some(updates)).encode())
        # The last statement has the greatest time.
        returned = "extract(epoch FROM written), pg_current_wal_insert_lsn() - '0/0'"
        rows = connection.execute(f"{table.insert(ids)} RETURNING {returned}".encode()).fetchall()
        return max(float(row[0]) for row in rows), max(int(row[1]) for row in rows)
