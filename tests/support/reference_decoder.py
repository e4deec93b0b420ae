"""A simple and slow decoder of pgoutput messages, with which the tests compare the fast one.

The messages and their fields are in the order of the PostgreSQL documentation, chapter "Logical
Replication Message Formats". What the documentation leaves open follows PostgreSQL's own writer and
reader, src/backend/replication/logical/proto.c.

A decoded message is a dict of the fields that it has. LSNs are signed, as in a BIGINT; timestamps
are microseconds since 1970; and binary values are in hexadecimal.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Fields = dict[str, Any]

MICROSECONDS_FROM_1970_TO_2000 = 946_684_800_000_000

# These flags are unused: the server sends 0 and accepts nothing else.
UNUSED = b"\x00"
BOOLEAN = b"\x00\x01"


class Malformed(ValueError):
    """The message is malformed at byte `at`. Its type is byte 0."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(f"at byte {at}: {reason}")
        self.at = at


def decode(data: bytes, in_stream: bool | None = None, encoding: str = "utf-8") -> Fields | None:
    """Return the fields of a message.

    A message of zero bytes has none: PostgreSQL 13 and older send it if an origin was dropped.

    `in_stream` says whether the message is between Stream Start and Stream Stop. Some messages
    carry a transaction id only there, and nothing in them says so. If it is None, the message is
    read both ways.
    """
    if not data:
        return None
    if in_stream is None:
        return _decode_in_unknown_context(data, encoding)
    return _read(Reader(data, encoding, in_stream))


def _decode_in_unknown_context(data: bytes, encoding: str) -> Fields:
    """Read the message both ways. Mostly only one reading is valid to the last byte.

    If both are, the reading without a transaction id counts. For a logical message the one with the
    smaller LSN counts, because the wrong reading takes other bytes as the first ones of the LSN.
    """
    outside = _attempt(Reader(data, encoding, in_stream=False, guessed=True))
    inside = _attempt(Reader(data, encoding, in_stream=True, guessed=True))
    if isinstance(outside, Malformed):
        if isinstance(inside, Malformed):
            raise inside if inside.at > outside.at else outside
        return inside
    if isinstance(inside, Malformed):
        return outside
    if outside["type"] == "MESSAGE" and _unsigned(inside["lsn"]) < _unsigned(outside["lsn"]):
        return inside
    return outside


def _attempt(reader: Reader) -> Fields | Malformed:
    try:
        return _read(reader)
    except Malformed as malformed:
        return malformed


def _unsigned(lsn: int) -> int:
    return lsn % 2**64


def _read(reader: Reader) -> Fields:
    fields = MESSAGES[reader.letter("".join(MESSAGES))](reader)
    if reader.left:
        raise Malformed(reader.at, f"{reader.left} bytes left over")
    return fields


class Reader:
    """The bytes of one message. Each method reads the next field.

    If `guessed`, `in_stream` is only tried. Some values that are unusual but allowed then show that
    the guess is wrong.
    """

    def __init__(self, data: bytes, encoding: str, in_stream: bool, guessed: bool = False) -> None:
        self.data = data
        self.encoding = encoding
        self.in_stream = in_stream
        self.guessed = guessed
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def need(self, size: int) -> None:
        if size > self.left:
            raise Malformed(self.at, f"need {size} bytes, got {self.left}")

    def take(self, size: int) -> bytes:
        self.need(size)
        self.at += size
        return self.data[self.at - size : self.at]

    def uint8(self) -> int:
        return int.from_bytes(self.take(1), "big")

    def uint16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def lsn(self) -> int:
        return self.int64()

    def timestamp(self) -> int:
        start = self.at
        timestamp = self.int64() + MICROSECONDS_FROM_1970_TO_2000
        if timestamp >= 2**63:
            raise Malformed(start, "timestamp out of range")
        return timestamp

    def one_of(self, allowed: bytes) -> int:
        start = self.at
        value = self.uint8()
        if value not in allowed:
            raise Malformed(start, f"unexpected 0x{value:02x}")
        return value

    def letter(self, allowed: str) -> str:
        return chr(self.one_of(allowed.encode()))

    def text(self, size: int) -> str:
        start = self.at
        try:
            return self.take(size).decode(self.encoding)
        except UnicodeDecodeError as error:
            raise Malformed(start, f"not {self.encoding}: {error.reason}") from error

    def string(self) -> str:
        end = self.data.find(0, self.at)
        if end < 0:
            raise Malformed(self.at, "string does not end")
        string = self.text(end - self.at)
        self.at += 1
        return string

    def xid_in_stream(self) -> Fields:
        """Read the id of the (sub)transaction, which a message has only in a stream block."""
        if not self.in_stream:
            return {}
        start = self.at
        xid = self.uint32()
        if self.guessed and xid == 0:
            raise Malformed(start, "no transaction has the id 0")
        return {"xid": xid}


