"""The Python functions accept useful arguments, and refuse others with errors of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession

from spark_pgoutput import applied, changes, open_transactions, resync, schema_of, verify
from spark_pgoutput import functions as PF
from spark_pgoutput.arguments import option_texts, path_text, table_names

MESSAGE_FUNCTIONS = [PF.pgoutput_decode, PF.try_pgoutput_decode, PF.pgoutput_error]
ROW_FUNCTIONS = [PF.pgoutput_row, PF.try_pgoutput_row]
TABLE_FUNCTIONS = [changes, open_transactions]


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT 1L AS seq, X'45' AS data")


def test_options_take_numbers_and_booleans() -> None:
    given = {"a": "x", "b": 25619320, "c": True, "d": 0.5, "e": Decimal("1.50"), "f": np.int64(7)}
    expected = {"a": "x", "b": "25619320", "c": "true", "d": "0.5", "e": "1.50", "f": "7"}
    assert option_texts(given) == expected


def test_none_is_an_option_that_is_not_given(messages: DataFrame) -> None:
    none: Mapping[str, Any] = {"mode": None, "after": None}
    assert option_texts(none) == option_texts(None) == {}
    decoded = messages.select(PF.pgoutput_decode("data", options={"encoding": None})["type"])
    assert decoded.collect() == [("STREAM_STOP",)]


def test_a_number_reaches_the_table_function(messages: DataFrame) -> None:
    for function in TABLE_FUNCTIONS:
        assert function(messages.where("false"), options={"after": 25619320}).collect() == []
    with pytest.raises(AnalysisException, match=r"'1\.5' .*'after'"):
        changes(messages, options={"after": 1.5})


def test_any_character_reaches_the_table_function(spark: SparkSession) -> None:
    name = "it's \\'{seq}' ${seq} \\"
    df = spark.sql("SELECT 1L AS seq, X'45' AS data").withColumnRenamed("seq", name)
    for escaped in ("true", "false"):
        spark.conf.set("spark.sql.parser.escapedStringLiterals", escaped)
        try:
            assert changes(df, order_by=name).collect() == []
            with pytest.raises(AnalysisException, match=re.escape(f"{name}!")):
                changes(df, order_by=f"{name}!")
        finally:
            spark.conf.unset("spark.sql.parser.escapedStringLiterals")


def refusals(df: DataFrame) -> list[tuple[Callable[..., object], dict[str, Any], list[str]]]:
    """Return functions, arguments of which one has a wrong type, and words of the error."""
    column, options = df.seq, {"mode": "PERMISSIVE"}
    found: list[tuple[Callable[..., object], dict[str, Any], list[str]]] = [
        (changes, {"df": df, "table": ["orders"]}, ["'table'", "a list"]),
        (changes, {"df": df, "tables": 1}, ["'tables'", "an int"]),
        (changes, {"df": df, "tables": [column]}, ["'tables'", "a Column"]),
        (changes, {"df": df, "schema": {"id": "INT"}}, ["'schema'", "a dict"]),
        (PF.pg_lsn_format, {"lsn": 97500059720}, ["'lsn'", "Column", "an int"]),
        (PF.pg_lsn_parse, {"text": 1}, ["'text'", "Column", "an int"]),
        (PF.try_pg_lsn_parse, {"text": None}, ["'text'", "Column", "not None"]),
        (PF.pgoutput_schema, {"relation": df}, ["'relation'", "Column", "a DataFrame"]),
    ]
    for message in MESSAGE_FUNCTIONS:
        found += [
            (message, {"data": None}, ["'data'", "Column", "not None"]),
            (message, {"data": "d", "in_stream": options}, ["'in_stream'", "a dict", "options={"]),
            (message, {"data": "d", "options": "mode"}, ["'options'", "{'mode'", "a str"]),
            (message, {"data": "d", "options": {"mode": column}}, ["'mode'", "a Column"]),
            (message, {"data": "d", "options": {1: "UTF8"}}, ["name of an option", "an int"]),
        ]
    for row in ROW_FUNCTIONS:
        typed = {"tuple": "new", "schema": "a INT"}
        found += [
            (row, {**typed, "tuple": df}, ["'tuple'", "Column", "a DataFrame"]),
            (row, {**typed, "schema": ["a INT"]}, ["'schema'", "StructType", "a list"]),
            (row, {**typed, "type_ids": options}, ["'type_ids'", "options={"]),
            (row, {**typed, "type_ids": ["int8"]}, ["'type_ids'", "ints"]),
            (row, {**typed, "type_ids": 23}, ["'type_ids'", "an int"]),
            (row, {**typed, "type_ids": {23, 25}}, ["'type_ids'", "a set", "order"]),
        ]
    for table in TABLE_FUNCTIONS:
        found += [
            (table, {"df": "messages"}, ["'df'", "DataFrame", "a str"]),
            (table, {"df": df, "order_by": column}, ["'order_by'", "name", "withColumn"]),
            (table, {"df": df, "data": column}, ["'data'", "name", "withColumn"]),
            (table, {"df": df, "source": 1}, ["'source'", "name", "an int"]),
            (table, {"df": df, "options": {"relations": df}}, ["'relations'", "a DataFrame"]),
        ]
    return found


def test_a_wrong_type_is_refused_by_name(messages: DataFrame) -> None:
    for function, arguments, words in refusals(messages):
        with pytest.raises(TypeError) as caught:
            function(**arguments)
        text = str(caught.value)
        assert [word for word in words if word not in text] == [], text
        assert text.endswith(".")


def test_names_of_tables_are_a_str_or_a_list(spark: SparkSession) -> None:
    assert table_names("public.orders") == ["public.orders"]
    assert table_names(("public.orders", "customers")) == ["public.orders", "customers"]
    wrong: Any
    for wrong in (7, ["public.orders", None]):
        with pytest.raises(TypeError, match="'tables' must be the name of a table or a list"):
            resync(spark, checkpoint="/data/checkpoint", tables=wrong)


def test_timeout_is_not_for_a_verification_that_runs_the_job(spark: SparkSession) -> None:
    with pytest.raises(TypeError, match="not with once=True"):
        verify(spark, checkpoint="/data/checkpoint", once=True, timeout=60)


def test_a_target_stands_for_a_checkpoint_that_is_lost(spark: SparkSession) -> None:
    for given, problem in (
        ({"all": True}, "Give the checkpoint"),
        ({"all": True, "checkpoint": "/data/checkpoint", "target": "/data/lake"}, "if it is lost"),
        ({"tables": "orders", "target": "/data/lake"}, "goes with all=True"),
        (
            {"all": True, "checkpoint": "/data/checkpoint", "format": "delta"},
            "go with the target",
        ),
        ({"all": True, "checkpoint": "/data/checkpoint", "slot": "shop"}, "go with the target"),
        ({"checkpoint": "/data/checkpoint"}, "Name the tables"),
    ):
        wrong: Any = given
        with pytest.raises(ValueError, match=problem):
            resync(spark, **wrong)


def test_a_text_is_neither_a_bool_nor_a_number(spark: SparkSession) -> None:
    """The text "false" would count as true, and then a job would copy all tables again."""
    wrong: Any
    for wrong in ("false", None, 1):
        with pytest.raises(TypeError, match="'all' must be a bool"):
            resync(spark, checkpoint="/data/checkpoint", tables="public.orders", all=wrong)
        with pytest.raises(TypeError, match="'rows' must be a bool"):
            applied(spark, "/data/checkpoint", rows=wrong)
        with pytest.raises(TypeError, match="'once' must be a bool"):
            verify(spark, checkpoint="/data/checkpoint", once=wrong)
    for wrong in ("10", -1, float("nan")):
        with pytest.raises(TypeError, match="'timeout' must be a number of seconds"):
            verify(spark, checkpoint="/data/checkpoint", timeout=wrong)


def test_a_path_is_a_folder_and_a_str_can_be_a_namespace() -> None:
    assert path_text("lake") == "lake"
    for path, text in (("lake", "./lake"), ("../lake", "../lake"), ("/data/lake", "/data/lake")):
        assert path_text(Path(path)) == text
        assert option_texts({"target": Path(path)}) == {"target": text}


def test_schema_of_refuses_what_is_not_a_relation(messages: DataFrame) -> None:
    (row,) = messages.select(PF.pgoutput_decode("data").alias("d")).collect()
    column = Row(key=True, name="id", type_id=20, type_modifier=-1)
    without_columns = Row(namespace="public", name="t", replica_identity="d", columns=None)
    wrong: list[tuple[Any, type[Exception], list[str]]] = [
        (row.d.relation, ValueError, ["None", "type = 'RELATION'"]),
        (row.d, ValueError, ["namespace, name, replica_identity, columns", "xid"]),
        (column, ValueError, ["replica_identity", "type_modifier"]),
        (without_columns, ValueError, ["columns", "None"]),
        (messages, TypeError, ["'relation_row'", "collected", "a DataFrame"]),
        ({"name": "t"}, TypeError, ["'relation_row'", "a dict"]),
    ]
    for value, error, words in wrong:
        with pytest.raises(error) as caught:
            schema_of(value)
        assert [word for word in words if word not in str(caught.value)] == []
