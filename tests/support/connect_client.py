"""What the tests ask a Spark Connect server for, in one process that is a client of it.

`python -m support.connect_client URL` prints a JSON object. A key is the name of a function below,
and its value is a list of texts, one for each value that the function yields. With names after the
URL, only these functions run. The environment variable `SLOT` has the options of a slot, as
`support.servers.small_slot` gives them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_pgoutput
from spark_pgoutput import changes, open_transactions
from spark_pgoutput import functions as PF
from support import messages as m
from support.orders import HISTORY, in_order
from support.streams import Stream, error_of


def error_in(frame: DataFrame) -> str:
    try:
        frame.collect()
    except PySparkException as error:
        return f"{type(error).__name__} {error.getCondition()} {error.getSqlState()}"
    return "no error"


def message_functions(spark: SparkSession) -> Iterator[object]:
    frame = spark.sql("SELECT X'45' AS m, X'4500' AS malformed, 69L AS number, '0/45' AS lsn")
    yield frame.select(
        PF.pgoutput_decode("m", True, {"mode": "PERMISSIVE"})["type"].alias("type"),
        PF.try_pgoutput_decode("malformed").alias("tried"),
        PF.pgoutput_error("m", F.lit(False)).alias("error"),
        PF.pg_lsn_format("number").alias("format"),
        PF.pg_lsn_parse("lsn").alias("parse"),
        PF.try_pg_lsn_parse(F.col("lsn")).alias("try_parse"),
    ).first()
    decoded = frame.select(PF.pgoutput_decode("m").alias("d"), PF.pgoutput_decode("malformed"))
    yield decoded.schema["d"].dataType == spark_pgoutput.message_schema()
    yield error_in(decoded)


def optimizer_rule(spark: SparkSession) -> Iterator[object]:
    (plan,) = spark.sql(
        "EXPLAIN SELECT pgoutput_decode(unhex(CAST(id AS STRING))).type FROM range(45, 46)"
    ).collect()[0]
    yield "[type]" in plan


def typed_rows(spark: SparkSession) -> Iterator[object]:
    message = m.insert("42", m.Binary(m.number(7, 4))).hex()
    relation = m.relation("r.r", m.column("id", m.INT8, key=True)).hex()
    frame = spark.sql(
        f"SELECT pgoutput_decode(X'{message}').new AS t, "
        f"pgoutput_decode(X'{relation}').relation AS r"
    )
    schema = spark_pgoutput.schema_of(frame.collect()[0].r)
    yield schema.simpleString()
    yield schema["id"].metadata
    yield frame.select(
        PF.pgoutput_row("t", "a INT, b BIGINT", [20, 23]).alias("row"),
        PF.try_pgoutput_row("t", schema.add("b", "date"), [None, 1082]).alias("tried"),
        PF.pgoutput_schema("r").alias("schema"),
    ).first()


def table_changes(spark: SparkSession) -> Iterator[object]:
    yield in_order(changes(m.frame(spark, HISTORY), table="orders"), "*")


def more_table_changes(spark: SparkSession) -> Iterator[object]:
    history = m.frame(spark, HISTORY)
    found = changes(history, table="orders")
    yield in_order(changes(history, source="seq", options={"incomplete": "skip"}), "*")
    yield in_order(changes(history, options={"after": 20, "mode": None}), "_xid")
    yield found.join(found, ["_commit_version", "_ordinal"]).count()
    yield found.union(found).count()
    yield spark.catalog.listTables()
    merged = changes(history, table="orders", options={"schemaEvolution": "merge"})
    yield merged.columns == found.columns
    yield open_transactions(history.where("seq < 2")).collect()
    yield error_in(changes(m.frame(spark, m.transaction(1, 10, m.insert("1")))))


def table_changes_in_a_stream(spark: SparkSession) -> Iterator[object]:
    # A query that failed may still write while the folder is removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        stream = Stream(spark, Path(folder))
        half = len(HISTORY) // 2
        stream.add_messages(HISTORY[:half])
        stream.add_messages(HISTORY[half:], half)
        found = changes(stream.messages, tables="orders", schema="id BIGINT, note STRING")
        yield in_order(stream.run(found), "*")
        stream.add_messages([b"E"])
        yield "PGOUTPUT_MESSAGE_ORDER" in error_of(stream, found)


def replication_slot(spark: SparkSession) -> Iterator[object]:
    options = json.loads(os.environ["SLOT"])
    yield spark.read.format("pgoutput").options(**options).load().count()
    found = spark.readStream.format("pgoutput").options(**options).load()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        writer = found.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start(f"{folder}/output").awaitTermination()
        yield spark.read.parquet(f"{folder}/output").count()


def replication(spark: SparkSession) -> Iterator[object]:
    try:
        spark_pgoutput.replicate(
            spark, url="", slot="s", publication="p", target="t", checkpoint="c"
        )
    except RuntimeError as error:
        yield error


QUESTIONS: list[Callable[[SparkSession], Iterator[object]]] = [
    message_functions,
    optimizer_rule,
    typed_rows,
    table_changes,
    more_table_changes,
    table_changes_in_a_stream,
    replication_slot,
    replication,
]


def main(url: str, *names: str) -> None:
    spark = spark_pgoutput.configure(SparkSession.builder.remote(url)).getOrCreate()
    spark_pgoutput.register(spark)
    asked = [ask for ask in QUESTIONS if not names or ask.__name__ in names]
    print(json.dumps({ask.__name__: [str(answer) for answer in ask(spark)] for ask in asked}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