def begin(r: Reader) -> Fields:
    return {"type": "BEGIN", "lsn": r.lsn(), "timestamp": r.timestamp(), "xid": r.uint32()}


def message(r: Reader) -> Fields:
    # In a stream block, each logical message is part of a transaction.
    flags = b"\x01" if r.guessed and r.in_stream else BOOLEAN
    return {
        "type": "MESSAGE",
        **r.xid_in_stream(),
        "transactional": r.one_of(flags) == 1,
        "lsn": r.lsn(),
        "prefix": r.string(),
        "content": r.take(r.uint32()).hex(),
    }


def commit(r: Reader) -> Fields:
    r.one_of(UNUSED)
    return {"type": "COMMIT", "lsn": r.lsn(), "end_lsn": r.lsn(), "timestamp": r.timestamp()}


def origin(r: Reader) -> Fields:
    return {"type": "ORIGIN", "lsn": r.lsn(), "origin": r.string()}


def relation(r: Reader) -> Fields:
    return {
        "type": "RELATION",
        **r.xid_in_stream(),
        "relation_id": r.uint32(),
        "relation": {
            "namespace": namespace(r),
            "name": r.string(),
            "replica_identity": r.letter("dnfi"),
            "columns": relation_columns(r),
        },
    }


def relation_columns(r: Reader) -> list[Fields]:
    count = r.uint16()
    r.need(count * 10)  # the size of a column with an empty name
    return [
        {
            "key": r.one_of(BOOLEAN) == 1,
            "name": r.string(),
            "type_id": r.uint32(),
            "type_modifier": r.int32(),
        }
        for _ in range(count)
    ]


def pg_type(r: Reader) -> Fields:
    xid = r.xid_in_stream()
    type_id = r.uint32()
    return {
        "type": "TYPE",
        **xid,
        "pg_type": {"id": type_id, "namespace": namespace(r), "name": r.string()},
    }


def namespace(r: Reader) -> str:
    start = r.at
    name = r.string()
    # Such bytes are not a namespace, but the id of the table or type after that of a transaction.
    first = r.data[start : start + 4].split(b"\0")[0]
    if r.guessed and not r.in_stream and any(byte < 0x20 or byte == 0x7F for byte in first):
        raise Malformed(start, "namespace has a control character")
    return name


def insert(r: Reader) -> Fields:
    fields = {"type": "INSERT", **r.xid_in_stream(), "relation_id": r.uint32()}
    r.letter("N")
    return {**fields, "new": tuple_data(r)}


def update(r: Reader) -> Fields:
    fields = {"type": "UPDATE", **r.xid_in_stream(), "relation_id": r.uint32()}
    marker = r.letter("KON")
    if marker != "N":
        fields["key" if marker == "K" else "old"] = tuple_data(r)
        r.letter("N")
    return {**fields, "new": tuple_data(r)}


