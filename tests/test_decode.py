"""Spark decodes real and made messages as the reference decoder does."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from support import messages as m
from support.comparison import Comparison, compare
from support.data_files import Captured, capture, captures, golden, in_stream_flags
from support.large_messages import messages_of_large_values, messages_of_many_columns

# A prime: periodic workloads show every part of their period.
SAMPLE_STEP = 101

# The arguments of a query, and the context that they give.
CONTEXTS = {
    "given": ("data, in_stream", "in_stream"),
    "left out": ("data", "CAST(NULL AS BOOLEAN)"),
}


def decoded(messages: DataFrame, context: str) -> DataFrame:
    arguments, in_stream = CONTEXTS[context]
    return messages.selectExpr(
        "data",
        f"{in_stream} AS in_stream",
        f"pgoutput_decode({arguments}) AS decoded",
        f"pgoutput_error({arguments}) AS error",
    )


def frame_of(spark: SparkSession, messages: list[bytes]) -> DataFrame:
    rows = [(bytearray(message), False) for message in messages]
    return spark.createDataFrame(rows, "data binary, in_stream boolean")


@pytest.fixture
def messages(captured: Captured, versions: tuple[str, ...]) -> DataFrame:
    """Give all captured messages of some versions."""
    return captured(captures(versions))


def test_captured_messages_decode_as_in_the_reference(
    messages: DataFrame, versions: tuple[str, ...]
) -> None:
    """Two thirds of the messages are in several captures, and are compared once."""
    distinct = {
        message
        for sent in map(capture, captures(versions))
        for message in zip(sent, in_stream_flags(sent), strict=True)
    }
    found = compare(decoded(messages.select("data", "in_stream").distinct(), "given"))
    assert found == Comparison(len(distinct), len(distinct), [])


def test_captured_messages_decode_the_same_without_their_context(messages: DataFrame) -> None:
    given, left_out = "pgoutput_decode(data, in_stream)", "pgoutput_decode(data)"
    same = messages.where(f"{given} <=> {left_out} AND pgoutput_error(data) IS NULL")
    assert same.count() == messages.count()


@pytest.mark.usefixtures("interpreted")
def test_captured_messages_decode_without_generated_code(messages: DataFrame) -> None:
    sample = messages.where(f"seq % {SAMPLE_STEP} = 0")
    rows, well_formed, differences = compare(decoded(sample, "given"))
    assert differences == []
    assert rows == well_formed > 500


@pytest.mark.parametrize("context", CONTEXTS)
def test_golden_messages(spark: SparkSession, context: str) -> None:
    """Their fields are stored with them, so this needs no reference decoder."""
    rows = [(bytearray(message.data), message.in_stream) for message in golden()]
    frame = spark.createDataFrame(rows, "data binary, in_stream boolean")
    with_numbers = F.col("decoded")
    for name in ("timestamp", "prepare_timestamp"):
        with_numbers = with_numbers.withField(name, F.unix_micros(f"decoded.{name}"))
    collected = decoded(frame, context).select(with_numbers.alias("decoded"), "error").collect()
    for message, (fields, error) in zip(golden(), collected, strict=True):
        present = {name: field for name, field in fields.asDict(True).items() if field is not None}
        assert with_hex(present) == message.decoded, message
        assert error is None, message


def with_hex(value: Any) -> Any:  # noqa: ANN401
    """Replace bytes by hexadecimal text, as in the golden messages."""
    match value:
        case dict():
            return {name: with_hex(member) for name, member in value.items()}
        case list():
            return [with_hex(element) for element in value]
        case bytes() | bytearray():
            return value.hex()
        case _:
            return value


def test_large_messages_between_small_ones(spark: SparkSession) -> None:
    small = [message.data for message in golden() if not message.in_stream][:20]
    large = [*messages_of_many_columns(), *messages_of_large_values()]
    messages = [message for each in large for message in (*small, each)] + small
    frame = frame_of(spark, messages).coalesce(1)
    assert compare(decoded(frame, "given")) == Comparison(len(messages), len(messages), [])


def test_two_decodes_in_one_row(spark: SparkSession) -> None:
    """The messages, their contexts and the options differ."""
    messages = [(bytearray(message.data), message.in_stream) for message in golden()]
    pairs = [(*one, *other) for one, other in zip(messages, reversed(messages), strict=True)]
    schema = "data binary, in_stream boolean, other binary, other_in_stream boolean"
    calls = [
        ("data", "in_stream", "data, in_stream"),
        ("other", "other_in_stream", "other, other_in_stream"),
        ("data", "CAST(NULL AS BOOLEAN)", "data"),
        ("other", "CAST(NULL AS BOOLEAN)", "other, NULL, map('mode', 'PERMISSIVE')"),
    ]
    structs = [
        f"struct({data} AS data, {in_stream} AS in_stream, pgoutput_decode({call}) AS decoded)"
        for data, in_stream, call in calls
    ]
    frame = spark.createDataFrame(pairs, schema)
    both = frame.selectExpr(f"inline(array({', '.join(structs)}))")
    assert compare(both) == Comparison(len(calls) * len(pairs), len(calls) * len(pairs), [])


@pytest.mark.parametrize(
    "arguments",
    [
        "data",
        "data, true",
        "data, in_stream",
        "data, in_stream, map('mode', 'PERMISSIVE')",
        "data, NULL, NULL",
    ],
)
def test_null_and_zero_bytes_are_null(spark: SparkSession, arguments: str) -> None:
    """PostgreSQL 13 and older send a message of zero bytes if an origin was dropped."""
    rows = [(None, True), (bytearray(), True), (None, None), (bytearray(), None)]
    functions = ("pgoutput_decode", "try_pgoutput_decode", "pgoutput_error")
    calls = [f"{function}({arguments}) IS NULL" for function in functions]
    # Columns of rows, and constants, which Spark's optimizer evaluates.
    constants = f"VALUES {', '.join(constant(*row) for row in rows)} AS t(data, in_stream)"
    frames = [
        spark.createDataFrame(rows, "data binary, in_stream boolean").selectExpr(*calls),
        spark.sql(f"SELECT {', '.join(calls)} FROM {constants}"),
    ]
    for frame in frames:
        assert [tuple(row) for row in frame.collect()] == [(True, True, True)] * len(rows)


def constant(data: bytearray | None, in_stream: bool | None) -> str:
    """Return the message and its context as SQL literals."""
    binary = "CAST(NULL AS BINARY)" if data is None else f"X'{data.hex()}'"
    return f"({binary}, CAST({'NULL' if in_stream is None else in_stream} AS BOOLEAN))"


# These bytes are not text in any of the encodings.
RAW = bytes.fromhex("00 81 8d 98 a0 fd fe ff 80")


def messages_with(text: bytes) -> list[bytes]:
    """Return a message of each type that has texts. All texts in it are this one."""
    row: list[m.Cell] = [text, m.Binary(RAW), text * 2]
    return [
        m.origin(text),
        m.logical_message(text, RAW, transactional=True),
        m.relation(text + b"." + text, m.column(text), m.column(text + text)),
        m.type_(70_000, text, text),
        m.insert(*row),
        m.update(*row, key=row),
        m.delete(old=row),
        m.begin_prepare(7, text, 10),
        m.prepare(7, text, 10),
        m.commit_prepared(7, text, 10),
        m.rollback_prepared(7, text, 10),
        m.stream_prepare(7, text, 10),
    ]


# The option, Python's name of the encoding, a text, and bytes that are not a text.
ENCODINGS = [
    ("UTF8", "utf-8", "żółw 亀 🐢", "c3"),
    ("unicode", "utf-8", "żółw 亀 🐢", "eda080"),
    ("LATIN1", "latin-1", "tortue à têté", None),
    ("iso_8859-1", "latin-1", "tortue à têté", None),
    ("Win1251", "cp1251", "черепаха №", "98"),
    ("windows-1251", "cp1251", "черепаха №", "98"),
    ("EUC_JP", "euc_jp", "亀とカメ", "a1"),
    ("euc-jp", "euc_jp", "亀とカメ", "a1ff"),
    ("SJIS", "cp932", "亀とｶﾒ～", "8120"),
    ("Shift_Jis", "cp932", "亀とｶﾒ～", "81ff"),
]


@pytest.mark.parametrize(("option", "codec", "text", "invalid"), ENCODINGS)
def test_the_encoding_applies_to_texts(
    spark: SparkSession, option: str, codec: str, text: str, invalid: str | None
) -> None:
    """These are names, prefixes, gids, origins and text values, not binary values and contents."""
    valid = messages_with(text.encode(codec))
    malformed = [] if invalid is None else messages_with(b"a" + bytes.fromhex(invalid) + b"a")
    arguments = f"data, in_stream, map('Encoding', '{option}')"
    frame = frame_of(spark, valid + malformed).selectExpr(
        "data",
        "in_stream",
        f"try_pgoutput_decode({arguments}) AS decoded",
        f"pgoutput_error({arguments}) AS error",
    )
    expected = Comparison(len(valid) + len(malformed), len(valid), [])
    assert compare(frame, codec) == expected


def test_encoding_is_postgresql_s_where_others_differ(spark: SparkSession) -> None:
    """See the wave dash in src/backend/utils/mb/Unicode/euc_jp_to_utf8.map."""
    origin = (b"O" + bytes(8) + b"\xa1\xc1\x00").hex()
    call = f"pgoutput_decode(X'{origin}', false, map('encoding', 'EUC_JP'))"
    assert spark.sql(f"SELECT {call}.origin").collect() == [("\uff5e",)]
