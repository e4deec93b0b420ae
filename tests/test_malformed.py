"""Spark and the reference decoder agree on damaged messages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.errors import IllegalArgumentException, SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from spark_pgoutput import functions as PF
from support.comparison import compare, error_of
from support.data_files import golden
from support.mutations import cuts, extended, random_mutations, replaced
from support.unusual_messages import LEGAL, MALFORMED, NO_READING, READINGS

SEED = 20_000_101
RANDOM_MUTATIONS = 8_000
TIMES_IF_EXHAUSTIVE = 28
# Primes, so that mutations of every kind are in a sample, and in a smaller one.
STEP, FURTHER_STEP = 29, 19

CONTEXTS = ("CAST(NULL AS BOOLEAN)", "false", "true")


def right_messages() -> list[bytes]:
    """Return real messages, and made ones at the limits of the format."""
    made = [text for cases in (LEGAL, READINGS) for text, _ in cases.values()]
    return [message.data for message in golden()] + [bytes.fromhex(text) for text in made]


def wrong_messages() -> list[bytes]:
    return [
        *(bytes.fromhex(text) for text, _, _ in MALFORMED.values()),
        *(bytes.fromhex(text) for text, _ in NO_READING.values()),
    ]


def at_most_one_thing_wrong() -> Iterator[bytes]:
    for message in right_messages():
        yield message
        yield from cuts(message)
        yield from extended(message)
        yield from replaced(message)
    yield from wrong_messages()


def in_every_context(spark: SparkSession, messages: list[bytes], folder: Path) -> DataFrame:
    """Decode each message without a context, outside of a stream block, and in one."""
    parts = 4
    for part in range(parts):
        table = pa.table({"data": messages[part::parts]})
        pyarrow.parquet.write_table(table, folder / f"{part}.parquet")
    contexts = ", ".join(CONTEXTS)
    return (
        spark.read.parquet(str(folder))
        .selectExpr("data", f"explode(array({contexts})) AS in_stream")
        .selectExpr(
            "data",
            "in_stream",
            "try_pgoutput_decode(data, in_stream) AS decoded",
            "pgoutput_error(data, in_stream) AS error",
        )
    )


@cache
def sample(step: int = STEP) -> list[bytes]:
    return sorted({*islice(at_most_one_thing_wrong(), 0, None, step)})


def assert_as_in_the_reference(spark: SparkSession, messages: list[bytes], folder: Path) -> None:
    """Check that both give the same values of a message, or refuse it at the same byte."""
    rows, decoded, differences = compare(in_every_context(spark, messages, folder))
    assert differences == []
    assert rows == len(CONTEXTS) * len(messages)
    assert 0 < decoded < rows


def test_messages_with_one_mistake_are_as_in_the_reference(
    spark: SparkSession, tmp_path: Path, exhaustive: bool
) -> None:
    assert_as_in_the_reference(spark, sample(1 if exhaustive else STEP), tmp_path)


def test_messages_with_many_mistakes_are_as_in_the_reference(
    spark: SparkSession, tmp_path: Path, exhaustive: bool
) -> None:
    count = RANDOM_MUTATIONS * (TIMES_IF_EXHAUSTIVE if exhaustive else 1)
    messages = sorted({*random_mutations(right_messages(), count, SEED)})
    assert_as_in_the_reference(spark, messages, tmp_path)


@pytest.mark.usefixtures("interpreted")
def test_messages_with_one_mistake_without_generated_code(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert_as_in_the_reference(spark, sample()[::FURTHER_STEP], tmp_path)


def test_permissive_mode_gives_what_try_pgoutput_decode_gives(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = in_every_context(spark, sample()[::FURTHER_STEP], tmp_path).withColumn(
        "permissive",
        PF.pgoutput_decode("data", "in_stream", {"MODE": "permissive"}),
    )
    assert frame.where("NOT permissive <=> decoded").isEmpty()
    assert not frame.where("permissive IS NULL").isEmpty()
    assert not frame.where("permissive IS NOT NULL").isEmpty()


# A malformed message of each type, the name of the type, the byte, and the field there.
REPORTED = [
    ("42 0000000000000000 00", "BEGIN", 9, "timestamp"),
    ("4d 00 0000000000000000 00 00000002 61", "MESSAGE", 15, "content"),
    ("43 01", "COMMIT", 1, "flags"),
    ("4f 0000000000000000 6162", "ORIGIN", 9, "origin"),
    (
        "52 00000001 00 00 64 0001 00 6100 00000000 000000",
        "RELATION",
        17,
        "relation, column 1, type_modifier",
    ),
    ("59 00000001 00 6162", "TYPE", 6, "pg_type, name"),
    ("49 00004010 4e 0003 6e 75 74 00000004 6162", "INSERT", 15, "new, column 3"),
    ("55 00000001 4b 0001 6e 4e 0001 78", "UPDATE", 12, "new, column 1, kind"),
    ("44 00000001 4e 0000", "DELETE", 5, "old, marker"),
    ("54 00000002 00 00000001 000000", "TRUNCATE", 6, "relation_ids"),
    ("53 00000001 02", "STREAM_START", 5, "first_segment, flags"),
    ("45 00", "STREAM_STOP", 1, None),
    ("63 00000001 01", "STREAM_COMMIT", 5, "flags"),
    ("41 0000035b 0000035f 00", "STREAM_ABORT", 9, "lsn"),
    ("62" + "00" * 28 + "61", "BEGIN_PREPARE", 29, "gid"),
    ("50 80", "PREPARE", 1, "flags"),
    ("4b 00 00000000", "COMMIT_PREPARED", 2, "lsn"),
    ("72" + "00" * 17 + "7ffca2fec4c82000", "ROLLBACK_PREPARED", 18, "prepare_timestamp"),
    ("70 00 0000000000000000 0000", "STREAM_PREPARE", 10, "end_lsn"),
    ("5a 00", "unknown message", 0, "type"),
]


def error_texts(spark: SparkSession) -> list[tuple[bytes, str]]:
    messages = [bytes.fromhex(text) for text, *_ in REPORTED]
    frame = spark.createDataFrame([(bytearray(data),) for data in messages], "data binary")
    texts = frame.select(PF.pgoutput_error("data", in_stream=False)).collect()
    return [(data, text) for data, (text,) in zip(messages, texts, strict=True)]


def test_error_names_message_byte_and_field(spark: SparkSession) -> None:
    reported = []
    for data, text in error_texts(spark):
        error = error_of(data, text)
        reported.append((error["message"], int(error["at"]), error["place"]))
    assert reported == [tuple(expected) for _, *expected in REPORTED]


def test_text_of_an_error(spark: SparkSession) -> None:
    data = bytes.fromhex("49 00004010 4e 0003 6e 75 74 00000004 6162")
    text = "INSERT at byte 15 (new, column 3): need 4 bytes, got 2; message of 17 bytes: "
    assert (data, text + data.hex()) in error_texts(spark)


def test_error_without_context_belongs_to_the_reading_that_got_further(spark: SparkSession) -> None:
    """If both get equally far, it is the reading without a transaction id."""
    for text, at, place in [
        ("49", 1, "relation_id"),
        ("49 00000001 4e 0001 78", 9, "new, marker"),
        ("49 00000002 00000001 4e 0001 78", 12, "new, column 1, kind"),
        ("54 00000000 00 00", 6, None),
    ]:
        data = bytes.fromhex(text)
        (row,) = spark.sql(f"SELECT pgoutput_error(X'{data.hex()}') AS error").collect()
        error = error_of(data, row.error)
        assert (int(error["at"]), error["place"]) == (at, place), row.error


def test_excerpt_of_a_long_message(spark: SparkSession) -> None:
    (row,) = spark.sql(f"SELECT pgoutput_error(X'45{'ab' * 1_000}')").collect()
    assert row[0].endswith(f"message of 1001 bytes: 45{'ab' * 31}…")


def assert_fails(frame: DataFrame, text: str) -> None:
    with pytest.raises(IllegalArgumentException) as raised:
        frame.collect()
    assert raised.value.getCondition() == "PGOUTPUT_MALFORMED_MESSAGE"
    assert raised.value.getSqlState() == "08P01"
    assert str(raised.value) == f"[PGOUTPUT_MALFORMED_MESSAGE] {text}. SQLSTATE: 08P01"


def test_failfast_fails_with_the_error(spark: SparkSession) -> None:
    three = error_texts(spark)[1::9]
    for (data, text), options in zip(three, ("", "", ", map('Mode', 'FailFast')"), strict=True):
        query = f"SELECT pgoutput_decode(X'{data.hex()}', false{options})"
        assert_fails(spark.sql(query), text)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT pgoutput_decode(data) FROM {messages}",
        # The whole message is checked, whichever field the query uses.
        "SELECT pgoutput_decode(data).type FROM {messages}",
        "SELECT data FROM {messages} WHERE pgoutput_decode(data).xid IS NULL",
        "SELECT collect_list(pgoutput_decode(data).lsn) FROM {messages}",
        "SELECT transform(array(data), x -> pgoutput_decode(x)) FROM {messages}",
    ],
)
def test_failfast_fails_in_a_query_over_rows(spark: SparkSession, query: str) -> None:
    """Only the last message is malformed."""
    text = "STREAM_STOP at byte 1: 1 byte left over; message of 2 bytes: 4500"
    rows = [(bytearray(message.data),) for message in golden()] + [(bytearray(b"E\x00"),)]
    messages = spark.createDataFrame(rows, "data binary").coalesce(1)
    assert_fails(spark.sql(query, messages=messages), text)


@pytest.mark.parametrize("function", ["pgoutput_decode", "try_pgoutput_decode", "pgoutput_error"])
def test_other_exceptions_are_not_malformed_messages(spark: SparkSession, function: str) -> None:
    call = f"{function}(CAST(raise_error('no message') AS BINARY), NULL, map('mode', 'PERMISSIVE'))"
    with pytest.raises(SparkRuntimeException) as raised:
        spark.sql(f"SELECT {call}").collect()
    assert raised.value.getCondition() == "USER_RAISED_EXCEPTION"