def delete(r: Reader) -> Fields:
    fields = {"type": "DELETE", **r.xid_in_stream(), "relation_id": r.uint32()}
    return {**fields, "key" if r.letter("KO") == "K" else "old": tuple_data(r)}


def truncate(r: Reader) -> Fields:
    xid = r.xid_in_stream()
    count = r.uint32()
    flags = r.one_of(b"\x00\x01\x02\x03")
    r.need(count * 4)
    return {
        "type": "TRUNCATE",
        **xid,
        "cascade": flags & 1 != 0,
        "restart_identity": flags & 2 != 0,
        "relation_ids": [r.uint32() for _ in range(count)],
    }


def stream_start(r: Reader) -> Fields:
    return {"type": "STREAM_START", "xid": r.uint32(), "first_segment": r.one_of(BOOLEAN) == 1}


def stream_stop(r: Reader) -> Fields:
    return {"type": "STREAM_STOP"}


def stream_commit(r: Reader) -> Fields:
    xid = r.uint32()
    return {**commit(r), "type": "STREAM_COMMIT", "xid": xid}


def stream_abort(r: Reader) -> Fields:
    fields = {"type": "STREAM_ABORT", "xid": r.uint32(), "subxid": r.uint32()}
    if r.left:  # with the option streaming = parallel
        fields |= {"lsn": r.lsn(), "timestamp": r.timestamp()}
    return fields


def begin_prepare(r: Reader) -> Fields:
    return {
        "type": "BEGIN_PREPARE",
        "lsn": r.lsn(),
        "end_lsn": r.lsn(),
        "timestamp": r.timestamp(),
        "xid": r.uint32(),
        "gid": r.string(),
    }


def prepare(r: Reader) -> Fields:
    r.one_of(UNUSED)
    return {**begin_prepare(r), "type": "PREPARE"}


def commit_prepared(r: Reader) -> Fields:
    return {**commit(r), "type": "COMMIT_PREPARED", "xid": r.uint32(), "gid": r.string()}


def rollback_prepared(r: Reader) -> Fields:
    r.one_of(UNUSED)
    return {
        "type": "ROLLBACK_PREPARED",
        "lsn": r.lsn(),
        "end_lsn": r.lsn(),
        "prepare_timestamp": r.timestamp(),
        "timestamp": r.timestamp(),
        "xid": r.uint32(),
        "gid": r.string(),
    }


def stream_prepare(r: Reader) -> Fields:
    return {**prepare(r), "type": "STREAM_PREPARE"}


def tuple_data(r: Reader) -> Fields:
    count = r.uint16()
    r.need(count)  # a column has at least its kind
    kinds = ""
    text: list[str | None] = []
    binary: list[str | None] = []
    for _ in range(count):
        kind = r.letter("nutb")
        kinds += kind
        text.append(r.text(r.uint32()) if kind == "t" else None)
        binary.append(r.take(r.uint32()).hex() if kind == "b" else None)
    return {"kinds": kinds, "text": text, "binary": binary if "b" in kinds else None}


MESSAGES: dict[str, Callable[[Reader], Fields]] = {
    "B": begin,
    "M": message,
    "C": commit,
    "O": origin,
    "R": relation,
    "Y": pg_type,
    "I": insert,
    "U": update,
    "D": delete,
    "T": truncate,
    "S": stream_start,
    "E": stream_stop,
    "c": stream_commit,
    "A": stream_abort,
    "b": begin_prepare,
    "P": prepare,
    "K": commit_prepared,
    "r": rollback_prepared,
    "p": stream_prepare,
}


def rewrite_golden() -> None:
    """Write the fields of the messages in `golden.jsonl` again, for example with a new one."""
    file = Path(__file__).parents[1] / "data/golden.jsonl"
    entries = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for entry in entries:
        entry["decoded"] = decode(bytes.fromhex(entry["data"]), entry["in_stream"])
    text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    rewrite_golden()
