"""An encoder of pgoutput messages, with which the tests make messages by hand.

A function returns one message as it is outside of a stream block. `in_stream` gives the form
that a message has between Stream Start and Stream Stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

INT2, INT4, INT8, TEXT, NUMERIC, BOOL = 21, 23, 20, 25, 1700, 16


class Binary(NamedTuple):
    """A cell that the server sent in binary format."""

    value: bytes


# Text, or the bytes of a text in another encoding than UTF-8; None is NULL.
Cell = str | bytes | Binary | None
UNCHANGED = "\0unchanged"

ORDERS = 16400


def number(value: int, size: int) -> bytes:
    return (value % (1 << 8 * size)).to_bytes(size, "big")


def encoded(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def begin(xid: int, lsn: int) -> bytes:
    return b"B" + number(lsn, 8) + number(0, 8) + number(xid, 4)


def commit(lsn: int) -> bytes:
    return b"C\0" + _lsns_and_time(lsn)


def origin(name: str | bytes) -> bytes:
    return b"O" + number(0, 8) + encoded(name) + b"\0"


def column(
    name: str | bytes, type_id: int = TEXT, *, key: bool = False, modifier: int = -1
) -> bytes:
    return bytes([key]) + encoded(name) + b"\0" + number(type_id, 4) + number(modifier, 4)


def relation(table: str | bytes, *columns: bytes, oid: int = ORDERS) -> bytes:
    namespace, _, name = encoded(table).partition(b".")
    head = b"R" + number(oid, 4) + namespace + b"\0" + name + b"\0d"
    return head + number(len(columns), 2) + b"".join(columns)


def type_(oid: int, name: str | bytes, namespace: str | bytes = "") -> bytes:
    return b"Y" + number(oid, 4) + encoded(namespace) + b"\0" + encoded(name) + b"\0"


def cells(values: Sequence[Cell]) -> bytes:
    return number(len(values), 2) + b"".join(map(_cell, values))


def _cell(value: Cell) -> bytes:
    match value:
        case None:
            return b"n"
        case Binary(data):
            return b"b" + number(len(data), 4) + data
        case _ if value == UNCHANGED:
            return b"u"
        case _:
            text = encoded(value)
            return b"t" + number(len(text), 4) + text


def insert(*values: Cell, oid: int = ORDERS) -> bytes:
    return b"I" + number(oid, 4) + b"N" + cells(values)


def update(
    *new: Cell, key: Sequence[Cell] = (), old: Sequence[Cell] = (), oid: int = ORDERS
) -> bytes:
    before = b"K" + cells(key) if key else b"O" + cells(old) if old else b""
    return b"U" + number(oid, 4) + before + b"N" + cells(new)


def delete(*key: Cell, old: Sequence[Cell] = (), oid: int = ORDERS) -> bytes:
    return b"D" + number(oid, 4) + (b"O" + cells(old) if old else b"K" + cells(key))


def truncate(*oids: int) -> bytes:
    return b"T" + number(len(oids), 4) + b"\0" + b"".join(number(oid, 4) for oid in oids)


def logical_message(
    prefix: str | bytes = "p", content: bytes = b"", *, transactional: bool, lsn: int = 1 << 24
) -> bytes:
    head = b"M" + bytes([transactional]) + number(lsn, 8) + encoded(prefix) + b"\0"
    return head + number(len(content), 4) + content


def in_stream(xid: int, message: bytes) -> bytes:
    """Return a change, a Relation, a Type or a logical message as it is in a stream block."""
    return message[:1] + number(xid, 4) + message[1:]


def stream_start(xid: int, *, first: bool = True) -> bytes:
    return b"S" + number(xid, 4) + bytes([first])


STREAM_STOP = b"E"


def stream_commit(xid: int, lsn: int) -> bytes:
    return b"c" + number(xid, 4) + b"\0" + _lsns_and_time(lsn)


def stream_abort(xid: int, subxid: int) -> bytes:
    return b"A" + number(xid, 4) + number(subxid, 4)


def begin_prepare(xid: int, gid: str | bytes, lsn: int) -> bytes:
    return b"b" + _lsns_and_time(lsn) + _xid_and_gid(xid, gid)


def prepare(xid: int, gid: str | bytes, lsn: int) -> bytes:
    return b"P\0" + _lsns_and_time(lsn) + _xid_and_gid(xid, gid)


def commit_prepared(xid: int, gid: str | bytes, lsn: int) -> bytes:
    return b"K\0" + _lsns_and_time(lsn) + _xid_and_gid(xid, gid)


def rollback_prepared(xid: int, gid: str | bytes, lsn: int) -> bytes:
    return b"r\0" + _lsns_and_time(lsn) + number(0, 8) + _xid_and_gid(xid, gid)


def stream_prepare(xid: int, gid: str | bytes, lsn: int) -> bytes:
    return b"p\0" + _lsns_and_time(lsn) + _xid_and_gid(xid, gid)


def _lsns_and_time(lsn: int) -> bytes:
    return number(lsn, 8) + number(lsn + 1, 8) + number(0, 8)


def _xid_and_gid(xid: int, gid: str | bytes) -> bytes:
    return number(xid, 4) + encoded(gid) + b"\0"


def transaction(xid: int, lsn: int, *changes: bytes) -> list[bytes]:
    return [begin(xid, lsn), *changes, commit(lsn)]


def frame(spark: SparkSession, messages: Iterable[bytes | None]) -> DataFrame:
    """Return the messages in the column `data` with their positions in the column `seq`."""
    data = list(messages)
    columns = {"seq": pa.array(range(len(data)), pa.int64()), "data": pa.array(data, pa.binary())}
    return spark.createDataFrame(pa.table(columns))
