"""A streaming query that reads a slot and writes Parquet files, in a process of its own.

`support.slot_stream` starts it with a JSON file that says what to read and where to write. It stops
when a file appears, and prints "ended" or the error of the query.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import spark_pgoutput


def main(description: Path) -> None:
    given = json.loads(description.read_text())
    builder = SparkSession.builder.master(given["master"])
    for name, value in given["settings"].items():
        builder = builder.config(name, value)
    spark = spark_pgoutput.configure(builder).getOrCreate()
    query = start(spark, given)
    try:
        while not query.awaitTermination(1):
            if Path(given["stop"]).exists():
                query.stop()
        print("ended")
    except StreamingQueryException as error:
        print(error)


def start(spark: SparkSession, given: Mapping[str, Any]) -> StreamingQuery:
    """Start the query in a session."""
    changes = spark.readStream.format("pgoutput").options(**given["options"]).load()
    if milliseconds := given["milliseconds_a_row"]:
        sleep = f"java_method('java.lang.Thread', 'sleep', {milliseconds}L)"
        changes = changes.where(f"{sleep} IS NOT NULL")
    writer = changes.writeStream.option("checkpointLocation", given["checkpoint"])
    return writer.trigger(**given["trigger"]).start(given["output"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
