"""The arguments that the SQL functions accept and refuse, and their descriptions."""

from __future__ import annotations

import json
import random
import re

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_pgoutput import functions as PF
from spark_pgoutput import message_schema
from support.errors import error_of

MESSAGE_FUNCTIONS = ["pgoutput_decode", "try_pgoutput_decode", "pgoutput_error"]
LSN_FUNCTIONS = ["pg_lsn_format", "pg_lsn_parse", "try_pg_lsn_parse"]

HINT = "DATATYPE_MISMATCH.TYPE_CHECK_FAILURE_WITH_HINT"
TYPE = "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"
NUMBER = "WRONG_NUM_ARGS.WITHOUT_SUGGESTION"

# The arguments, the error's condition, and words of its text.
REFUSED = [
    ("'45'", HINT, ["BINARY", "not STRING", "unhex(", "CAST("]),
    ("text", HINT, ["BINARY", "not STRING", "unhex(", "CAST("]),
    ("'45' COLLATE UTF8_LCASE", HINT, ["BINARY", "not STRING"]),
    ("1", TYPE, ["first", '"BINARY"', '"INT"']),
    ("array(X'45')", TYPE, ["first", '"BINARY"', '"ARRAY<BINARY>"']),
    ("X'45', 'true'", TYPE, ["second", '"BOOLEAN"', '"STRING"']),
    ("X'45', 1", TYPE, ["second", '"BOOLEAN"', '"INT"']),
    ("X'45', map('mode', 'PERMISSIVE')", TYPE, ["second", '"BOOLEAN"']),
    ("X'45', true, 'PERMISSIVE'", HINT, ["options", "constant map of strings", "not STRING"]),
    ("X'45', true, map(1, 2)", HINT, ["'1'", "'mode'", "'encoding'"]),
    ("X'45', true, map('mode', text)", HINT, ["options", "must be constant"]),
    ("X'45', true, map('mod', 'FAILFAST')", HINT, ["'mod'", "'mode'", "'encoding'"]),
    ("X'45', true, map('mode', 'DROP')", HINT, ["'DROP'", "'mode'", "FAILFAST", "PERMISSIVE"]),
    ("X'45', true, map('mode', NULL)", HINT, ["'mode'", "FAILFAST", "PERMISSIVE"]),
    ("X'45', true, map('MODE', 'PERMISSIVE', 'mode', 'PERMISSIVE')", HINT, ["'mode'", "twice"]),
    (
        "X'45', true, map('encoding', 'MULE_INTERNAL')",
        HINT,
        ["'MULE_INTERNAL'", "'encoding'", "UTF8", "LATIN1", "WIN1252", "KOI8R", "EUC_JP", "SJIS"],
    ),
    ("X'45', true, map('encoding', NULL)", HINT, ["'encoding'", "UTF8"]),
    ("X'45', true, map('encoding', '')", HINT, ["''", "'encoding'", "UTF8"]),
    ("", NUMBER, ["[1, 2, 3]", "0"]),
    ("X'45', true, map('mode', 'PERMISSIVE'), 1", NUMBER, ["[1, 2, 3]", "4"]),
]


def assert_refused(spark: SparkSession, call: str, condition: str, words: list[str]) -> None:
    """Check that Spark refuses a call when it analyzes the query, which then does not run."""
    with pytest.raises(AnalysisException) as raised:
        spark.sql(f"SELECT {call} FROM VALUES ('PERMISSIVE') AS t(text)")
    assert raised.value.getCondition() == condition, call
    missing = [word for word in words if word not in str(raised.value)]
    assert not missing, (call, str(raised.value))


@pytest.mark.parametrize("function", MESSAGE_FUNCTIONS)
def test_wrong_arguments_are_refused_at_analysis(spark: SparkSession, function: str) -> None:
    """The functions check their arguments with the same code, so one function gets them all."""
    refused = REFUSED if function == "pgoutput_decode" else REFUSED[3::5]
    for arguments, condition, words in refused:
        assert_refused(spark, f"{function}({arguments})", condition, words)


def test_try_pgoutput_decode_refuses_failfast(spark: SparkSession) -> None:
    call = "try_pgoutput_decode(X'45', true, map('mode', 'FAILFAST'))"
    assert_refused(spark, call, HINT, ["PERMISSIVE", "FAILFAST", " pgoutput_decode"])


