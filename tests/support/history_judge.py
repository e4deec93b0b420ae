"""Replays the histories of tables, change by change, and compares the result with the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from pyspark.sql import Row, SparkSession

from support import lake_history
from support.lake_job import LakeJob
from support.lake_judge import columns_of, plain, wanted

Values = tuple[object, ...]


def assert_histories(
    spark: SparkSession, job: LakeJob, tables: Mapping[str, str] = lake_history.TABLES
) -> dict[str, list[Row]]:
    """Check that each history has each change once, and return the histories.

    Parameters
    ----------
    tables : mapping of str to str
        The names of the tables in the target, by those of the server.
    """
    job.use(spark)
    found = {}
    for source, name in tables.items():
        changes = history(spark, job, name)
        columns, there = wanted(job, source, columns_of(job.server, source))
        query = f"SELECT relreplident = 'f' FROM pg_class WHERE relname = '{source}'"
        is_full = job.server.value(query)
        state = played(changes, columns, is_full)
        assert state == there, (source, state - there, there - state)
        found[name] = changes
    return found


def history(spark: SparkSession, job: LakeJob, table: str) -> list[Row]:
    """Return the changes of a table in order, after a check that each place has one change."""
    rows = spark.sql(
        f"SELECT * FROM {job.sql_name(table)} ORDER BY _commit_version, _ordinal"
    ).collect()
    places = Counter((row["_commit_version"], row["_ordinal"]) for row in rows)
    twice = [place for place, count in places.items() if count > 1]
    assert not twice, f"{table}: {len(twice)} places have several changes, such as {twice[0]}"
    return rows


def assert_copies(changes: Sequence[Row], number: int) -> None:
    """Check the number of copies in a history. Each copy after the first one follows a truncate."""
    copies = {row["_commit_version"] for row in changes if row["_change_type"] == "snapshot"}
    empties = [row["_commit_version"] for row in changes if row["_change_type"] == "truncate"]
    assert len(copies) == number
    assert sorted(empties) == sorted(copies - {min(copies)})


def played(
    changes: Iterable[Row], columns: Sequence[str], is_full: bool = False
) -> Counter[Values]:
    """Return the rows that a table has after changes, in order.

    With `is_full`, rows are identified by all columns, also by those that were added later.

    This fails if a change does not fit the changes before it, for example because one is missing
    or is there twice.
    """
    state: dict[Values, Counter[Values]] = {}
    replaced: Values | None = None  # the row of the preimage before a postimage
    for change in changes:
        kind = change["_change_type"]
        names = change.__fields__
        values = tuple(plain(change[name]) if name in names else None for name in columns)
        keys = [name for name in change["_keys"] if name in columns]
        if kind == "truncate":
            state.clear()
            continue
        whole = is_full or len(keys) in (0, len(columns))
        key = values if whole else tuple(values[columns.index(name)] for name in keys)
        if kind in ("update_preimage", "delete") or (
            kind == "update_postimage" and replaced is None
        ):
            before = _take(state, key, change)
        if kind == "update_preimage":
            replaced = before
        elif kind in ("insert", "snapshot"):
            _put(state, key, values, whole)
        elif kind == "update_postimage":
            row = before if replaced is None else replaced
            filled = tuple(
                then if name in change["_missing"] else now
                for name, then, now in zip(columns, row, values, strict=True)
            )
            _put(state, key, filled, whole)
            replaced = None
    return Counter(chain.from_iterable(rows.elements() for rows in state.values()))


def _take(state: dict[Values, Counter[Values]], key: Values, change: Row) -> Values:
    rows = state.get(key)
    assert rows, f"there is no row for the change {change}"
    row = next(iter(rows))
    rows[row] -= 1
    if rows[row] == 0:
        del rows[row]
    if not rows:
        del state[key]
    return row


def _put(state: dict[Values, Counter[Values]], key: Values, values: Values, is_whole: bool) -> None:
    rows = state.setdefault(key, Counter())
    assert is_whole or not rows, f"the key {key} has two rows"
    rows[values] += 1
