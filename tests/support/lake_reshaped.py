"""Tables whose keys, partitions and publication change while clients write to them.

The tables have a publication of their own. Its row filter and its column list need version 15.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence

from support.lake_schema_changes import execute
from support.servers import Server

PUBLICATION = "reshaped"
TABLES = {table: table for table in ("accounts", "parts", "partial")}

# The tables to which columns can be added. A detached partition would not get them.
ALTERED = ("accounts", "partial")

_PARTITIONS = range(4)  # of 100 ids each
_MOST = 100 * len(_PARTITIONS)

_VALUES = "SELECT g, 1000 + g, CASE g % 3 WHEN 0 THEN repeat(md5(g::text), 80) END"

# Two columns of accounts are unique, so that each can be the key.
SETUP = "".join(
    [
        *(
            f"CREATE TABLE {table} (id int NOT NULL, n int NOT NULL, v text, PRIMARY KEY (id))"
            f"{' PARTITION BY RANGE (id)' if table == 'parts' else ''};"
            f"ALTER TABLE {table} ALTER v SET STORAGE EXTERNAL;"
            for table in TABLES
        ),
        *(
            f"CREATE TABLE parts_{number} PARTITION OF parts "
            f"FOR VALUES FROM ({100 * number}) TO ({100 * number + 100});"
            for number in _PARTITIONS
        ),
        "CREATE UNIQUE INDEX accounts_id ON accounts (id);",
        "CREATE UNIQUE INDEX accounts_n ON accounts (n);",
        *(
            f"INSERT INTO {table} {_VALUES} FROM generate_series(0, {_MOST - 1}, 2) g;"
            for table in TABLES
        ),
        f"CREATE PUBLICATION {PUBLICATION} FOR TABLE {', '.join(TABLES)} ",
        "WITH (publish_via_partition_root)",
    ]
)


def write(dice: random.Random, run: Callable[..., object]) -> None:
    """Make one random change of the rows of one table, in a transaction of a `History`."""
    table = dice.choice(list(TABLES))
    one, other = dice.randrange(_MOST), dice.randrange(_MOST)
    v = dice.choice([None, "short", "".join(dice.choices(string.ascii_letters, k=8)) * 400])
    changes: Sequence[tuple[str, list[object]]] = [
        ("INSERT INTO {} (id, n, v) VALUES (%s, %s, %s)", [one, dice.randrange(9999), v]),
        ("UPDATE {} SET v = %s WHERE id BETWEEN %s AND %s", [v, one, one + 5]),
        ("UPDATE {} SET n = %s WHERE id = %s", [dice.randrange(9999), one]),
        ("UPDATE {} SET id = %s WHERE id = %s", [other, one]),
        ("DELETE FROM {} WHERE id = %s", [one]),
    ]
    statement, values = dice.choice(changes)
    run(statement.format(table), values)


class Reshapes:
    """Changes the keys, the partitions and the publication of the tables of SETUP.

    Parameters
    ----------
    server : Server
        A server on which SETUP ran.
    dice : random.Random
        Chooses what is changed.
    """

    def __init__(self, server: Server, dice: random.Random) -> None:
        self._server = server
        self._dice = dice
        self._filter = self._list = ""
        self._detached: set[int] = set()

    def make_some(self) -> str:
        """Change something, sometimes several things at once, and return the statements."""
        return "; ".join(self._make_one() for _ in range(self._dice.choice([1, 1, 2, 3])))

    def _make_one(self) -> str:
        changes = [self._key, self._identity, self._partition, self._partition]
        if self._server.version >= 15:
            changes += [self._row_filter, self._column_list]
        statement = self._dice.choice(changes)()
        execute(self._server, statement)
        return statement

    def _key(self) -> str:
        key = self._dice.choice(["id", "n", "id, n"])
        return (
            "ALTER TABLE accounts DROP CONSTRAINT accounts_pkey, "
            f"ADD CONSTRAINT accounts_pkey PRIMARY KEY ({key})"
        )

    def _identity(self) -> str:
        identity = self._dice.choice(["DEFAULT", "FULL", "USING INDEX accounts_n"])
        return f"ALTER TABLE accounts REPLICA IDENTITY {identity}"

    def _partition(self) -> str:
        """Truncate, detach or attach a partition.

        The first partition stays as it is, so that the table always has one.
        """
        number = self._dice.choice(_PARTITIONS[1:])
        name, low = f"parts_{number}", 100 * number
        if number in self._detached:
            self._detached.remove(number)
            before = self._dice.choice(["", f"UPDATE {name} SET v = 'd' WHERE id % 3 = 0; "])
            bounds = f"FROM ({low}) TO ({low + 100})"
            return f"{before}ALTER TABLE parts ATTACH PARTITION {name} FOR VALUES {bounds}"
        if self._dice.random() < 0.5:
            return f"TRUNCATE {name}"
        self._detached.add(number)
        return f"ALTER TABLE parts DETACH PARTITION {name}"

    def _row_filter(self) -> str:
        conditions = ["id > 200", "id % 3 > 0", "id < 300 AND id % 2 = 0"]
        filters = ["", *(f" WHERE ({condition})" for condition in conditions)]
        return self._publish(self._list, self._dice.choice(filters))

    def _column_list(self) -> str:
        return self._publish(self._dice.choice(["", " (id, n)", " (id, v)", " (id)"]), self._filter)

    def _publish(self, columns: str, row_filter: str) -> str:
        self._list, self._filter = columns, row_filter
        return (
            f"ALTER PUBLICATION {PUBLICATION} SET TABLE accounts, parts, "
            f"partial{columns}{row_filter}"
        )
