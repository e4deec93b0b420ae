"""The values of each type, sent as text or as binary, are those that the server itself prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_pgoutput import functions as PF
from spark_pgoutput.demo.server import PostgresServer
from support.server_columns import MOST_VIEWS, columns, of, same, statements
from support.server_values import STRING, TYPES

# The first rows have the extremes.
ROWS, ROWS_IF_EXHAUSTIVE = 300, 2_000

# The options declare these types, because binary cells do not show them.
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


@pytest.mark.parametrize("number", range(MOST_VIEWS))
def test_values_are_those_of_the_server(spark: SparkSession, server: Server, number: int) -> None:
    """Each column is read by its view with this number, if it has so many views."""
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
