"""The judge of a stream of a slot finds each kind of mistake."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from support.postgres_binaries import NEWEST, VERSIONS
from support.reference_changes import Change
from support.servers import Server
from support.slot_history import ACCOUNTS_TABLE, prepare, writers
from support.slot_judge import assert_right, history, problems

Batches = dict[int, list[Change]]
Mistake = Callable[[Batches], None]

# Only `make test-slot` uses the judge.
pytestmark = pytest.mark.slot


@pytest.fixture(scope="module", params=[NEWEST, VERSIONS[0]])
def changes(request: pytest.FixtureRequest) -> Iterator[list[Change]]:
    with Server(request.param) as server:
        prepare(server)
        with writers(server, seed="judge", pause=0.01):
            time.sleep(4)
        yield history(server)


@pytest.fixture
def batches(changes: list[Change]) -> Batches:
    """Spread whole transactions over batches. Each of the first batches has one transaction."""
    dice = random.Random("batches")
    split: Batches = {}
    number = 0
    for change, previous in zip(changes, [None, *changes], strict=False):
        if previous and change.commit_version != previous.commit_version:
            number += dice.choice([0, 1, 2]) if number > 10 else 1
        split.setdefault(number, []).append(change)
    return split


def test_right_batches_have_no_mistakes(changes: list[Change], batches: Batches) -> None:
    assert_right(changes, batches)
    tables = Counter(change.table.rstrip("0123456789") for change in changes)
    assert {"public.journal", "public.documents", "public.evolving_"} <= tables.keys()
    assert tables[ACCOUNTS_TABLE] > 50, tables
    assert {change.change_type for change in changes} > {"insert", "delete", "truncate"}
    assert any(change.missing for change in changes), "no unchanged TOASTed value"


def drop(batches: Batches) -> None:
    del batches[5][-1]


def double(batches: Batches) -> None:
    batches[5].append(batches[5][0])


def repeat_a_batch(batches: Batches) -> None:
    batches[6] = [*batches[5], *batches[6]]


def swap_rows(batches: Batches) -> None:
    batch = next(batch for batch in batches.values() if len(batch) > 1)
    batch[0], batch[1] = batch[1], batch[0]


def swap_batches(batches: Batches) -> None:
    batches[5], batches[6] = batches[6], batches[5]


def change_a_value(batches: Batches) -> None:
    batches[5][0] = replace(batches[5][0], row={})


def invent(batches: Batches) -> None:
    last = batches[max(batches)]
    last.append(replace(last[-1], ordinal=last[-1].ordinal + 1))


def split_a_transfer(batches: Batches) -> None:
    number = next(
        number
        for number, batch in batches.items()
        if number > 0 and batch[0].table == ACCOUNTS_TABLE and len(batch) > 1
    )
    later = {key + 1: value for key, value in batches.items() if key > number}
    first, rest = batches[number][:1], batches[number][1:]
    for key in [key for key in batches if key >= number]:
        del batches[key]
    batches.update({number: first, number + 1: rest, **later})


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        (drop, "changes are missing"),
        (double, "changes came twice"),
        (repeat_a_batch, "changes came twice"),
        (swap_rows, "the order is wrong"),
        (swap_batches, "the order is wrong"),
        (change_a_value, "changes differ"),
        (invent, "not those of the slot"),
        (split_a_transfer, "the sum of the balances"),
    ],
)
def test_each_kind_of_mistake_is_found(
    changes: list[Change], batches: Batches, mistake: Mistake, found: str
) -> None:
    mistake(batches)
    assert any(found in problem for problem in problems(changes, batches))
