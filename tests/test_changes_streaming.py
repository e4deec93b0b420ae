"""Structured Streaming gives the same committed changes as batch, and each of them once.

It does not matter how the messages are spread over micro-batches.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_pgoutput import changes, open_transactions
from support import messages as m
from support.orders import HISTORY, ORDERS, history_of, in_order
from support.reference_changes import changes as reference_changes
from support.streams import PROVIDER, ROCKS_DB, Stream, error_of, mixed
from support.table_changes import SOME_STREAMS, assert_equal, by_source, whole
from support.transactions import ordinary

# More bytes than a query keeps in memory for a transaction.
LARGE = 200_000

NAMES = ("one", "two")

# A transaction of a source whose values are times.
AT = "2026-01-02 03:04:05:7"


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path)


@pytest.fixture
def one_partition(spark: SparkSession) -> Iterator[None]:
    """Keep the state in one partition, which is enough for one source, and takes half as long."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", partitions or "2")


def test_micro_batches_of_the_messages_do_not_matter(stream: Stream) -> None:
    """Each file has messages of several sources, in random order."""
    for piece in mixed(random.Random("cuts"), SOME_STREAMS, 4):
        stream.add(piece)
    found = by_source(stream.run(changes(stream.messages, "seq", source="name")))
    assert set(found) == set(SOME_STREAMS)
    for name in SOME_STREAMS:
        assert_equal(found[name], whole(name)[0], name)


def test_scenarios_have_the_changes_of_the_reference(stream: Stream) -> None:
    streams = {name: list(enumerate(messages)) for name, messages in ordinary().items()}
    for piece in mixed(random.Random("cases"), streams, 3):
        stream.add(piece)
    found = by_source(stream.run(changes(stream.messages, "seq", source="name")))
    for name, messages in streams.items():
        assert found.get(name, []) == reference_changes(messages)[0], name


@pytest.mark.usefixtures("one_partition")
def test_a_query_that_failed_gives_each_change_once(spark: SparkSession, stream: Stream) -> None:
    """It fails in its second micro-batch, and starts again."""
    stream.add_messages(HISTORY[:8])
    stream.add_messages(HISTORY[8:], 8)
    found = changes(stream.messages)
    is_alive = F.assert_true(F.col("_position") < 14, F.lit("killed")).isNull()
    assert "killed" in error_of(stream, found.where(is_alive))
    expected = in_order(changes(m.frame(spark, HISTORY)), "*")
    assert in_order(stream.run(found), "*") == expected


@pytest.mark.takes_long
def test_a_query_that_ends_and_starts_again_gives_each_change_once(stream: Stream) -> None:
    """The query ends between micro-batches, during a micro-batch, and at some rows."""
    dice = random.Random("kills")
    names = [*SOME_STREAMS][1:3]
    pieces = mixed(dice, {name: SOME_STREAMS[name] for name in names}, 6)
    found = changes(stream.messages, "seq", source="name")
    # These rows come out in the last micro-batch, so the query still has to give them.
    deadly = [(name, whole(name)[0][-1].position) for name in names]
    for number, piece in enumerate(pieces):
        stream.add(piece)
        if number == 0:
            stream.run(found)
        elif number == 2:
            stream.run(found, stop_after=1)
        elif number == 3:
            stream.run(found, stop_after=0)
    for name, position in deadly:
        killer = F.assert_true(
            ~((F.col("_source") == name) & (F.col("_position") == position)), F.lit("killed")
        )
        assert "killed" in error_of(stream, found.where(killer.isNull()))
    result = by_source(stream.run(found))
    for name in names:
        assert_equal(result[name], whole(name)[0], name)


