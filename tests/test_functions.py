"""The examples in the docstrings print what they show."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import spark_pgoutput.schema
from spark_pgoutput import changes, functions


@pytest.mark.parametrize("name", functions.__all__)
def test_example_in_docstring(name: str, spark: SparkSession) -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(getattr(functions, name), name, globs={"spark": spark})
    assert doctest.DocTestRunner().run(example).failed == 0
    assert example.examples


def test_examples_in_docstrings_of_schemas(spark: SparkSession) -> None:
    results = doctest.testmod(spark_pgoutput.schema, extraglobs={"spark": spark})
    assert results.attempted == 7
    assert results.failed == 0


def test_arguments_reach_the_sql_function(spark: SparkSession) -> None:
    insert = bytearray.fromhex("49000003e7000040104e000174000000026772")
    messages = spark.createDataFrame([(insert, True)], "data binary, known boolean")
    decoded = messages.select(
        functions.pgoutput_decode("data", True)["xid"].alias("literal"),
        functions.pgoutput_decode(messages.data, "known")["xid"].alias("column"),
        functions.pgoutput_decode("data")["xid"].alias("found_out"),
        functions.try_pgoutput_decode("data", False).alias("outside"),
        functions.pgoutput_error("data", False, {"ENCODING": "latin1"}).alias("error"),
    ).collect()[0]
    assert (decoded.literal, decoded.column, decoded.found_out) == (999, 999, 999)
    assert decoded.outside is None
    assert decoded.error.startswith("INSERT at byte 5 (new, marker)")


@pytest.mark.parametrize(
    ("call", "documented"),
    [
        ("pgoutput_decode(X'45', NULL, {})", [functions.pgoutput_decode]),
        ("pgoutput_row(pgoutput_decode(X'45').new, 'a INT', NULL, {})", [functions.pgoutput_row]),
        ("* FROM pgoutput_changes('t', 'seq', {})", [changes, functions.pgoutput_row]),
    ],
)
def test_docstrings_name_every_option(
    spark: SparkSession, call: str, documented: list[Callable[..., object]]
) -> None:
    query = "SELECT " + call.format("map('unknown', '')")
    with pytest.raises(AnalysisException, match="The options are") as caught:
        spark.sql(query)
    options = re.findall(r"'([^'\s]+)'", str(caught.value).partition("The options are")[2])
    assert "encoding" in options
    text = "".join(function.__doc__ or "" for function in documented)
    missing = [name for name in options if not re.search(rf"``{name}``|^ +{name} :", text, re.M)]
    assert missing == []
