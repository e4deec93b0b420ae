"""Random changes of the schema, which a job follows or for which it copies a table again."""

from __future__ import annotations

import random
from collections.abc import Sequence

import psycopg

from support import lake_history
from support.servers import Server

# The server refuses updates of a table without a replica identity.
ALTERED = ("orders", "Order lines", "seats", "readings")
_MOST_TABLES = 4


class SchemaChanges:
    """Changes the tables of `lake_history.SETUP`, and adds others.

    It touches only the columns that it has added, so that a `History` can go on at the same time.

    Parameters
    ----------
    server : Server
        A server on which SETUP ran.
    dice : random.Random
        Chooses what is changed.
    altered : sequence of str
        The tables to which columns are added.
    """

    def __init__(
        self, server: Server, dice: random.Random, altered: Sequence[str] = ALTERED
    ) -> None:
        self._server = server
        self._dice = dice
        self._altered = altered
        self._number = 0
        self._columns: dict[tuple[str, str], str] = {}  # the type, by the table and the column
        #: The tables of the target, by those of the server.
        self.tables = dict(lake_history.TABLES)

    def make_one(self) -> str:
        """Change something, write to it, and return the statement."""
        self._number += 1
        changes = [self._add, self._add, self._add_with_default, self._vacuum]
        if self._columns:
            changes += [self._rename, self._drop, self._change_type, self._rewrite, self._double]
        if len(self.tables) < len(lake_history.TABLES) + _MOST_TABLES:
            changes.append(self._add_table)
        statement = self._dice.choice(changes)()
        self._execute(statement)
        for (table, column), data_type in self._columns.items():
            some = f"hashtext(ctid::text) % {self._dice.randint(2, 9)} = 0"
            self._execute(
                f'UPDATE "{table}" SET "{column}" = {self._number}::{data_type} WHERE {some}'
            )
        for table in self.tables.keys() - lake_history.TABLES.keys():
            self._execute(
                f"UPDATE {table} SET v = 'u{self._number}' WHERE id % 3 = {self._number % 3};"
                f"INSERT INTO {table} SELECT max(id) + 1 FROM {table}"
            )
        return statement

    def _add(self, default: str = "") -> str:
        table, column = self._dice.choice(self._altered), f"added {self._number}"
        self._columns[table, column] = "int"
        return f'ALTER TABLE "{table}" ADD COLUMN "{column}" int{default}'

    def _add_with_default(self) -> str:
        return self._add(f" DEFAULT {self._number}")

    def _rename(self) -> str:
        (table, column), data_type = self._choose()
        new = f"renamed {self._number}"
        del self._columns[table, column]
        self._columns[table, new] = data_type
        return f'ALTER TABLE "{table}" RENAME "{column}" TO "{new}"'

    def _drop(self) -> str:
        (table, column), _ = self._choose()
        del self._columns[table, column]
        return f'ALTER TABLE "{table}" DROP COLUMN "{column}"'

    def _change_type(self) -> str:
        (table, column), data_type = self._choose()
        new = {"int": "bigint"}.get(data_type, "text")
        self._columns[table, column] = new
        return f'ALTER TABLE "{table}" ALTER "{column}" TYPE {new}'

    def _rewrite(self) -> str:
        (table, column), data_type = self._choose()
        return (
            f'ALTER TABLE "{table}" ALTER "{column}" TYPE {data_type} '
            f'USING ({self._number}::text || length("{column}"::text))::{data_type}'
        )

    def _double(self) -> str:
        """Change a type and all values: an int to a bigint, or another type to an int."""
        (table, column), data_type = self._choose()
        new, value = {
            "int": ("bigint", f'"{column}" * 2'),
            "bigint": ("int", f'"{column}" % 1000'),
        }.get(data_type, ("int", f'length("{column}")'))
        self._columns[table, column] = new
        return f'ALTER TABLE "{table}" ALTER "{column}" TYPE {new} USING ({value})::{new}'

    def _vacuum(self) -> str:
        return f'VACUUM FULL "{self._dice.choice(self._altered)}"'

    def _add_table(self) -> str:
        name = f"added_{self._number}"
        self._execute(
            f"CREATE TABLE {name} (id int PRIMARY KEY, v text);"
            f"INSERT INTO {name} SELECT g, 'a' FROM generate_series(1, 500) g"
        )
        self.tables[name] = name
        return f"ALTER PUBLICATION {lake_history.PUBLICATION} ADD TABLE {name}"

    def _choose(self) -> tuple[tuple[str, str], str]:
        return self._dice.choice(list(self._columns.items()))

    def _execute(self, statement: str) -> None:
        execute(self._server, statement)


def execute(server: Server, statement: str) -> None:
    """Execute a statement. If its lock takes long, try again, so that others do not wait."""
    while True:
        try:
            with server.connect() as connection:
                connection.execute("SET lock_timeout = '2s'")
                connection.execute(statement.encode())
                return
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            continue
