"""Committed changes applied to tables, and what the tables then hold compared with what those of
the server held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from support.data_files import FinalTable
from support.reference_changes import Change, Row, unsigned

Tables = dict[str, list[Row]]

# What the messages do not say, so that the tables replayed are not those of the server.
NOT_REPLAYED = {
    "public.part_leaf": "published as its partitions",
    **{
        f"public.part_root_{number}": "a partition, published as its root part_root"
        for number in range(3)
    },
    "public.evolved": "its first rows came under its old name, evolving, and with other columns",
    "public.reborn": "dropped, of which no message tells, and created again",
    "public.col_list": "published with some of its columns",
    "public.row_filter": "published with some of its rows",
    "public.generated": "generated columns are not published before PostgreSQL 18",
}

# The text that the tables' values were cast to is not that in which they are sent.
OTHER_TEXT = {
    "c_bool": "true instead of t",
    "c_bpchar": "without the blanks that pad it",
    "c_inet": "with the length of a full netmask: ::1/128",
}


def in_order(changes: Iterable[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: (unsigned(change.commit_version), change.ordinal))


def of_any_protocol(changes: Iterable[Change]) -> list[Change]:
    """In order, without what depends on the way that the server sent them."""
    return [replace(change, gid=None, position=0, ordinal=0) for change in in_order(changes)]


def replay(changes: Iterable[Change]) -> Tables:
    """The tables that begin empty, by name. The changes may come in any order."""
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
                # What the message does not carry is as it was.
                rows[index] = {**rows[index], **row}
            before = None
    return tables


def find(rows: list[Row], keys: list[str], row: Row) -> int:
    """Where the row is; in a table without a key all that is known of it must be equal."""
    values = [(name, row[name]) for name in keys or row]
    for index, candidate in enumerate(rows):
        if all(candidate[name] == value for name, value in values):
            return index
    raise LookupError(f"no row {dict(values)}")


def differing(tables: Tables, finals: Mapping[str, FinalTable]) -> set[str]:
    """The names of the tables that do not hold what the server's held."""
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
