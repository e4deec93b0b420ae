"""Streams of messages that arrive in files, and the table changes in them."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from support.table_changes import Messages, rows_of

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

Rows = Sequence[tuple[Any, int | None, bytes | None]]


class Stream:
    """Messages that arrive in files. Each file is a micro-batch."""

    def __init__(
        self, spark: SparkSession, folder: Path, source_type: str = "STRING", files: int = 0
    ) -> None:
        self._spark = spark
        self._source_type = source_type
        self._input = folder / "input"
        self._input.mkdir()
        self._output = folder / "output"
        self._files = files  # the number of files that came before

    def add(self, rows: Rows) -> None:
        """Write a file that is newer than the files before it."""
        columns = {name: [row[i] for row in rows] for i, name in enumerate(("name", "seq", "data"))}
        types = {"STRING": pa.string(), "BIGINT": pa.int64()}
        schema = pa.schema(
            {"name": types[self._source_type], "seq": pa.int64(), "data": pa.binary()}
        )
        hidden = self._input / f".{self._files}"
        pyarrow.parquet.write_table(pa.table(columns, schema), hidden)
        self._files += 1
        os.utime(hidden, (self._files, self._files))
        hidden.rename(self._input / f"{self._files}.parquet")

    def add_messages(self, messages: Iterable[bytes], first: int = 0) -> None:
        self.add([("one", place, data) for place, data in enumerate(messages, first)])

    @property
    def messages(self) -> DataFrame:
        reader = self._spark.readStream.schema(f"name {self._source_type}, seq BIGINT, data BINARY")
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self._input))

    def run(self, found: DataFrame, stop_after: int | None = None) -> DataFrame:
        """Return the changes in the files so far.

        If the query stops after some micro-batches, as if killed, the next run does the rest.
        """
        writer = found.writeStream.option("checkpointLocation", str(self._output / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(self._output / "changes"))
        if stop_after is None:
            query.awaitTermination()
        else:
            while query.isActive and len(query.recentProgress) < stop_after:
                time.sleep(0.05)
            query.stop()  # in the middle of the next micro-batch, perhaps
        return self.found(found)

    def found(self, found: DataFrame) -> DataFrame:
        """Return the changes of all runs up to now."""
        return self._spark.read.schema(found.schema).parquet(str(self._output / "changes"))


def mixed(
    dice: random.Random, streams: Mapping[str, Messages], number: int
) -> Sequence[list[tuple[str, int, bytes]]]:
    """Cut each stream into pieces at random places. A result has one piece of each stream.

    The messages of a result are in random order.
    """
    pieces: list[list[tuple[str, int, bytes]]] = [[] for _ in range(number)]
    for name, messages in streams.items():
        cuts = sorted(dice.choices(range(len(messages) + 1), k=number - 1))
        for piece, start, end in zip(pieces, [0, *cuts], [*cuts, None], strict=True):
            piece += rows_of({name: messages[start:end]})
    for piece in pieces:
        dice.shuffle(piece)
    return pieces


def error_of(stream: Stream, found: DataFrame) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        stream.run(found)
    return str(caught.value)
