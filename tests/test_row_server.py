"""The values of each type, sent as text or as binary, are those that the server itself prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_pgoutput import functions as PF
from spark_pgoutput.demo.server import PostgresServer
from support.server_values import JSON, STRING, TYPES, USER_TYPES, ServerType, View

# The first rows have the extremes.
ROWS, ROWS_IF_EXHAUSTIVE = 600, 2_000

# The options declare them, because binary cells do not tell their types.
DECLARED = {
    "mood": "enum",
    "_mood": "array:enum",
    "pair": "composite",
    "_pair": "array:composite",
    "posint": "int4",
    "_posint": "array:int4",
    "floatrange": "range:float8",
    "_floatrange": "array:range:float8",
}

ELEMENTS = "generate_subscripts({}, 1) AS i ORDER BY i"


class Column(NamedTuple):
    """A column of the table, and all ways to look at it."""

    name: str
    views: list[View]


def of(expression: str, value: str) -> str:
    return expression.replace("{}", value)


def array_of(view: View) -> View:
    """Return a view of arrays of one dimension. An array is NULL if one element does not fit."""

    def each(expected: str) -> str:
        element = of(expected, "({})[i]")
        return (
            f"CASE WHEN {{}} IS NOT NULL AND NOT EXISTS (SELECT FROM generate_subscripts({{}}, 1) "
            f"AS i WHERE num_nonnulls(({{}})[i]) = 1 AND num_nonnulls({element}) = 0) "
            f"THEN ARRAY(SELECT {element} FROM {ELEMENTS}) END"
        )

    return View(
        f"ARRAY<{view.spark_type}>",
        f"transform({{}}, x -> {of(view.shown, 'x')})",
        each(view.expected),
        view.of_text and each(view.of_text),
    )


def columns() -> Iterator[Column]:
    for number, one in enumerate(TYPES):
        alone = [one.printed or STRING, *one.views]
        yield Column(f"c{number}", alone)
        # The text of an array is as the server sent it, unlike the text of its elements.
        whole = [] if one.printed else [STRING]
        yield Column(f"a{number}", [*whole, *map(array_of, alone)])


def value_of(one: ServerType, number: int) -> str:
    """Return an expression for the extremes in the first rows, and then for random values."""
    extremes = ", ".join("'" + text.replace("'", "''") + "'" for text in one.extremes)
    return (
        f"CASE WHEN n <= {len(one.extremes)} THEN (ARRAY[{extremes}])[n]::{one.name} "
        f"WHEN (n + {number}) % 13 <> 0 THEN ({one.random})::{one.name} END"
    )


def statements(rows: int) -> Iterator[str]:
    yield USER_TYPES
    numbers = range(len(TYPES))
    declarations = [f"c{i} {TYPES[i].name}, a{i} {TYPES[i].name}[]" for i in numbers]
    yield f"CREATE TABLE t (n int PRIMARY KEY, {', '.join(declarations)})"
    yield "CREATE PUBLICATION p FOR TABLE t"
    yield "SELECT pg_create_logical_replication_slot('s', 'pgoutput')"
    yield "SELECT setseed(0.5)"
    values = ", ".join(f"({value_of(TYPES[i], i)})::{TYPES[i].name} AS c{i}" for i in numbers)
    arrays = ", ".join(f"c{i}, {array_value(i)}" for i in numbers)
    yield (
        f"INSERT INTO t SELECT n, {arrays} "
        f"FROM (SELECT n, {values} FROM generate_series(1, {rows}) AS n)"
    )


def array_value(i: int) -> str:
    name = TYPES[i].name
    return (
        f"CASE (n + {i}) % 5 WHEN 0 THEN NULL WHEN 1 THEN '{{}}' WHEN 2 THEN ARRAY[c{i}] ELSE "
        f"ARRAY[c{i}, lag(c{i}) OVER (ORDER BY n), NULL, c{i}] END::{name}[]"
    )


class Server(NamedTuple):
    connection: psycopg.Connection[Any]
    messages: dict[str, list[bytes]]
    options: Mapping[str, str]
    rows: int


@pytest.fixture(scope="module")
def server(exhaustive: bool) -> Iterator[Server]:
    rows = ROWS_IF_EXHAUSTIVE if exhaustive else ROWS
    with PostgresServer() as started, psycopg.connect(started.conninfo) as connection:
        connection.autocommit = True
        for statement in statements(rows):
            connection.execute(statement)
        messages = {
            format_: [
                data
                for (data,) in connection.execute(
                    "SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, "
                    "'proto_version', '1', 'publication_names', 'p', 'binary', %s)",
                    [str(format_ == "binary").lower()],
                )
            ]
            for format_ in ("text", "binary")
        }
        oids = connection.execute(
            "SELECT typname, oid FROM pg_type WHERE typname = ANY(%s)", [list(DECLARED)]
        )
        options = {f"type.{oid}": DECLARED[name] for name, oid in oids}
        yield Server(connection, messages, options, rows)


def frame_of(spark: SparkSession, server: Server) -> DataFrame:
    changes = [
        (format_, message)
        for format_, messages in server.messages.items()
        for message in messages
        if message[:1] == b"I"
    ]
    formats, data = zip(*changes, strict=True)
    decoded = {
        "d": PF.pgoutput_decode("data", False),
        "r": PF.pgoutput_decode("relation", False)["relation"],
    }
    relation = next(message for message in server.messages["binary"] if message[:1] == b"R")
    return (
        spark.createDataFrame(pa.table({"format": formats, "data": data}))
        .withColumn("relation", F.lit(relation))
        .withColumns(decoded)
    )


def same(view: View, one: Any, other: Any) -> bool:  # noqa: ANN401
    if view is JSON or view == array_of(JSON):
        return bool(parsed(one) == parsed(other))
    return repr(one) == repr(other)  # NaN is not equal to itself, and 0 is to -0


def parsed(value: Any) -> Any:  # noqa: ANN401
    match value:
        case list():
            return [parsed(element) for element in value]
        case str():
            return json.loads(value, parse_float=Decimal, parse_int=Decimal)
        case _:
            return value


MOST_VIEWS = max(len(column.views) for column in columns())


@pytest.mark.parametrize("number", range(MOST_VIEWS))
def test_values_are_those_of_the_server(spark: SparkSession, server: Server, number: int) -> None:
    """Each round looks at the columns in the next way, if they have that many."""
    chosen = {c.name: c.views[number] for c in columns() if len(c.views) > number}
    types = {c.name: chosen.get(c.name, STRING).spark_type for c in columns()}
    schema = ", ".join(["n INT", *(f"{name} {spark_type}" for name, spark_type in types.items())])
    row = PF.try_pgoutput_row("d.new", schema, "r.columns.type_id", server.options).alias("row")
    shown = [f"{of(view.shown, f'row.{name}')} AS {name}" for name, view in chosen.items()]
    read = frame_of(spark, server).select("format", row).selectExpr("format", "row.n", *shown)
    spark_rows = {(row.format, row.n): row for row in read.collect()}
    assert len(spark_rows) == 2 * server.rows
    differences = []
    compared = set()
    for format_ in server.messages:
        expected = [
            of(view.of_text if format_ == "text" and view.of_text else view.expected, name)
            for name, view in chosen.items()
        ]
        query = f"SELECT n, {', '.join(expected)} FROM t"
        for n, *values in server.connection.execute(query):
            found = spark_rows[format_, n][2:]
            for (name, view), one, other in zip(chosen.items(), found, values, strict=True):
                if other is not None:
                    compared.add((format_, name))
                if not same(view, one, other):
                    pg_type = TYPES[int(name[1:])].name
                    differences.append((pg_type, view.spark_type, format_, n, one, other))
    assert differences[:20] == []
    assert len(compared) == 2 * len(chosen)
