"""The committed changes that Spark finds in the messages of real servers are those of the plain
account, however the messages are spread over partitions and reads."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import changes_reference as reference
from changes_cases import CASES
from changes_reference import Change, OpenTransaction
from data_files import captures, finals, seams, text_captures, version_of
from replay import NOT_REPLAYED, differing, in_order, of_any_protocol, replay
from spark_pgoutput import changes, open_transactions
from test_row_captures import TEXT_DEPENDS_ON_SETTINGS, VERSIONS, declared

Messages = Sequence[tuple[int, bytes]]

# Of different versions and options, and with seams.
SOME_STREAMS: dict[str, Messages] = {
    name: list(enumerate(stored))
    for name, stored in {
        "pg15-v3-stream_on-text-2pc": captures()["pg15-v3-stream_on-text-2pc"],
        "pg18-v4-stream_parallel-text-2pc": captures()["pg18-v4-stream_parallel-text-2pc"],
        "seam-102": seams()["seam-102"].data,
        "seam-103": seams()["seam-103"].data,
    }.items()
}


@cache
def whole(name: str) -> tuple[list[Change], list[OpenTransaction]]:
    return reference.changes(SOME_STREAMS[name])


@cache
def of_capture(name: str) -> list[Change]:
    return reference.changes(enumerate(captures()[name]))[0]


def frame(spark: SparkSession, streams: Mapping[str, Messages]) -> DataFrame:
    rows = rows_of(streams)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("name", "seq", "data"))}
    return spark.createDataFrame(pa.table(columns))


def rows_of(streams: Mapping[str, Messages]) -> list[tuple[str, int, bytes]]:
    return [(name, position, data) for name, stream in streams.items() for position, data in stream]


def by_source(found: DataFrame) -> dict[str, list[Change]]:
    """In order, for each source that has any."""
    sources = defaultdict(list)
    columns = [column_of(field.name).alias(field.name) for field in fields(Change)]
    for values in found.select("_source", *columns).toArrow().to_pylist():
        source, pairs = values.pop("_source"), values.pop("row")  # Arrow has a map as pairs
        row = None if pairs is None else dict(pairs)
        sources[source].append(Change(**values, row=row))
    return {source: in_order(some) for source, some in sources.items()}


def column_of(field: str) -> Column:
    if field == "commit_timestamp":  # Python cannot hold all of Spark's timestamps
        return F.unix_micros("_commit_timestamp")
    return F.col(field if field == "row" else f"_{field}")


def of_one_source(found: DataFrame) -> list[Change]:
    return by_source(found.withColumn("_source", F.lit("one"))).get("one", [])


def opened_by_source(found: DataFrame) -> dict[str, list[OpenTransaction]]:
    """In the order of their first positions, for each source that has any."""
    sources = defaultdict(list)
    columns = ("_source", "_xid", "_gid", "state", "first_position", "changes")
    for source, *values in found.select(*columns).collect():
        sources[source].append(OpenTransaction(*values))
    return {source: sorted(some, key=first_position) for source, some in sources.items()}


def opened(found: DataFrame) -> list[OpenTransaction]:
    return opened_by_source(found.withColumn("_source", F.lit("one"))).get("one", [])


def first_position(transaction: OpenTransaction) -> int:
    return transaction.first_position


def assert_equal(found: Sequence[object], expected: Sequence[object], what: object = None) -> None:
    """Only the first that differ: there are thousands."""
    for number, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert one == other, (what, number)
    assert len(found) == len(expected), what


@pytest.fixture(scope="module")
def of_captures(captured: DataFrame) -> dict[str, list[Change]]:
    """Of all captures, with what their binary cells need: no version has the oids of another."""
    types = {name: type_ for version in VERSIONS for name, type_ in declared(version).items()}
    return by_source(changes(captured, "seq", source="capture", options=types))


def test_text_captures(of_captures: dict[str, list[Change]]) -> None:
    assert set(of_captures) == set(captures())
    for name in text_captures():
        assert_equal(of_captures[name], of_capture(name), name)


def test_binary_captures(of_captures: dict[str, list[Change]]) -> None:
    """Their rows have the same text as those of the text captures."""
    for name in captures().keys() - text_captures().keys():
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


@pytest.mark.parametrize("version", VERSIONS)
def test_replay(of_captures: dict[str, list[Change]], version: str) -> None:
    *_, name = (name for name in text_captures() if version_of(name) == version)
    assert differing(replay(of_captures[name]), finals()[version]) <= set(NOT_REPLAYED)


def test_seams(spark: SparkSession) -> None:
    streams = {
        (name, part): list(enumerate(messages))
        for name, both in seams().items()
        for part, messages in both._asdict().items()
    }
    messages = frame(spark, {" ".join(name): stream for name, stream in streams.items()})
    found = by_source(changes(messages, "seq", source="name"))
    for (name, part), stream in streams.items():
        expected, _ = reference.changes(stream)
        assert_equal(found[f"{name} {part}"], expected, (name, part))
    for name in seams():
        assert_equal(
            of_any_protocol(found[f"{name} data"]), of_any_protocol(found[f"{name} clean"]), name
        )


def test_cases(spark: SparkSession) -> None:
    streams = {name: list(enumerate(case.messages)) for name, case in CASES.items()}
    messages = frame(spark, streams)
    found = by_source(changes(messages, "seq", source="name"))
    left_open = opened_by_source(open_transactions(messages, "seq", source="name"))
    for name, stream in streams.items():
        expected = reference.changes(stream)
        assert (found.get(name, []), left_open.get(name, [])) == expected, name


@pytest.mark.parametrize(
    ("partitions", "shuffled"), [(1, False), (2, False), (13, False), (200, False), (8, True)]
)
def test_cut_into_partitions(spark: SparkSession, partitions: int, shuffled: bool) -> None:
    """At random places; where two are the same, into partitions without rows too."""
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


def test_open_transactions(spark: SparkSession) -> None:
    """At random ends, of which many are within transactions, and right after PREPARE."""
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


@pytest.mark.parametrize("name", SOME_STREAMS)
def test_handed_over_between_two_reads(spark: SparkSession, name: str) -> None:
    stream = SOME_STREAMS[name]
    # In the middle of the changes, where transactions are open.
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


@pytest.mark.parametrize("name", SOME_STREAMS)
def test_without_the_beginning(spark: SparkSession, name: str) -> None:
    """From the middle of a streamed block on."""
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