def test_wrong_arguments_of_lsn_functions_are_refused_at_analysis(spark: SparkSession) -> None:
    for call, condition in [
        ("pg_lsn_format(true)", TYPE),
        ("pg_lsn_format(X'16')", TYPE),
        ("pg_lsn_format('16/1A')", HINT),
        ("pg_lsn_parse(array('0/0'))", TYPE),
        ("try_pg_lsn_parse(map())", TYPE),
        ("pg_lsn_format()", NUMBER),
        ("pg_lsn_parse('0/0', 1)", NUMBER),
        ("try_pg_lsn_parse()", NUMBER),
    ]:
        assert_refused(spark, call, condition, [call.partition("(")[0]])


def test_options_can_be_in_any_case_and_any_constant_expression(spark: SparkSession) -> None:
    expected: dict[str, str | None] = {}
    for options in (
        "NULL",
        "map()",
        "map('Mode', 'permissive')",
        "map('ENCODING', 'utf8', 'mode', 'Permissive')",
        "map('encoding', 'Latin1')",
        "map_from_arrays(array('mode'), array(upper('permissive')))",
    ):
        arguments = f"(X'45', NULL, {options})"
        expected[f"pgoutput_decode{arguments}.type"] = "STREAM_STOP"
        expected[f"try_pgoutput_decode{arguments}.type"] = "STREAM_STOP"
        expected[f"pgoutput_error{arguments}"] = None
    (row,) = spark.sql(f"SELECT {', '.join(expected)}").collect()
    assert dict(zip(expected, row, strict=True)) == expected


def test_pgoutput_error_ignores_the_mode(spark: SparkSession) -> None:
    for mode in ("FAILFAST", "PERMISSIVE"):
        call = f"pgoutput_error(X'4500', false, map('mode', '{mode}'))"
        (row,) = spark.sql(f"SELECT {call} AS error").collect()
        assert row.error.startswith("STREAM_STOP at byte 1")


LSNS = {
    0: "0/0",
    1: "0/1",
    2**32 - 1: "0/FFFFFFFF",
    2**32: "1/0",
    97_500_059_720: "16/B374D848",
    94_489_280_538: "16/1A",
    2**63 - 1: "7FFFFFFF/FFFFFFFF",
    -(2**63): "80000000/0",
    -2: "FFFFFFFF/FFFFFFFE",
    -1: "FFFFFFFF/FFFFFFFF",
}

# Texts that PostgreSQL also accepts. PostgreSQL 19 pads the second half with zeros.
OTHER_TEXTS = {
    "00000000/00000000": 0,
    "16/0000001A": 94_489_280_538,
    "0000016/b374d848": 97_500_059_720,
    "ffffffff/FFFFfffe": -2,
}

NO_LSN = (
    *("", "/", "1", "1/", "/1", "1/2/3", "1-2", "1//2", "G/1", "1/G", "0x1/0x2", "-1/1", "+1/1"),
    *(
        "100000000/1",
        "1/100000000",
        "000000001/1",
        " 1/2",
        "1/2 ",
        "1 /2",
        "1/2\n",
        "１/２",
        "NULL",
    ),
)


def lsn_texts(spark: SparkSession, texts: list[str]) -> list[DataFrame]:
    """Return a frame that Spark evaluates with generated code, and one without."""
    values = ", ".join("('" + text.replace("\n", "\\n") + "')" for text in texts)
    return [
        spark.createDataFrame([(text,) for text in texts], "text string"),
        spark.sql(f"SELECT * FROM VALUES {values} AS t(text)"),
    ]


def test_an_lsn_is_the_same_after_it_is_formatted_and_parsed(spark: SparkSession) -> None:
    at_random = random.Random(1)
    lsns = [*LSNS, *(at_random.randrange(-(2**63), 2**63) for _ in range(1_000))]
    expected = [(lsn, f"{lsn % 2**64 >> 32:X}/{lsn % 2**32:X}", lsn) for lsn in lsns]
    assert [text for _, text, _ in expected][: len(LSNS)] == list(LSNS.values())
    frame = spark.createDataFrame([(lsn,) for lsn in lsns], "lsn bigint")
    formatted = frame.withColumn("text", PF.pg_lsn_format("lsn"))
    assert formatted.withColumn("again", PF.pg_lsn_parse("text")).collect() == expected


