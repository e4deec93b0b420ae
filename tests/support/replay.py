"""Committed changes, applied to tables. The tables must then be equal to those of the server."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from support.data_files import FinalTable
from support.reference_changes import Change, Row, unsigned

Tables = dict[str, list[Row]]

# These tables differ from those of the server, for a reason that the messages do not show.
NOT_REPLAYED = {
    "public.part_leaf": "published as its partitions",
    **{
        f"public.part_root_{number}": "a partition, published as its root part_root"
        for number in range(3)
    },
    "public.evolved": "its first rows came under its old name, evolving, and with other columns",
    "public.reborn": "dropped without a message, and created again",
    "public.col_list": "published with some of its columns",
    "public.row_filter": "published with some of its rows",
    "public.generated": "generated columns are not published before PostgreSQL 18",
}

# The server casts these columns to another text than the one it sends.
OTHER_TEXT = {
    "c_bool": "true instead of t",
    "c_bpchar": "without the blanks that pad it",
    "c_inet": "with the length of a full netmask: ::1/128",
}


def in_order(changes: Iterable[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (unsigned(change.commit_version), change.ordinal))


def of_any_protocol(changes: Iterable[Change]) -> list[Change]:
    """Return the changes in order, without what depends on the protocol version and its options."""
    return [replace(change, gid=None, position=0, ordinal=0) for change in in_order(changes)]


def replay(changes: Iterable[Change]) -> Tables:
    """Apply changes, which can come in any order, to empty tables. Return these by name."""
    tables: Tables = defaultdict(list)
    before: Row | None = None
    for change in in_order(changes):
        rows, row = tables[change.table], change.row
        if row is None:
            rows.clear()
        elif change.change_type == "insert":
            rows.append(row)
        elif change.change_type == "update_preimage":
            before = row
        else:
            index = find(rows, change.keys, before or row)
            if change.change_type == "delete":
                del rows[index]
            else:
                # The columns that the message does not carry keep their values.
                rows[index] = {**rows[index], **row}
            before = None
    return tables


def find(rows: list[Row], keys: list[str], row: Row) -> int:
    """Return the index of a row by its keys, or by all its columns if the table has no key."""
    values = [(name, row[name]) for name in keys or row]
    for index, candidate in enumerate(rows):
        if all(candidate[name] == value for name, value in values):
            return index
    raise LookupError(f"no row {dict(values)}")


def differing(tables: Tables, finals: Mapping[str, FinalTable]) -> set[str]:
    """Return the names of the tables that are not equal to those of the server."""
    return {
        name
        for name, final in finals.items()
        if comparable(tables.get(name, []))
        != comparable([dict(zip(final.columns, row, strict=True)) for row in final.rows])
    }


def comparable(rows: Iterable[Mapping[str, object]]) -> list[list[tuple[str, object]]]:
    return sorted(
        (
            sorted((name, cell) for name, cell in row.items() if name not in OTHER_TEXT)
            for row in rows
        ),
        key=repr,
    )
