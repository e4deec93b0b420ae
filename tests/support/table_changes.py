"""The changes and open transactions that Spark finds, in the form of the reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from support import reference_changes as reference
from support.data_files import capture, seam
from support.reference_changes import Change, OpenTransaction
from support.replay import in_order

Messages = Sequence[tuple[int, bytes]]

# Streams of different versions and options, and two that were cut off and read again.
SOME_STREAMS: dict[str, Messages] = {
    name: list(enumerate(stored))
    for name, stored in {
        "pg15-v3-stream_on-text-2pc": capture("pg15-v3-stream_on-text-2pc"),
        "pg18-v4-stream_parallel-text-2pc": capture("pg18-v4-stream_parallel-text-2pc"),
        "seam-102": seam("seam-102").data,
        "seam-103": seam("seam-103").data,
    }.items()
}


@cache
def whole(name: str) -> tuple[list[Change], list[OpenTransaction]]:
    return reference.changes(SOME_STREAMS[name])


@cache
def of_capture(name: str) -> list[Change]:
    return reference.changes(enumerate(capture(name)))[0]


def frame(spark: SparkSession, streams: Mapping[str, Messages]) -> DataFrame:
    rows = rows_of(streams)
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("name", "seq", "data"))}
    return spark.createDataFrame(pa.table(columns))


def rows_of(streams: Mapping[str, Messages]) -> list[tuple[str, int, bytes]]:
    return [(name, position, data) for name, stream in streams.items() for position, data in stream]


def by_source(found: DataFrame) -> dict[str, list[Change]]:
    """Return the changes of each source in their order."""
    sources = defaultdict(list)
    columns = [column_of(field.name).alias(field.name) for field in fields(Change)]
    for values in found.select("_source", *columns).toArrow().to_pylist():
        source, pairs = values.pop("_source"), values.pop("row")  # Arrow has a map as pairs
        row = None if pairs is None else dict(pairs)
        sources[source].append(Change(**values, row=row))
    return {source: in_order(some) for source, some in sources.items()}


def column_of(field: str) -> Column:
    if field == "commit_timestamp":  # Python cannot hold all of Spark's timestamps
        return F.unix_micros("_commit_timestamp")
    return F.col(field if field == "row" else f"_{field}")


def of_one_source(found: DataFrame) -> list[Change]:
    return by_source(found.withColumn("_source", F.lit("one"))).get("one", [])


def opened_by_source(found: DataFrame) -> dict[str, list[OpenTransaction]]:
    """Return the open transactions of each source in the order of their first positions."""
    sources = defaultdict(list)
    columns = ("_source", "_xid", "_gid", "state", "first_position", "changes")
    for source, *values in found.select(*columns).collect():
        sources[source].append(OpenTransaction(*values))
    return {source: sorted(some, key=first_position) for source, some in sources.items()}


def opened(found: DataFrame) -> list[OpenTransaction]:
    return opened_by_source(found.withColumn("_source", F.lit("one"))).get("one", [])


def first_position(transaction: OpenTransaction) -> int:
    return transaction.first_position


def assert_equal(found: Sequence[object], expected: Sequence[object], what: object = None) -> None:
    """Compare two lists of thousands of elements, and show only the first difference."""
    for number, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert one == other, (what, number)
    assert len(found) == len(expected), what