@pytest.mark.parametrize("function", ["pg_lsn_parse", "try_pg_lsn_parse"])
def test_texts_of_lsns_are_parsed(spark: SparkSession, function: str) -> None:
    expected = {**{text: lsn for lsn, text in LSNS.items()}, **OTHER_TEXTS}
    for frame in lsn_texts(spark, list(expected)):
        parsed = frame.selectExpr("text", f"{function}(text)").collect()
        assert dict(map(tuple, parsed)) == expected


def test_a_text_that_is_not_an_lsn_is_an_error_or_null(spark: SparkSession) -> None:
    for frame in lsn_texts(spark, list(NO_LSN)):
        tried = frame.selectExpr("text", "try_pg_lsn_parse(text)").collect()
        assert dict(map(tuple, tried)) == dict.fromkeys(NO_LSN)
    for text in ("", "1/2\n"):
        constant = F.call_function("pg_lsn_parse", F.lit(text))
        assert_is_not_an_lsn(spark.range(1).select(constant), text)
    for frame in lsn_texts(spark, ["0/0", "0/0x"]):
        assert_is_not_an_lsn(frame.selectExpr("pg_lsn_parse(text)"), "0/0x")


def assert_is_not_an_lsn(parsed: DataFrame, text: str) -> None:
    error = error_of(parsed)
    assert error.getCondition() == "PGOUTPUT_INVALID_LSN"
    assert error.getSqlState() == "22P02"
    shown = text.replace("\n", "\\n")  # errors escape control characters
    assert f"'{shown}'" in str(error)


def test_lsn_of_null_is_null(spark: SparkSession) -> None:
    calls = "pg_lsn_format(NULL), pg_lsn_parse(NULL), try_pg_lsn_parse(NULL)"
    assert spark.sql(f"SELECT {calls}").collect() == [(None, None, None)]


def description(spark: SparkSession, function: str) -> str:
    rows = spark.sql(f"DESCRIBE FUNCTION EXTENDED {function}").collect()
    return "\n".join(row.function_desc for row in rows)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(name, ["data", "in_stream", "options"]) for name in MESSAGE_FUNCTIONS]
    + [("pg_lsn_format", ["lsn"]), ("pg_lsn_parse", ["text"]), ("try_pg_lsn_parse", ["text"])],
)
def test_describe_function_shows_the_arguments_and_examples(
    spark: SparkSession, function: str, arguments: list[str]
) -> None:
    text = description(spark, function)
    usage, _, rest = text.partition("Arguments:")
    described, _, examples = rest.partition("Examples:")
    assert re.search(rf"Usage:\s+{function}\(.*\) - \w", usage)
    assert re.findall(r"^ +\* (\w+) - ", described, re.MULTILINE) == arguments
    assert f"> SELECT {'' if 'pgoutput' in function else function}" in examples
    assert re.search(r"Since: \d+\.\d+\.\d+", examples)
    assert "_FUNC_" not in text
    assert "N/A" not in text


@pytest.mark.parametrize("function", MESSAGE_FUNCTIONS + LSN_FUNCTIONS)
def test_described_examples_give_what_they_show(spark: SparkSession, function: str) -> None:
    examples = re.findall(r"^ +> (SELECT .*);\n +(.*)$", description(spark, function), re.MULTILINE)
    assert examples
    for query, shown in examples:
        (row,) = spark.sql(query).collect()
        assert "\t".join(map(as_shown, row)) == shown, query


def as_shown(value: object) -> str:
    """Format a value as spark-sql does."""
    match value:
        case None:
            return "NULL"
        case bool() | list():
            return json.dumps(value, separators=(",", ":"))
        case _:
            return str(value)


def test_describe_shows_the_comment_of_each_field(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW messages AS "
        "SELECT d.* FROM (SELECT pgoutput_decode(X'45') AS d)"
    )
    described = spark.sql("DESCRIBE messages").collect()
    spark.catalog.dropTempView("messages")
    assert described == [
        (field.name, field.dataType.simpleString(), field.metadata["comment"])
        for field in message_schema()
    ]
    assert all(row.comment for row in described)
