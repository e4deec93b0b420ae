"""Structured Streaming decodes messages that arrive in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shutil import copy

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_pgoutput import functions as PF
from support.data_files import captures

MESSAGES = "capture string, seq bigint, data binary, in_stream boolean"


def decoded(messages: DataFrame) -> DataFrame:
    row = PF.try_pgoutput_row("decoded.new", "a STRING, b STRING")
    return messages.withColumn("decoded", PF.pgoutput_decode("data", "in_stream")).withColumn(
        "row", F.when(F.length("decoded.new.kinds") == 2, row)
    )


def run(messages: DataFrame, output: Path) -> StreamingQuery:
    """Decode the files since the last run, in several micro-batches."""
    query = (
        decoded(messages)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(output / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(output / "decoded"))
    )
    query.awaitTermination()
    return query


@pytest.mark.takes_long
def test_stream_gives_the_same_as_a_batch(
    spark: SparkSession, capture_file: Callable[[str], Path], tmp_path: Path
) -> None:
    """The query starts again between two micro-batches."""
    input_path, output = tmp_path / "input", tmp_path / "output"
    input_path.mkdir()
    stream = (
        spark.readStream.schema(MESSAGES).option("maxFilesPerTrigger", 1).parquet(str(input_path))
    )
    names = [name for name in captures(["pg18"]) if name.startswith(("pg18-v3", "pg18-v4"))]
    files = [capture_file(name) for name in names[::2]]
    batches = 0
    for half in (files[:2], files[2:]):
        for file in half:
            copy(file, input_path)
        batches += len(run(stream, output).recentProgress)
    assert batches > 2

    streamed = spark.read.parquet(str(output / "decoded"))
    batch = decoded(spark.read.parquet(str(input_path)))
    assert streamed.count() == batch.count() > 0
    assert streamed.where("row.b IS NOT NULL").count() > 0
    assert streamed.exceptAll(batch).isEmpty()
    assert batch.exceptAll(streamed).isEmpty()


def test_malformed_message_stops_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    row = ("capture", 0, bytearray(b"E\x00"), False)
    input_path = str(tmp_path / "input")
    spark.createDataFrame([row], MESSAGES).write.parquet(input_path)
    stream = spark.readStream.schema(MESSAGES).parquet(input_path)
    error = r"PGOUTPUT_MALFORMED_MESSAGE.* STREAM_STOP at byte 1: "
    with pytest.raises(StreamingQueryException, match=error):
        run(stream, tmp_path / "output")