@pytest.mark.usefixtures("one_partition")
@pytest.mark.parametrize("streamed", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_a_large_transaction_spans_micro_batches(stream: Stream, streamed: bool) -> None:
    """One of its savepoints is rolled back, and other transactions commit before it."""
    text = "x" * 1000
    numbers = [str(number) for number in range(3 * LARGE // len(text))]
    inserts = [m.insert(number, text) for number in numbers]
    messages: list[bytes]
    if streamed:
        kept = [m.in_stream(7 + number % 2, insert) for number, insert in enumerate(inserts)]
        third = len(kept) // 3
        messages = [m.stream_start(7), m.in_stream(7, ORDERS)]
        for start in (0, third, 2 * third):
            other = m.transaction(10 + start, 10 + start, ORDERS, m.insert("-1", None))
            messages += [*kept[start : start + third], m.STREAM_STOP, *other]
            messages += [m.stream_start(7, first=False)]
        messages += [m.STREAM_STOP, b"A" + m.number(7, 4) + m.number(8, 4)]
        messages += [m.stream_commit(7, 1000)]
        numbers = ["-1"] * 3 + numbers[::2]
    else:
        messages = m.transaction(7, 1000, ORDERS, *inserts)
    for start in range(0, len(messages), 250):
        stream.add_messages(messages[start : start + 250], start)
    found = stream.run(changes(stream.messages, schema="id STRING, note STRING"))
    assert [row[0] for row in in_order(found, "id")] == numbers


@pytest.mark.usefixtures("one_partition")
@pytest.mark.parametrize(
    ("rows", "texts"),
    [
        ([(7, b"E"), (7, b"E")], ["PGOUTPUT_MESSAGE_ORDER", "position 7", "checkpoint"]),
        ([(None, b"E")], ["PGOUTPUT_MESSAGE_ORDER", "NULL"]),
        ([(7, b"?")], ["PGOUTPUT_MALFORMED_MESSAGE", "position 7", "pgoutput_error"]),
        ([(7, None)], ["PGOUTPUT_MALFORMED_MESSAGE", "position 7", "WHERE data IS NOT NULL"]),
        ([(7, m.commit(10))], ["PGOUTPUT_INCOMPLETE_TRANSACTION", "position 7", "'skip'"]),
        (
            list(enumerate(m.transaction(1, 10, m.insert("1")))),
            ["PGOUTPUT_UNKNOWN_RELATION", "position 1", "'relations'"],
        ),
        (
            list(enumerate([*m.transaction(1, 20), *m.transaction(2, 10)])),
            ["PGOUTPUT_COMMIT_WENT_BACK", "position 3", "'source'"],
        ),
        (
            list(enumerate(m.transaction(1, 10, ORDERS, m.insert("1")))),
            ["PGOUTPUT_SCHEMA_MISMATCH", "position 2", "public.orders"],
        ),
    ],
)
def test_wrong_messages_stop_the_stream(
    stream: Stream, rows: list[tuple[int, bytes]], texts: list[str]
) -> None:
    stream.add([("one", *row) for row in rows])
    error = error_of(stream, changes(stream.messages))
    assert [text for text in texts if text not in error] == []


@pytest.mark.usefixtures("one_partition")
def test_a_relation_of_another_transaction_does_not_hold(stream: Stream) -> None:
    """The other transaction starts later and commits earlier."""
    change = m.in_stream(7, m.insert("1", None))
    stream.add_messages([m.stream_start(7), change, m.STREAM_STOP])
    other = m.transaction(8, 10, ORDERS, m.insert("2", None))
    stream.add_messages([*other, m.stream_commit(7, 20)], 3)
    error = error_of(stream, changes(stream.messages))
    assert "PGOUTPUT_UNKNOWN_RELATION" in error
    assert "position 1" in error


def test_a_message_of_an_earlier_micro_batch_stops_the_stream(stream: Stream) -> None:
    """Only the positions of the same source count."""
    stream.add([("one", 5, m.STREAM_STOP), ("two", 3, m.STREAM_STOP)])
    stream.add([("one", 6, m.STREAM_STOP)])
    found = changes(stream.messages, source="name")
    assert stream.run(found).isEmpty()
    stream.add([("two", 3, m.STREAM_STOP)])
    error = error_of(stream, found)
    assert "PGOUTPUT_MESSAGE_ORDER" in error
    assert "position 3" in error


@pytest.mark.usefixtures("one_partition")
def test_commits_are_repeated_or_go_back_in_later_micro_batches(stream: Stream) -> None:
    stream.add_messages(HISTORY)
    stream.add_messages(HISTORY, len(HISTORY))
    found = changes(stream.messages)
    assert stream.run(found).count() == 9
    stream.add_messages(HISTORY, 2 * len(HISTORY))
    stream.add_messages(m.transaction(9, 20), 3 * len(HISTORY))
    assert "PGOUTPUT_COMMIT_WENT_BACK" in error_of(stream, found)
    assert stream.found(found).count() == 9


@pytest.mark.usefixtures("one_partition")
def test_incomplete_transactions_are_skipped(stream: Stream) -> None:
    first, rest = HISTORY[1:6], HISTORY[6:]
    stream.add_messages(first)
    stream.add_messages(rest, len(first))
    found = stream.run(changes(stream.messages, options={"incomplete": "skip"}))
    assert {row[0] for row in in_order(found, "_xid")} == {2, 3}


@pytest.mark.usefixtures("one_partition")
def test_after_leaves_out_earlier_commits(stream: Stream) -> None:
    stream.add_messages(HISTORY[:8])
    stream.add_messages(HISTORY[8:], 8)
    found = stream.run(changes(stream.messages, options={"after": "20"}))
    assert in_order(found, "_commit_version") == [(30,), (30,)]


@pytest.mark.usefixtures("one_partition")
@pytest.mark.parametrize("source", [pytest.param(None, marks=pytest.mark.exhaustive), "name"])
def test_relations_of_earlier_messages_hold_for_their_source(
    spark: SparkSession, stream: Stream, source: str | None
) -> None:
    earlier = [("one", place, bytearray(data)) for place, data in enumerate(HISTORY[:6])]
    view = spark.createDataFrame(earlier, "name STRING, seq BIGINT, data BINARY")
    view.createOrReplaceTempView("earlier")
    stream.add([("one", place, data) for place, data in enumerate(HISTORY[6:9], 6)])
    stream.add([("one", place, data) for place, data in enumerate(HISTORY[9:], 9)])
    found = changes(stream.messages, source=source, options={"relations": "earlier"})
    assert {row[0] for row in in_order(stream.run(found), "_xid")} == {2, 3}
    spark.catalog.dropTempView("earlier")

    if source:
        stream.add([("two", place, data) for place, data in enumerate(HISTORY[6:])])
        error = error_of(stream, changes(stream.messages, source="name"))
        assert "PGOUTPUT_UNKNOWN_RELATION" in error


def test_a_source_of_earlier_messages_that_does_not_fit_is_refused(
    spark: SparkSession, stream: Stream
) -> None:
    """Without ANSI, Spark's cast makes another source of it."""
    earlier = m.frame(spark, HISTORY[:6]).withColumn("number", F.lit(2**32 + 1))
    earlier.createOrReplaceTempView("earlier")
    stream.add_messages(HISTORY[6:], 6)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        numbered = stream.messages.withColumn("number", F.lit(1))
        found = changes(numbered, source="number", options={"relations": "earlier"})
        assert "CAST_OVERFLOW" in error_of(stream, found)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.catalog.dropTempView("earlier")


@pytest.mark.usefixtures("one_partition")
def test_relations_are_read_once(spark: SparkSession, stream: Stream) -> None:
    """A query reads them in the first micro-batch of a new checkpoint. EXPLAIN does not."""
    earlier = m.frame(spark, HISTORY[:6]).where(F.expr("seq < 6"))
    reads = spark.sparkContext.accumulator(0)

    def count(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reads.add(1)
        yield from rows

    earlier.coalesce(1).mapInArrow(count, earlier.schema).createOrReplaceTempView("counted")
    try:
        options = {"relations": "counted"}
        changes(stream.messages, options=options).select("*").explain()
        assert reads.value == 0
        for number, start in enumerate((6, 9), 1):
            stream.add_messages(HISTORY[start : start + 3], start)
            found = stream.run(changes(stream.messages, options=options))
            assert reads.value == 1, number
        assert {row[0] for row in in_order(found, "_xid")} == {2}
    finally:
        spark.catalog.dropTempView("counted")


@pytest.mark.usefixtures("one_partition")
def test_relations_with_another_message_at_a_position_are_refused(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    """The view may have the messages of the stream itself."""
    first = m.transaction(5, 50, ORDERS, m.insert("1", None))
    m.frame(spark, first).createOrReplaceTempView("earlier")
    try:
        stream.add_messages(HISTORY)
        found = changes(stream.messages, options={"relations": "earlier"})
        assert stream.run(found).count() == 9  # the message at position 1 is the same
        (tmp_path / "other").mkdir()
        other = Stream(spark, tmp_path / "other")
        other.add_messages(
            m.transaction(6, 60, m.relation("public.t", m.column("k")), m.insert("1"))
        )
        error = error_of(other, changes(other.messages, options={"relations": "earlier"}))
        assert "PGOUTPUT_MESSAGE_ORDER" in error
        assert "position 1: the view of the option 'relations'" in error
    finally:
        spark.catalog.dropTempView("earlier")


@pytest.mark.usefixtures("one_partition")
def test_open_transactions_are_abandoned(stream: Stream) -> None:
    """One of them is in the middle of a stream block."""
    opened = [
        *(m.stream_start(7), m.in_stream(7, ORDERS), m.in_stream(7, m.insert("1", None))),
        *(m.STREAM_STOP, m.stream_start(8), m.in_stream(8, ORDERS)),
    ]
    stream.add_messages(opened)
    stream.run(changes(stream.messages))
    rest = [m.in_stream(8, m.insert("2", None)), m.STREAM_STOP]
    stream.add_messages(rest, 6)
    abandoning = changes(stream.messages, options={"abandon": "7,8"})
    assert stream.run(abandoning).isEmpty()
    stream.add_messages([*HISTORY, m.stream_commit(7, 40)], 8)
    error = error_of(stream, abandoning)
    assert "PGOUTPUT_INCOMPLETE_TRANSACTION" in error
    assert "xid 7" in error
    skipping = changes(stream.messages, options={"incomplete": "skip"})
    assert stream.run(skipping).count() == 9


@pytest.mark.parametrize(
    ("source", "abandoned"),
    [("name", "one:7"), ("if(name = 'one', TIMESTAMP'2026-01-02 03:04:05', NULL)", AT)],
)
def test_a_transaction_is_abandoned_in_its_source_only(
    stream: Stream, source: str, abandoned: str
) -> None:
    """Both sources have an open transaction of the same xid."""
    opened = [
        *(m.stream_start(7), m.in_stream(7, ORDERS), m.in_stream(7, m.insert("1", None))),
        m.STREAM_STOP,
    ]
    stream.add([(name, place, data) for name in NAMES for place, data in enumerate(opened)])
    messages = stream.messages.withColumn("name", F.expr(source))
    stream.run(changes(messages, source="name"))
    stream.add([("two", 4, m.stream_commit(7, 40))])
    found = changes(messages, source="name", options={"abandon": f"x:9,{abandoned}"})
    assert stream.run(found).count() == 1
    stream.add([("one", 4, m.stream_commit(7, 40))])
    assert "PGOUTPUT_INCOMPLETE_TRANSACTION" in error_of(stream, found)


def test_open_transactions_are_refused(stream: Stream) -> None:
    with pytest.raises(AnalysisException, match=r"pgoutput_open.*a stream has no end"):
        open_transactions(stream.messages)


def test_tables_of_a_stream_are_refused(spark: SparkSession, stream: Stream) -> None:
    stream.messages.createOrReplaceTempView("stream")
    with pytest.raises(AnalysisException, match=r"pgoutput_tables.*a stream has no end"):
        spark.sql("SELECT * FROM pgoutput_tables('stream', 'seq')")
    spark.catalog.dropTempView("stream")


@pytest.mark.parametrize(
    ("function", "messages"),
    [
        ("pgoutput_changes", "batch"),
        ("pgoutput_changes", "stream"),
        ("pgoutput_open", "batch"),
        ("pgoutput_tables", "batch"),
    ],
)
def test_a_stream_of_earlier_messages_is_refused(
    spark: SparkSession, stream: Stream, function: str, messages: str
) -> None:
    m.frame(spark, HISTORY).createOrReplaceTempView("batch")
    stream.messages.createOrReplaceTempView("stream")
    try:
        with pytest.raises(AnalysisException, match=rf"{function}.*'relations' names a stream"):
            spark.sql(f"SELECT * FROM {function}('{messages}', 'seq', map('relations', 'stream'))")
    finally:
        spark.catalog.dropTempView("batch")
        spark.catalog.dropTempView("stream")


def test_another_state_store_is_refused(spark: SparkSession, stream: Stream) -> None:
    spark.conf.unset(PROVIDER)
    try:
        with pytest.raises(AnalysisException) as caught:
            changes(stream.messages)
    finally:
        spark.conf.set(PROVIDER, ROCKS_DB)
    assert f"Set {PROVIDER} to {ROCKS_DB}" in str(caught.value)


@pytest.mark.parametrize("kind", ["STRING", pytest.param("BIGINT", marks=pytest.mark.exhaustive)])
def test_typed_rows_of_sources(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """The types and rows are those of batch. NULL is a source too."""
    stream = Stream(spark, tmp_path, kind)
    sources: list[Any] = ["one", "two", None] if kind == "STRING" else [1, 2, None]
    histories = {source: history_of(f"of_{source}".lower()) for source in sources}
    for start in range(0, len(HISTORY), 8):
        rows = [
            (source, place, data)
            for source, history in histories.items()
            for place, data in enumerate(history[start : start + 8], start)
        ]
        stream.add(rows)
    arguments: Any = {
        "source": "name",
        "tables": ",".join(f"of_{source}.orders" for source in sources),
        "schema": "note STRING, id DECIMAL(20,0)",
    }
    found = changes(stream.messages, **arguments)
    streamed = stream.run(found)
    batch_messages = spark.read.schema(stream.messages.schema).parquet(str(tmp_path / "input"))
    batch = changes(batch_messages, **arguments)
    assert found.schema == batch.schema
    assert streamed.count() == batch.count() == 8 * len(sources)
    assert streamed.exceptAll(batch).isEmpty()
    assert batch.exceptAll(streamed).isEmpty()


QUERIES = [
    "SELECT row['id'] AS id, _keys, _missing FROM {found} WHERE _table = 'public.orders'",
    "SELECT _ordinal FROM {found} WHERE _change_type IN ('delete', 'truncate') AND _xid > 1",
    "SELECT upper(_table) AS t FROM {found} WHERE _table = 'nothing' OR row['id'] = '1'",
]


@pytest.mark.usefixtures("one_partition")
@pytest.mark.parametrize(
    "query", [QUERIES[0], *(pytest.param(q, marks=pytest.mark.exhaustive) for q in QUERIES[1:])]
)
def test_queries_that_use_some_columns_give_what_batch_gives(
    spark: SparkSession, stream: Stream, tmp_path: Path, query: str
) -> None:
    stream.add_messages(HISTORY)
    messages = stream.messages
    streamed = stream.run(spark.sql(query, found=changes(messages, source="name")))
    batch_messages = spark.read.schema(messages.schema).parquet(str(tmp_path / "input"))
    batch = spark.sql(query, found=changes(batch_messages, source="name").persist())
    assert streamed.count() > 0
    assert streamed.exceptAll(batch).isEmpty()
    assert batch.exceptAll(streamed).isEmpty()


@pytest.mark.exhaustive  # test_a_type_of_an_earlier_micro_batch_holds has a VARIANT too
def test_rows_can_be_variants(stream: Stream) -> None:
    stream.add_messages(HISTORY)
    found = changes(stream.messages, options={"row": "variant"})
    streamed = stream.run(found.withColumn("row", F.to_json("row")))
    assert in_order(streamed, "row")[:2] == [('{"id":1,"note":"a"}',), ('{"id":2,"note":null}',)]


@pytest.mark.usefixtures("one_partition")
def test_a_type_of_an_earlier_micro_batch_holds(stream: Stream) -> None:
    """The type of a domain is that of its base type."""
    table = m.relation("public.t", m.column("d", 20000))
    stream.add_messages([m.begin(1, 10), m.type_(20000, "int4"), table])
    stream.add_messages([m.insert("1"), m.commit(10)], 3)
    stream.add_messages(m.transaction(2, 20, m.insert("2")), 5)
    found = changes(stream.messages, options={"row": "variant"})
    streamed = stream.run(found.withColumn("row", F.to_json("row")))
    assert in_order(streamed, "row") == [('{"d":1}',), ('{"d":2}',)]


@pytest.mark.takes_long
def test_another_number_of_shuffle_partitions_does_not_matter(
    spark: SparkSession, stream: Stream
) -> None:
    """The number of the checkpoint counts after a restart, and messages stay in order."""
    dice = random.Random("partitions")
    streams = {f"{number}": list(enumerate(HISTORY)) for number in range(5)}
    first, second = mixed(dice, streams, 2)
    found = changes(stream.messages, source="name")
    stream.add(first)
    stream.run(found)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    stream.add(second)
    streamed = stream.run(changes(stream.messages, source="name"))
    spark.conf.set("spark.sql.shuffle.partitions", before or "2")
    expected = in_order(changes(m.frame(spark, HISTORY)), "*")
    for name in streams:
        assert in_order(streamed.where(F.col("_source") == name).drop("_source"), "*") == expected


@pytest.mark.usefixtures("one_partition")
def test_foreach_batch_can_read_a_micro_batch_twice(spark: SparkSession, stream: Stream) -> None:
    for start in range(0, len(HISTORY), 8):
        stream.add_messages(HISTORY[start : start + 8], start)
    batches: dict[int, list[tuple[Any, ...]]] = {}

    def take(batch: DataFrame, number: int) -> None:
        rows = in_order(batch, "*")
        assert rows == in_order(batch, "*")
        batches[number] = rows

    writer = changes(stream.messages).writeStream.foreachBatch(take)
    writer.trigger(availableNow=True).start().awaitTermination()
    history = m.frame(spark, HISTORY)
    assert [row for number in sorted(batches) for row in batches[number]] == in_order(
        changes(history), "*"
    )
    assert len(batches) == 2
