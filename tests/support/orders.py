"""A short history of two tables, and its changes in the order of their commits."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from support import messages as m

ID = m.column("id", m.INT8, key=True)
NOTE = m.column("note", m.TEXT)
ORDERS = m.relation("public.orders", ID, NOTE)

# A row of every type of change, of two tables.
HISTORY = [
    *m.transaction(
        1,
        10,
        ORDERS,
        m.insert("1", "a"),
        m.insert("2", None),
        m.update("1", m.UNCHANGED, old=("1", "a")),
    ),
    *m.transaction(
        2,
        20,
        m.origin("elsewhere"),
        m.update("3", m.UNCHANGED, key=("2", None)),
        m.delete("1", None),
    ),
    *m.transaction(
        3, 30, m.relation("sales.items", ID, oid=16500), m.insert("7", oid=16500), m.truncate(16400)
    ),
]


def history_of(namespace: str) -> list[bytes]:
    """Return the history with its tables in another namespace, for a second source.

    The same commit of two sources must not have changes of the same table.
    """
    return [
        data.replace(b"public\0orders", namespace.encode() + b"\0orders").replace(
            b"sales\0", namespace.encode() + b"_sales\0"
        )
        for data in HISTORY
    ]


def in_order(df: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    rows = df.select("_commit_version", "_ordinal", *columns).collect()
    return [tuple(row[2:]) for row in sorted(rows, key=lambda row: row[:2])]
