"""The plain account of table changes agrees with what the servers' tables held, and with itself
whatever way the messages came."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache

import pytest

from support.changes_cases import (
    CASES,
    STOP,
    Case,
    R,
    abort,
    begin,
    block,
    commit,
    commit_prepared,
    insert,
    logical_message,
    plain,
    relation,
    start,
    stream_commit,
)
from support.data_files import captures, finals, seams, text_captures, version_of
from support.reference_changes import (
    Change,
    CommitWentBack,
    IncompleteTransaction,
    UnknownRelation,
    changes,
)
from support.replay import NOT_REPLAYED, differing, of_any_protocol, replay

Messages = list[tuple[int, bytes]]

VERSIONS = ("pg14", "pg15", "pg16", "pg17", "pg18")


@cache
def committed(capture: str) -> list[Change]:
    found, left_open = changes(enumerate(captures()[capture]))
    assert left_open == []
    return found


def test_replay_gives_the_tables() -> None:
    differ = {
        name: differing(replay(committed(name)), finals()[version_of(name)])
        for name in text_captures()
    }
    by_version = defaultdict(set)
    for name, tables in differ.items():
        assert tables <= set(NOT_REPLAYED), name
        by_version[version_of(name)].add(frozenset(tables))
    assert list(by_version) == list(VERSIONS)
    assert all(len(tables) == 1 for tables in by_version.values())
    assert set().union(*differ.values()) == set(NOT_REPLAYED)


@pytest.mark.parametrize("version", VERSIONS)
def test_protocol_does_not_matter(version: str) -> None:
    plain, *others = (
        of_any_protocol(committed(name)) for name in text_captures() if name.startswith(version)
    )
    assert len(plain) > 4_000
    for other in others:
        assert other == plain


def test_ordinals_grow() -> None:
    for name in text_captures():
        places = [(change.commit_version, change.ordinal) for change in committed(name)]
        assert len(set(places)) == len(places)
        assert sorted(places) == places


@pytest.mark.parametrize("name", seams())
def test_seams(name: str) -> None:
    """What is open at the end are leftovers of transactions that aborted while nobody read."""
    data, left_open = changes(enumerate(seams()[name].data))
    clean, nothing = changes(enumerate(seams()[name].clean))
    assert of_any_protocol(data) == of_any_protocol(clean)
    assert {transaction.state for transaction in left_open} <= {"streaming"}
    assert nothing == []


def handed_over(messages: Messages, ends: Iterable[int]) -> Iterator[list[Change]]:
    """The changes that each of several reads gives, which see one after the other the messages in
    front of the ends."""
    after = None
    start = 0
    for end in ends:
        found, left_open = changes(messages[start:end], after=after, relations=messages[:start])
        yield found
        versions = [change.commit_version for change in found]
        after = max(versions, default=after)
        start = min((transaction.first_position for transaction in left_open), default=end)


@pytest.mark.parametrize(
    "name", [*seams(), *(f"{version}-v2-stream_on-text" for version in VERSIONS)]
)
def test_handed_over_between_reads(name: str) -> None:
    stored = seams()[name].data if name in seams() else captures()[name]
    messages = list(enumerate(stored))
    whole, _ = changes(messages)
    dice = random.Random(name)
    for reads in range(2, 6):
        ends = sorted(dice.sample(range(len(messages)), reads - 1))
        found = [
            change for some in handed_over(messages, [*ends, len(messages)]) for change in some
        ]
        assert found == whole, ends


def values(some: Iterable[Change]) -> str:
    return "".join(str(change.row["k"]) for change in some if change.row)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cases(case: Case) -> None:
    committed, left_open = changes(enumerate(case.messages))
    assert values(committed) == case.committed
    assert tuple(transaction.xid for transaction in left_open) == case.left_open


@pytest.mark.parametrize(
    "messages",
    [
        [R, insert("a"), commit(10)],
        [R, commit(10)],
        [R, begin(10, 1), insert("a"), commit(11)],
        [R, begin(10, 1), insert("a"), logical_message(transactional=False), commit(10)],
        [R, commit_prepared(10, 1)],
        [stream_commit(10, 1)],
        [*block(2, "a", first=False), stream_commit(10, 2)],
        [*plain(10, 1, "a")[:1], abort(3, 3), insert("a")],
    ],
)
def test_without_a_beginning(messages: list[bytes]) -> None:
    stream = list(enumerate(messages))
    with pytest.raises(IncompleteTransaction):
        changes(stream)
    assert changes(stream, incomplete="skip") == ([], [])


def test_up_to_after_nothing_needs_a_beginning() -> None:
    messages = [R, commit(10), commit_prepared(15, 2), *plain(20, 3, "a"), *plain(30, 4, "b")]
    committed, _ = changes(enumerate(messages), after=20)
    assert values(committed) == "b"


def test_relations_of_a_segment_without_a_beginning() -> None:
    """A streamed transaction that the read before gave out, of which this one sees the rest."""
    segment = [start(2, first=False), relation("k", xid=2), insert("a", xid=2), STOP]
    messages = [*segment, stream_commit(10, 2), *plain(20, 3, "b")]
    committed, left_open = changes(enumerate(messages), after=10)
    assert (values(committed), left_open) == ("b", [])


def test_a_commit_that_goes_back() -> None:
    for again in (plain(10, 1, "b"), plain(20, 3, "b"), [commit(10)]):
        messages = list(enumerate([R, *plain(20, 2, "a"), *again]))
        if again != plain(20, 3, "b"):
            found, _ = changes(messages, after=10)
            assert values(found) == "a"
        with pytest.raises(CommitWentBack):
            changes(messages, after=5)


@pytest.mark.parametrize("described", [[], [relation("k", "v")]])
def test_a_relation_that_does_not_fit(described: list[bytes]) -> None:
    with pytest.raises(UnknownRelation):
        changes(enumerate([*described, *plain(10, 1, "a")]))


def test_relations_from_earlier_messages() -> None:
    earlier = enumerate([begin(5, 1), relation("v"), start(2), relation("k", xid=2)])
    committed, _ = changes(
        [(place + 10, m) for place, m in enumerate(plain(10, 3, "a"))], relations=earlier
    )
    assert values(committed) == "a"


def test_abandon() -> None:
    messages = list(enumerate([*block(2, "a"), *block(3, "b")]))
    _, left_open = changes(messages, abandon=[2])
    assert [transaction.xid for transaction in left_open] == [3]
