"""Spark finds the same committed changes in the messages of real servers as the reference.

It does not matter how the messages are spread over partitions and reads.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_pgoutput import changes, open_transactions
from support import reference_changes as reference
from support.data_files import (
    SEAMS,
    TEXT_DEPENDS_ON_SETTINGS,
    Captured,
    captures,
    declared_types,
    finals,
    seam,
    text_captures,
    version_of,
)
from support.reference_changes import Change
from support.replay import NOT_REPLAYED, differing, of_any_protocol, replay
from support.table_changes import (
    SOME_STREAMS,
    Messages,
    assert_equal,
    by_source,
    first_position,
    frame,
    of_capture,
    of_one_source,
    opened,
    opened_by_source,
    rows_of,
    whole,
)
from support.transactions import ordinary

TWO_STREAMS = ("pg18-v4-stream_parallel-text-2pc", "seam-102")


@pytest.fixture(scope="module")
def of_captures(captured: Captured, versions: tuple[str, ...]) -> dict[str, list[Change]]:
    """Give the changes of the captures of some versions. No oid has two types in two versions.

    A query reads one capture of each server, because those of one server have the same commits,
    which two sources must not have.
    """
    types = {name: type_ for version in versions for name, type_ in declared_types(version).items()}
    found = {}
    names = captures(versions)
    for slot in {name.removeprefix(version_of(name)) for name in names}:
        messages = captured(name for name in names if name.endswith(slot))
        found.update(by_source(changes(messages, "seq", source="capture", options=types)))
    return found


def test_text_captures_have_the_changes_of_the_reference(
    of_captures: dict[str, list[Change]], versions: tuple[str, ...]
) -> None:
    assert sorted(of_captures) == captures(versions)
    for name in text_captures(versions):
        assert_equal(of_captures[name], of_capture(name), name)


def test_captures_of_all_protocols_have_the_same_changes(
    of_captures: dict[str, list[Change]], versions: tuple[str, ...]
) -> None:
    for version in versions:
        plain, *others = (of_any_protocol(of_captures[name]) for name in text_captures([version]))
        assert len(plain) > 4_000
        for other in others:
            assert_equal(other, plain, version)


def test_binary_captures_have_the_rows_of_text_captures(
    of_captures: dict[str, list[Change]], versions: tuple[str, ...]
) -> None:
    for name in set(captures(versions)) - set(text_captures(versions)):
        expected = of_capture(f"{version_of(name)}-v1-stream_off-text")
        assert_equal(
            without_settings(of_any_protocol(of_captures[name])),
            without_settings(of_any_protocol(expected)),
            name,
        )


def without_settings(some: Iterable[Change]) -> list[Change]:
    return [
        replace(
            change,
            row=change.row
            and {c: cell for c, cell in change.row.items() if c not in TEXT_DEPENDS_ON_SETTINGS},
        )
        for change in some
    ]


@pytest.mark.takes_long
def test_replayed_changes_make_the_tables_of_the_server(
    of_captures: dict[str, list[Change]], versions: tuple[str, ...]
) -> None:
    for version in versions:
        *_, name = text_captures([version])
        assert differing(replay(of_captures[name]), finals()[version]) <= set(NOT_REPLAYED), name


@pytest.mark.takes_long
def test_an_interrupted_reader_gets_the_changes_of_an_uninterrupted_one(
    spark: SparkSession,
) -> None:
    streams = {
        (name, part): list(enumerate(messages))
        for name in SEAMS
        for part, messages in seam(name)._asdict().items()
    }
    found = {
        part: by_source(
            changes(
                frame(
                    spark, {name: stream for (name, of), stream in streams.items() if of == part}
                ),
                "seq",
                source="name",
            )
        )
        for part in ("data", "clean")
    }
    for (name, part), stream in streams.items():
        expected, _ = reference.changes(stream)
        assert_equal(found[part][name], expected, (name, part))
    for name in SEAMS:
        assert_equal(
            of_any_protocol(found["data"][name]), of_any_protocol(found["clean"][name]), name
        )


def test_scenarios_have_the_changes_of_the_reference(spark: SparkSession) -> None:
    streams = {name: list(enumerate(messages)) for name, messages in ordinary().items()}
    messages = frame(spark, streams)
    found = by_source(changes(messages, "seq", source="name"))
    left_open = opened_by_source(open_transactions(messages, "seq", source="name"))
    for name, stream in streams.items():
        expected = reference.changes(stream)
        assert (found.get(name, []), left_open.get(name, [])) == expected, name


@pytest.mark.takes_long
@pytest.mark.parametrize(
    ("partitions", "shuffled"),
    [(1, False), (8, True), pytest.param(40, False, marks=pytest.mark.exhaustive)],
)
def test_partitions_of_the_messages_do_not_matter(
    spark: SparkSession, partitions: int, shuffled: bool
) -> None:
    """The messages are cut at random places. If two places are the same, a partition is empty."""
    dice = random.Random(partitions)
    rows = rows_of(SOME_STREAMS)
    if shuffled:
        dice.shuffle(rows)
    cuts = sorted(dice.choices(range(len(rows)), k=partitions - 1))
    pieces = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    messages = spark.createDataFrame(
        spark.sparkContext.parallelize(pieces, partitions).flatMap(lambda piece: piece),
        "name STRING, seq BIGINT, data BINARY",
    ).persist()
    assert messages.rdd.getNumPartitions() == partitions

    found = by_source(changes(messages, "seq", source="name"))
    assert set(found) == set(SOME_STREAMS)
    for name in SOME_STREAMS:
        assert_equal(found[name], whole(name)[0], name)
    messages.unpersist()


@pytest.mark.takes_long
def test_open_transactions_are_those_of_the_reference(spark: SparkSession) -> None:
    """The messages end at random places, often in transactions, and right after PREPARE."""
    dice = random.Random("ends")
    streams: dict[str, Messages] = {}
    for name, stream in SOME_STREAMS.items():
        prepares = [place for place, (_, data) in enumerate(stream) if data[:1] in (b"P", b"p")]
        ends = [*dice.sample(range(len(stream)), 6), *(place + 1 for place in prepares[:2])]
        streams |= {f"{name} {end}": stream[:end] for end in ends}
    at_ends = {name: reference.changes(stream)[1] for name, stream in streams.items()}
    expected = {name: left_open for name, left_open in at_ends.items() if left_open}
    found = open_transactions(frame(spark, streams), "seq", source="name")
    assert opened_by_source(found) == expected
    states = {transaction.state for left_open in expected.values() for transaction in left_open}
    assert states == {"begun", "streaming", "prepared"}


@pytest.mark.parametrize("name", TWO_STREAMS)
def test_a_second_read_goes_on_from_the_first(spark: SparkSession, name: str) -> None:
    stream = SOME_STREAMS[name]
    # This is in the middle of the changes, where transactions are open.
    end = random.Random(name).choice(
        [place for place, (_, data) in enumerate(stream) if data[:1] == b"I" and place > 500]
    )
    expected, expected_open = whole(name)

    messages = frame(spark, {name: stream})
    earlier = messages.filter(F.col("seq") < end)
    first = of_one_source(changes(earlier, "seq"))
    start = min(map(first_position, opened(open_transactions(earlier, "seq"))), default=end)
    messages.filter(F.col("seq") < start).createOrReplaceTempView("messages_read_before")
    options = {"relations": "messages_read_before"}
    if first:
        options["after"] = str(max(change.commit_version for change in first))
    later = messages.filter(F.col("seq") >= start)
    second = of_one_source(changes(later, "seq", options=options))
    assert_equal(first + second, expected, end)
    assert opened(open_transactions(later, "seq", options=options)) == expected_open


@pytest.mark.parametrize("name", TWO_STREAMS)
def test_a_read_without_the_beginning_skips_incomplete_transactions(
    spark: SparkSession, name: str
) -> None:
    """The messages start in the middle of a stream block."""
    stream = SOME_STREAMS[name]
    dice = random.Random(name)
    in_blocks = [
        place for place, (_, data) in enumerate(stream) if data[:1] == b"S" and place > 500
    ]
    start = dice.choice(in_blocks) + 3
    expected, expected_open = reference.changes(
        stream[start:], relations=stream[:start], incomplete="skip"
    )

    messages = frame(spark, {name: stream})
    messages.filter(F.col("seq") < start).createOrReplaceTempView("messages_not_read")
    rest = messages.filter(F.col("seq") >= start)
    options = {"relations": "messages_not_read", "incomplete": "skip"}
    assert_equal(of_one_source(changes(rest, "seq", options=options)), expected, start)
    assert opened(open_transactions(rest, "seq", options=options)) == expected_open
