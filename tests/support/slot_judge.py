"""The changes that a stream of a slot must give, and what is wrong with those that it gave.

PostgreSQL's own SQL function reads a second slot, which nobody moves, and the reference decodes its
messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from support.reference_changes import Change
from support.reference_changes import changes as changes_of
from support.servers import Server
from support.slot_history import ACCOUNTS_TABLE, JUDGE, PUBLICATIONS, SUM

_PEEK = f"""
SELECT data FROM pg_logical_slot_peek_binary_changes(
    '{JUDGE}', NULL, NULL, 'proto_version', '1', 'publication_names', '{PUBLICATIONS}')
"""

Batches = Mapping[int, Sequence[Change]]


def history(server: Server) -> list[Change]:
    """Return all changes since the slots were made, in the order of their commits."""
    with server.connect() as connection:
        messages = [data for (data,) in connection.cursor(binary=True).execute(_PEEK.encode())]
    changes, _ = changes_of(enumerate(messages))
    return [replace(change, position=0) for change in changes]


def assert_right(expected: Sequence[Change], batches: Batches) -> None:
    """Check that the micro-batches have each change once, in order, in whole transactions."""
    found = list(problems(expected, batches))
    assert not found, "\n".join(found)


def problems(expected: Sequence[Change], batches: Batches) -> Iterator[str]:
    """Yield a text for each kind of mistake in the micro-batches."""
    given = [change for _, batch in sorted(batches.items()) for change in batch]
    places, right = [_place(change) for change in given], [_place(change) for change in expected]
    counts = Counter(places)
    if missing := [place for place in right if place not in counts]:
        yield _some("changes are missing", missing)
    if twice := [place for place, count in counts.items() if count > 1]:
        yield _some("changes came twice", twice)
    if invented := counts.keys() - set(right):
        yield _some("changes are not those of the slot", sorted(invented))
    if fell := [pair for pair in pairwise(places) if pair[0] >= pair[1]]:
        yield _some("times the order is wrong", fell)
    by_place = {_place(change): change for change in expected}
    wrong = [(c, by_place[_place(c)]) for c in given if c != by_place.get(_place(c), c)]
    if wrong:
        yield _some("changes differ: what came, what is right", wrong)
    yield from _split(batches)
    yield from _wrong_sums(batches)


def _place(change: Change) -> tuple[int, int]:
    return change.commit_version, change.ordinal


def _some(what: str, which: Sequence[object]) -> str:
    return f"{len(which)} {what}: {', '.join(map(str, which[:3]))}"


def _split(batches: Batches) -> Iterator[str]:
    """Find transactions that have changes in more than one micro-batch."""
    transactions = Counter(
        commit for batch in batches.values() for commit in {c.commit_version for c in batch}
    )
    if split := [commit for commit, count in transactions.items() if count > 1]:
        yield _some("transactions are in two micro-batches", split)


def _wrong_sums(batches: Batches) -> Iterator[str]:
    """Sum up the balances after each micro-batch. Whole transfers never change the sum."""
    balances: dict[object, int] = {}
    for number, batch in sorted(batches.items()):
        for change in batch:
            if change.table == ACCOUNTS_TABLE and change.row:
                balances[change.row["id"]] = int(change.row["balance"] or 0)
        if balances and sum(balances.values()) != SUM:
            yield f"the sum of the balances is {sum(balances.values())} after batch {number}"
            return
