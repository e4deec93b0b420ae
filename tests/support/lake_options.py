"""Options of single tables, chosen by a seed, and the rows that the target then has."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

SALT = "a salt of the tests"

_LINES = "Order lines"

# A table without a key can have no marks and no versions. The column list of `partial` can leave
# out a column, so none is hashed or excluded. A table that is reshaped has no history, because the
# messages lack some changes.
_MARKED = ("orders", _LINES, "accounts", "parts", "partial")
_VERSIONED = (*_MARKED, "seats")
_BOTH = ("orders", _LINES, "seats", "readings", "events")
_HASHED = {
    **{"orders": "status", _LINES: "größe", "seats": "note", "readings": "note"},
    **{"accounts": "v", "parts": "v"},
}
_EXCLUDED = {"orders": "tags", "seats": "guest"}

# Delta has a partition for each value, so these columns have few values.
_DELTA_PARTITIONS = {
    **{"orders": ["flag"], _LINES: ["`b ````x`"], "readings": ["y"], "events": ["x"]},
}
_ICEBERG_PARTITIONS = {
    **_DELTA_PARTITIONS,
    "orders": ["days(paid)", "bucket(3, id)"],
    "seats": ["bucket(4, id)"],
    "readings": ["truncate(1, y)"],
    "accounts": ["bucket(4, n)"],
    "parts": ["truncate(100, id)"],
    "partial": ["bucket(2, id)"],
}
_CLUSTERS = {"orders": ["status"], _LINES: ["note", "a"], "seats": ["id"], "accounts": ["id", "n"]}


@dataclass(frozen=True)
class TableOptions:
    """The options of one table, under the names that they have in a file of options."""

    mode: str = "mirror"
    partition: list[str] = field(default_factory=list)
    cluster: list[str] = field(default_factory=list)
    excludeColumns: list[str] = field(default_factory=list)  # noqa: N815
    hash: list[str] = field(default_factory=list)
    onDelete: str = "delete"  # noqa: N815


NO_OPTIONS = TableOptions()


def write_config(file: Path, tables: Mapping[str, TableOptions]) -> None:
    """Write a file of options, and the file of the salt beside it."""
    (salt := file.with_name("salt")).write_text(SALT)
    entries = {
        f"public.{name}": {option: value for option, value in vars(options).items() if value}
        for name, options in tables.items()
    }
    file.write_text(yaml.safe_dump({"hashSaltFile": str(salt), "tables": entries}))


def choose(dice: random.Random, target: str, tables: Iterable[str]) -> dict[str, TableOptions]:
    """Choose options for tables of `lake_history.SETUP` and `lake_reshaped.SETUP`.

    Parameters
    ----------
    dice : random.Random
        The generator. It chooses each option for half of the tables that can have it.
    target : str
        ``delta`` or ``iceberg``.
    tables : iterable of str
        The tables of the server.
    """
    is_delta = target == "delta"
    partitions = _DELTA_PARTITIONS if is_delta else _ICEBERG_PARTITIONS

    def some(columns: Mapping[str, list[str]], table: str) -> list[str]:
        return columns.get(table, []) if dice.random() < 0.5 else []

    found = {}
    for table in tables:
        partition, cluster = some(partitions, table), some(_CLUSTERS, table)
        modes = ["versions"] * (table in _VERSIONED) + ["both"] * (table in _BOTH)
        mode = dice.choice(["mirror", *modes])
        can_mark = table in _MARKED and mode != "versions"
        found[table] = TableOptions(
            mode,
            partition,
            [] if is_delta and partition else cluster,
            some({name: [column] for name, column in _EXCLUDED.items()}, table),
            some({name: [column] for name, column in _HASHED.items()}, table),
            "mark" if can_mark and dice.random() < 0.5 else "delete",
        )
    return found


def with_history(tables: Mapping[str, TableOptions]) -> list[str]:
    """Return the tables that have a mirror and a history."""
    return [name for name, options in tables.items() if options.mode == "both"]


def hashed(value: object, salt: str = SALT) -> str | None:
    """Return the hash of a text of PostgreSQL."""
    if value is None:
        return None
    return hmac.new(salt.encode(), str(value).encode(), hashlib.sha256).hexdigest()


def hash_rows(
    rows: Iterable[tuple[object, ...]], columns: list[str], options: TableOptions
) -> Iterator[tuple[object, ...]]:
    """Hash the values of rows in the columns of which the target has hashes."""
    is_hashed = [column in options.hash for column in columns]
    for row in rows:
        yield tuple(
            hashed(value) if is_ else value for value, is_ in zip(row, is_hashed, strict=True)
        )
