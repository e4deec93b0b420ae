"""The messages that the benchmarks decode, as tables in Spark."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ORDERS = Path(__file__).parent / "data" / "orders-pg18.bin.gz"

_LENGTH = struct.Struct(">I")
_XID = struct.Struct(">I")
_XID_IN_BEGIN = 17  # after the tag, an LSN and a timestamp
_WITH_XID_IN_STREAM = b"RYIUDTM"


class StreamedMessage(NamedTuple):
    """A message as it looks inside a streamed transaction."""

    data: bytes
    in_stream: bool


def read_messages(path: Path = ORDERS) -> list[bytes]:
    """Read all messages from a file.

    Parameters
    ----------
    path : Path
        A gzip file of messages, each after its length as an unsigned big-endian number of 4 bytes.

    Returns
    -------
    list of bytes
        The messages in the order of the file.
    """
    with gzip.open(path) as file:
        content = file.read()
    messages = []
    start = 0
    while start < len(content):
        (length,) = _LENGTH.unpack_from(content, start)
        start += _LENGTH.size
        messages.append(content[start : start + length])
        start += length
    return messages


def as_streamed(messages: Iterable[bytes]) -> Iterator[StreamedMessage]:
    """Add to each message the xid that it has inside a streamed transaction.

    Parameters
    ----------
    messages : iterable of bytes
        Messages outside a stream, in their order.

    Yields
    ------
    StreamedMessage
        The message with the xid of the last BEGIN after its tag; others, BEGIN too, as they are.
    """
    xid = b""
    for message in messages:
        tag = message[:1]
        if tag == b"B":
            xid = message[_XID_IN_BEGIN : _XID_IN_BEGIN + _XID.size]
        in_stream = tag in _WITH_XID_IN_STREAM
        yield StreamedMessage(tag + xid + message[1:] if in_stream else message, in_stream)


def corpus(spark: SparkSession, messages: list[bytes]) -> DataFrame:
    """Make a table of messages.

    Parameters
    ----------
    spark : SparkSession
        The session.
    messages : list of bytes
        Messages outside a stream, in their order.

    Returns
    -------
    DataFrame
        The position `seq`, the message `data`, and the message as it looks inside a streamed
        transaction: `data_streamed` and `in_stream`.
    """
    streamed = list(as_streamed(messages))
    columns = {
        "seq": range(len(messages)),
        "data": messages,
        "data_streamed": [message.data for message in streamed],
        "in_stream": [message.in_stream for message in streamed],
    }
    return spark.createDataFrame(pa.table(columns))


def repeated(spark: SparkSession, table: DataFrame, rows: int, partitions: int) -> DataFrame:
    """Repeat a corpus in its order until there are enough rows.

    Parameters
    ----------
    spark : SparkSession
        The session.
    table : DataFrame
        What `corpus` made.
    rows : int
        The number of rows.
    partitions : int
        The number of partitions, which have the same size.

    Returns
    -------
    DataFrame
        The columns of the corpus, and `id`, which counts the rows.
    """
    place = F.col("id") % table.count() == F.col("seq")
    return spark.range(0, rows, 1, partitions).join(F.broadcast(table), place)
