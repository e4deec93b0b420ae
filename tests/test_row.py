"""What pgoutput_row, try_pgoutput_row and pgoutput_schema accept, refuse and distinguish."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import Column, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

import spark_pgoutput
from spark_pgoutput import functions as PF
from support import messages as m
from support.errors import error_of
from support.optimizer import DECODE_RULE

MODES = ("FAILFAST", "PERMISSIVE")

REFUSED = [
    ("d, 'a INT'", ["first argument", "d.new", "STRUCT<"]),
    ("d.new, 'id BIGNT'", ["PARSE_SYNTAX_ERROR", "'BIGNT'", "the argument 'schema'", "'id BIGNT'"]),
    ("d.new, 'a\u202eb no'", ["PARSE_SYNTAX_ERROR", r"which is 'a\u202eb no'"]),
    ("1, 'a INT'", ["first argument", "d.new", "INT"]),
    ("d.new, 'a INT', array('x')", ["type_ids", "ARRAY<BIGINT>", "ARRAY<STRING>"]),
    ("d.new, 'a INT', 23", ["type_ids", "ARRAY<BIGINT>", "INT"]),
    ("d.new, 'a INT', NULL, map('mod', 'FAILFAST')", ["'mod'", "'mode'", "'moneyScale'"]),
    ("d.new, 'a INT', NULL, map('mode', 'DROP')", ["'DROP'", "'mode'", "FAILFAST"]),
    ("d.new, 'a INT', NULL, map('infinity', 'x')", ["'x'", "error", "null", "clamp"]),
    ("d.new, 'a INT', NULL, map('timeZone', 'Moon')", ["'Moon'", "'timeZone'"]),
    ("d.new, 'a INT', NULL, map('moneyScale', '-1')", ["'-1'", "'moneyScale'"]),
    ("d.new, 'a INT', NULL, map('dateStyle', 'x')", ["'x'", "'dateStyle'"]),
    ("d.new, 'a INT', NULL, map('encoding', 'x')", ["'x'", "'encoding'"]),
    ("d.new, 'a INT', NULL, map('type.x', 'int4')", ["'type.x'", "oid"]),
    ("d.new, 'a INT', NULL, map('type.16402', 'int5')", ["'int5'", "'type.16402'", "range:"]),
    ("d.new, 'a INT', NULL, map('mode', d.type)", ["options", "constant"]),
    ("d.new, 'a INT', array(23L, 25L)", ["2 type_ids", "1 column"]),
    ("d.new, 'a INT, b INT', array(23L)", ["1 type_ids", "2 columns"]),
    ("d.new, 'a DATE', array(23L)", ["'a'", "int4", "oid 23", "DATE", "INT"]),
    ("d.new, 'a VARIANT'", ["'a'", "not known", "VARIANT"]),
]


@pytest.fixture(scope="module", autouse=True)
def messages(spark: SparkSession) -> Iterator[None]:
    """Make views of messages with two columns, and of one without a tuple."""
    rows = [
        (1, bytearray(m.insert("42", "x" * 150))),
        (2, bytearray(m.insert("43", "7"))),
        (3, bytearray(m.insert(None, m.UNCHANGED))),
        (4, bytearray(b"B" + bytes(20))),
    ]
    spark.createDataFrame(rows, "seq int, data binary").createOrReplaceTempView("rows")
    spark.sql("SELECT seq, pgoutput_decode(data, false) AS d FROM rows").createOrReplaceTempView(
        "decoded"
    )
    yield
    for view in ("rows", "decoded"):
        spark.catalog.dropTempView(view)


@pytest.mark.parametrize(("arguments", "words"), REFUSED)
def test_wrong_arguments_are_refused_at_analysis(
    spark: SparkSession, arguments: str, words: list[str]
) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.sql(f"SELECT pgoutput_row({arguments}) FROM decoded")
    missing = [word for word in words if word not in str(raised.value)]
    assert not missing, str(raised.value)


def test_try_pgoutput_row_is_permissive(spark: SparkSession) -> None:
    frame = spark.table("decoded")
    with pytest.raises(AnalysisException, match="PERMISSIVE"):
        frame.select(PF.try_pgoutput_row("d.new", "a INT", options={"mode": "FAILFAST"}))
    permissive = {"mode": "permissive"}
    calls = [
        PF.try_pgoutput_row("d.new", "a INT, b INT"),
        PF.try_pgoutput_row("d.new", "a INT, b INT", options=permissive),
        PF.pgoutput_row("d.new", "a INT, b INT", options=permissive),
    ]
    for call in calls:
        rows = [row.row for row in frame.orderBy("seq").select(call.alias("row")).collect()]
        assert rows == [(42, None), (43, 7), (None, None), None]


def row_error(spark: SparkSession, message: bytes, call: Column) -> IllegalArgumentException:
    frame = spark.createDataFrame([(bytearray(message),)], "data binary")
    decoded = frame.select(PF.pgoutput_decode("data", False).alias("d"))
    return error_of(decoded.select(call))


@pytest.mark.parametrize("mode", MODES)
def test_numbers_of_columns_must_agree_in_every_mode(spark: SparkSession, mode: str) -> None:
    frame = spark.table("decoded").where("seq = 2")
    options = {"mode": mode}
    oids = "transform(array(23, d.relation_id), x -> x + d.relation_id)"
    cases = [
        (PF.pgoutput_row("d.new", "a INT", None, options), ["2 columns", "1 column"]),
        (PF.pgoutput_row("d.new", "a INT, b INT, c INT", [23] * 3, options), ["2 col", "3 col"]),
        (
            PF.pgoutput_row("d.new", "a INT, b INT, c INT", "oids", options),
            ["2 type_ids", "3 columns"],
        ),
    ]
    for call, words in cases:
        error = error_of(frame.selectExpr("d", f"{oids} AS oids").select(call))
        assert error.getCondition() == "PGOUTPUT_SCHEMA_MISMATCH"
        assert all(word in str(error) for word in words), str(error)


@pytest.mark.parametrize("mode", MODES)
def test_a_type_without_a_conversion_is_an_error(spark: SparkSession, mode: str) -> None:
    """The oids are in a column, so the error comes when the query runs."""
    frame = spark.table("decoded").where("seq = 2")
    oids = frame.selectExpr("d", "array(23L, 16L + 7 * isnotnull(d.new)::INT) AS oids")
    call = PF.pgoutput_row("d.new", "a INT, b DATE", "oids", {"mode": mode})
    error = error_of(oids.select(call))
    assert error.getCondition() == "PGOUTPUT_SCHEMA_MISMATCH"
    assert all(word in str(error) for word in ["'b'", "int4", "oid 23", "DATE"]), str(error)


def test_error_of_an_invalid_value_names_it_and_the_remedy(spark: SparkSession) -> None:
    frame = spark.table("decoded").where("seq = 1")
    error = error_of(frame.select(PF.pgoutput_row("d.new", "a INT, b INT", [23, 23])))
    assert error.getCondition() == "PGOUTPUT_INVALID_VALUE"
    assert (error.getSqlState() or "").startswith("22")
    text = str(error)
    assert all(word in text for word in ["'b'", "int4", "INT", "try_pgoutput_row"]), text
    assert "x" * 100 + "…" in text
    assert "x" * 101 not in text


def test_control_characters_of_data_are_escaped_in_errors(spark: SparkSession) -> None:
    """A value or a name cannot write a line of its own to a log, nor reverse its text."""
    value = "1\n2026 INFO fake\x1b[31m\u202e"
    call = PF.pgoutput_row("d.new", StructType([StructField("a\nb\x1b", LongType())]))
    text = str(row_error(spark, m.insert(value), call)).partition(" SQLSTATE")[0]
    assert "1\\n2026 INFO fake\\u001b[31m\\u202e" in text
    assert "a\\nb\\u001b" in text
    assert text.isprintable(), text


@pytest.mark.parametrize(
    ("value", "oid", "spark_type", "words"),
    [
        (b"infinity", 1082, "DATE", ["date", "infinity", "option"]),
        (b"4713-01-01 BC", 1082, "DATE", ["before the year 1", "STRING"]),
        (b"70000", 23, "SMALLINT", ["int4", "70000", "SMALLINT", "INT"]),
        (b"1.239", 1700, "DECIMAL(5,2)", ["numeric", "1.239", "DECIMAL(5,2)"]),
        (b"NaN", 1700, "DECIMAL(5,2)", ["numeric", "NaN"]),
        (b"{{1},{2}}", 1007, "ARRAY<INT>", ["int4[]", "ARRAY<ARRAY<"]),
        (b"13/02/2020", 1082, "DATE", ["date", "DateStyle"]),
    ],
)
def test_errors_of_values_name_a_remedy(
    spark: SparkSession, value: bytes, oid: int, spark_type: str, words: list[str]
) -> None:
    call = PF.pgoutput_row("d.new", f"c {spark_type}", [oid])
    error = row_error(spark, m.insert(value), call)
    assert error.getCondition() == "PGOUTPUT_INVALID_VALUE"
    missing = [word for word in ["'c'", *words] if word not in str(error)]
    assert not missing, str(error)


def test_a_binary_value_of_an_unknown_type_needs_a_declaration(spark: SparkSession) -> None:
    message = m.insert(m.Binary(m.number(5, 4)))
    error = row_error(spark, message, PF.pgoutput_row("d.new", "c INT", [16402]))
    assert "16402" in str(error), str(error)
    assert "type.16402" in str(error), str(error)
    frame = spark.createDataFrame([(bytearray(message),)], "data binary")
    decoded = frame.select(PF.pgoutput_decode("data", False).alias("d"))
    calls = [
        PF.pgoutput_row("d.new", "c INT", [16402], {"type.16402": "int4"}).alias("declared"),
        PF.pgoutput_row("d.new", "c BINARY", [None]).alias("bytes"),
        PF.pgoutput_row("d.new", "c BINARY").alias("unknown"),
    ]
    (row,) = decoded.select(*calls).collect()
    assert row == ((5,), (bytearray(message[-4:]),), (bytearray(message[-4:]),))


QUERIES = [
    "SELECT seq, r FROM rows_read ORDER BY seq",
    "SELECT seq, r.b FROM rows_read ORDER BY seq",
    "SELECT seq, r.b IS NULL, r IS NULL FROM rows_read ORDER BY seq",
    "SELECT sort_array(collect_list(r)) FROM rows_read",
    "SELECT sort_array(collect_list(r.b)) FROM rows_read",
    "SELECT r.a, count(*) FROM rows_read GROUP BY r.a ORDER BY r.a NULLS LAST",
    "SELECT seq, r.a FROM rows_read WHERE r.a > 42 ORDER BY seq",
    "SELECT l.seq, l.r.b, m.r FROM rows_read l JOIN rows_read m USING (seq) ORDER BY 1",
    "SELECT r FROM (SELECT * FROM rows_read DISTRIBUTE BY seq SORT BY r) ORDER BY r.b, r.a",
]
ORDINARY: dict[str, str] = {}
SETTINGS = [
    ORDINARY,
    {"spark.sql.optimizer.excludedRules": DECODE_RULE},
    {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
]


def answers(spark: SparkSession) -> list[list[dict[str, Any]]]:
    """Return the rows of each query. Spark runs them as one, because each takes long to plan."""
    row = "to_json(struct(*), map('ignoreNullFields', 'false'))"
    every = [f"SELECT {n}, {row} FROM ({query})" for n, query in enumerate(QUERIES)]
    found: list[list[dict[str, Any]]] = [[] for _ in QUERIES]
    for number, text in spark.sql(" UNION ALL ".join(every)).collect():
        found[number].append(json.loads(text))
    return found


def test_optimized_and_generated_code_agree(spark: SparkSession) -> None:
    spark.sql(
        "SELECT seq, try_pgoutput_row(d.new, 'a INT, b STRING', array(23L, 25L)) AS r FROM decoded"
    ).createOrReplaceTempView("rows_read")
    found = []
    for settings in SETTINGS:
        for name, value in settings.items():
            spark.conf.set(name, value)
        try:
            found.append(answers(spark))
        finally:
            for name in settings:
                spark.conf.unset(name)
    for query, *rows in zip(QUERIES, *found, strict=True):
        assert rows == [rows[0]] * len(SETTINGS), query
    whole, column, _, kept, *_ = found[0]
    expected = [(42, "x" * 150), (43, "7"), (None, None), None]
    rows = [row and {"a": row[0], "b": row[1]} for row in expected]
    assert [row["r"] for row in whole] == rows
    assert [row["b"] for row in column] == ["x" * 150, "7", None, None]
    assert [*kept[0].values()] == [[rows[2], *rows[:2]]]
    spark.catalog.dropTempView("rows_read")


def test_rows_stay_right_while_others_are_read(spark: SparkSession) -> None:
    """The rows have many sizes."""
    rows = [(i, bytearray(m.insert(f"{i}", "y" * (i * 37 % 5000)))) for i in range(1_000)]
    frame = spark.createDataFrame(rows, "seq int, data binary").coalesce(1)
    row = PF.pgoutput_row(PF.pgoutput_decode("data", False)["new"], "a INT, b STRING")
    read = frame.select("seq", row.alias("r"))
    (lists,) = read.selectExpr("collect_list(struct(seq, r)) AS kept").collect()
    collected = [*lists.kept, *read.orderBy("r.b").collect()]
    assert len(collected) == 2 * len(rows)
    assert all(kept.r == (kept.seq, "y" * (kept.seq * 37 % 5000)) for kept in collected)


def test_schema_of_gives_a_schema_for_pgoutput_row(spark: SparkSession) -> None:
    """A schema can be DDL or a StructType, and its columns can be NOT NULL."""
    names = ["i d", "sel.ect", "Ünï", "back`tick", "it's"]
    columns = [m.column(name, key=True) for name in names]
    messages = [m.relation("odd.odd", *columns), m.relation("none.none")]
    frame = spark.createDataFrame([(bytearray(message),) for message in messages], "data binary")
    decoded = frame.select(PF.pgoutput_decode("data", False).alias("d"))
    odd, none = decoded.select("d.relation").collect()
    schema = spark_pgoutput.schema_of(odd.relation)
    assert schema.names == names
    assert all(field.dataType == StringType() for field in schema)
    assert schema[0].metadata == {"comment": "text"}
    assert spark_pgoutput.schema_of(none.relation) == StructType()
    declared = spark_pgoutput.schema_of(odd.relation, {"type.25": "int8"})
    assert declared["Ünï"].dataType == LongType()
    required = StructType.fromJson(schema.jsonValue())
    for field in required:
        field.nullable = False
    message = bytearray(m.insert(*names))
    tuples = spark.createDataFrame([(message,)], "data binary")
    new = PF.pgoutput_decode("data", False)["new"]
    (ddl, _) = [
        row.ddl for row in decoded.select(PF.pgoutput_schema("d.relation").alias("ddl")).collect()
    ]
    for given in (schema, required, ddl):
        (row,) = tuples.select(PF.pgoutput_row(new, given).alias("row")).collect()
        assert row.row.asDict() == dict(zip(names, names, strict=True))
