"""Messages of a replication stream, made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

INT2, INT4, INT8, TEXT, NUMERIC, BOOL = 21, 23, 20, 25, 1700, 16

Cell = str | None
UNCHANGED = "\0unchanged"

ORDERS = 16400


def number(value: int, size: int) -> bytes:
    return (value % (1 << 8 * size)).to_bytes(size, "big")


def begin(xid: int, lsn: int) -> bytes:
    return b"B" + number(lsn, 8) + number(0, 8) + number(xid, 4)


def commit(lsn: int) -> bytes:
    return b"C\0" + number(lsn, 8) + number(lsn + 1, 8) + number(0, 8)


def column(name: str, type_id: int, *, key: bool = False, modifier: int = -1) -> bytes:
    return bytes([key]) + name.encode() + b"\0" + number(type_id, 4) + number(modifier, 4)


def relation(table: str, *columns: bytes, oid: int = ORDERS) -> bytes:
    namespace, name = table.split(".")
    head = b"R" + number(oid, 4) + namespace.encode() + b"\0" + name.encode() + b"\0d"
    return head + number(len(columns), 2) + b"".join(columns)


def type_(oid: int, name: str, namespace: str = "") -> bytes:
    return b"Y" + number(oid, 4) + namespace.encode() + b"\0" + name.encode() + b"\0"


def cells(values: Sequence[Cell]) -> bytes:
    kinds = {None: b"n", UNCHANGED: b"u"}
    return number(len(values), 2) + b"".join(
        kinds.get(value) or b"t" + number(len(str(value).encode()), 4) + str(value).encode()
        for value in values
    )


def insert(*values: Cell, oid: int = ORDERS) -> bytes:
    return b"I" + number(oid, 4) + b"N" + cells(values)


def update(
    *new: Cell, key: Sequence[Cell] = (), old: Sequence[Cell] = (), oid: int = ORDERS
) -> bytes:
    before = b"K" + cells(key) if key else b"O" + cells(old) if old else b""
    return b"U" + number(oid, 4) + before + b"N" + cells(new)


def delete(*key: Cell, oid: int = ORDERS) -> bytes:
    return b"D" + number(oid, 4) + b"K" + cells(key)


def truncate(*oids: int) -> bytes:
    return b"T" + number(len(oids), 4) + b"\0" + b"".join(number(oid, 4) for oid in oids)


def origin(name: str) -> bytes:
    return b"O" + number(0, 8) + name.encode() + b"\0"


def stream_start(xid: int, *, first: bool = True) -> bytes:
    return b"S" + number(xid, 4) + bytes([first])


STREAM_STOP = b"E"


def stream_commit(xid: int, lsn: int) -> bytes:
    return b"c" + number(xid, 4) + b"\0" + number(lsn, 8) + number(lsn + 1, 8) + number(0, 8)


def in_stream(xid: int, message: bytes) -> bytes:
    """A change as it stands between Stream Start and Stream Stop."""
    return message[:1] + number(xid, 4) + message[1:]


def begin_prepare(xid: int, gid: str, lsn: int) -> bytes:
    return _prepared(b"b", xid, gid, lsn)


def prepare(xid: int, gid: str, lsn: int) -> bytes:
    return _prepared(b"P\0", xid, gid, lsn)


def commit_prepared(xid: int, gid: str, lsn: int) -> bytes:
    return _prepared(b"K\0", xid, gid, lsn)


def _prepared(head: bytes, xid: int, gid: str, lsn: int) -> bytes:
    times = number(lsn, 8) + number(lsn + 1, 8) + number(0, 8)
    return head + times + number(xid, 4) + gid.encode() + b"\0"


def transaction(xid: int, lsn: int, *changes: bytes) -> list[bytes]:
    return [begin(xid, lsn), *changes, commit(lsn)]


def frame(spark: SparkSession, messages: Iterable[bytes | None]) -> DataFrame:
    """With their places in the columns seq and data."""
    data = list(messages)
    columns = {"seq": pa.array(range(len(data)), pa.int64()), "data": pa.array(data, pa.binary())}
    return spark.createDataFrame(pa.table(columns))
