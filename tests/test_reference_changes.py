"""The reference for table changes makes the tables of the servers, and finds the same changes
however the messages arrive."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from support import messages as m
from support.data_files import SEAMS, VERSIONS, capture, finals, seam, text_captures
from support.reference_changes import Change, Refused, UnknownRelation, changes
from support.replay import NOT_REPLAYED, differing, of_any_protocol, replay
from support.transactions import FILE, SCENARIOS, Scenario, text_of_file

Messages = list[tuple[int, bytes]]


@pytest.mark.takes_long
def test_replayed_changes_make_the_tables_of_the_server() -> None:
    """The changes of one capture of each version make the tables of the server."""
    differ = set()
    for version in VERSIONS:
        *_, name = text_captures([version])
        found, left_open = changes(enumerate(capture(name)))
        assert left_open == []
        places = [(change.commit_version, change.ordinal) for change in found]
        assert sorted(set(places)) == places
        tables = differing(replay(found), finals()[version])
        assert tables <= set(NOT_REPLAYED), name
        differ |= tables
    assert differ == set(NOT_REPLAYED)


def long(name: str) -> Any:  # noqa: ANN401 - pytest has no public type for it
    return pytest.param(name, marks=pytest.mark.takes_long)


SOME_SEAMS = [long("seam-101"), "seam-102", "seam-103", long("seam-104")]


@pytest.mark.parametrize("name", SOME_SEAMS)
def test_an_interrupted_reader_gets_the_changes_of_an_uninterrupted_one(name: str) -> None:
    """The transactions that are open at the end were rolled back while no reader was connected."""
    data, left_open = changes(enumerate(seam(name).data))
    clean, nothing = changes(enumerate(seam(name).clean))
    assert of_any_protocol(data) == of_any_protocol(clean)
    assert {transaction.state for transaction in left_open} <= {"streaming"}
    assert nothing == []


def handed_over(messages: Messages, ends: Iterable[int]) -> Iterator[list[Change]]:
    """Yield the changes of each of several reads, which end before these positions."""
    after = None
    start = 0
    for end in ends:
        found, left_open = changes(messages[start:end], after=after, relations=messages[:start])
        yield found
        versions = [change.commit_version for change in found]
        after = max(versions, default=after)
        start = min((transaction.first_position for transaction in left_open), default=end)


@pytest.mark.parametrize("name", [*SOME_SEAMS, long("pg18-v2-stream_on-text")])
def test_reads_that_continue_each_other_give_all_changes(name: str) -> None:
    stored = seam(name).data if name in SEAMS else capture(name)
    messages = list(enumerate(stored))
    whole, _ = changes(messages)
    dice = random.Random(name)
    for reads in (2, 4):
        ends = sorted(dice.sample(range(len(messages)), reads - 1))
        found = [
            change for some in handed_over(messages, [*ends, len(messages)]) for change in some
        ]
        assert found == whole, ends


def outcome(scenario: Scenario) -> Scenario:
    """Return the scenario with the outcome that the reference finds."""
    try:
        committed, left_open = changes(
            enumerate(scenario.messages),
            after=scenario.after,
            incomplete=scenario.incomplete or "error",
        )
    except Refused as refused:
        error, position = refused.condition, refused.position
        return scenario._replace(committed=(), open=(), error=error, position=position)
    transactions = {(change.xid, change.commit_version): change.gid for change in committed}
    texts = [
        f"{xid}@{lsn}{f' {gid}' if gid else ''}: {' '.join(values(committed, lsn))}"
        for (xid, lsn), gid in transactions.items()
    ]
    opened = [f"{t.xid} {t.state} {t.first_position} {t.changes}" for t in left_open]
    return scenario._replace(committed=tuple(texts), open=tuple(opened), error=None, position=None)


def values(committed: Iterable[Change], lsn: int) -> list[str]:
    return [str(c.row["k"]) for c in committed if c.row and c.commit_version == lsn]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_reference_finds_the_outcome_of_a_scenario(scenario: Scenario) -> None:
    with_changes = [text for text in scenario.committed if not text.endswith(":")]
    assert outcome(scenario) == scenario._replace(committed=tuple(with_changes))


def test_the_file_has_the_scenarios() -> None:
    assert FILE.read_text() == text_of_file(), "run python tests/support/transactions.py"


@pytest.mark.parametrize("described", [[], [m.relation("public.t", m.column("k"), m.column("v"))]])
def test_a_relation_that_does_not_fit_is_refused(described: list[bytes]) -> None:
    with pytest.raises(UnknownRelation):
        changes(enumerate([*described, *m.transaction(1, 10, m.insert("a"))]))


def test_relations_come_from_earlier_messages() -> None:
    other = m.relation("public.t", m.column("v"))
    table = m.relation("public.t", m.column("k"))
    earlier = [m.begin(1, 5), other, m.stream_start(2), m.in_stream(2, table)]
    later = m.transaction(3, 10, m.insert("a"))
    committed, _ = changes(enumerate(later, 10), relations=enumerate(earlier))
    assert [change.row for change in committed] == [{"k": "a"}]


def test_abandoned_transactions_are_not_open() -> None:
    table = m.relation("public.t", m.column("k"))
    messages = [
        message
        for xid in (2, 3)
        for message in (
            m.stream_start(xid),
            m.in_stream(xid, table),
            m.in_stream(xid, m.insert("a")),
            m.STREAM_STOP,
        )
    ]
    _, left_open = changes(enumerate(messages), abandon=[2])
    assert [transaction.xid for transaction in left_open] == [3]
