"""Short streams of messages, for what the captured ones do not have: each with the values that are
committed, in order, and the xids that are left open."""

from __future__ import annotations

from typing import NamedTuple

OID = 7


class Case(NamedTuple):
    messages: list[bytes]
    committed: str
    left_open: tuple[int, ...] = ()


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def in_stream(xid: int | None) -> bytes:
    return b"" if xid is None else u32(xid)


def relation(*columns: str, xid: int | None = None, name: str = "t") -> bytes:
    """The first column is the key."""
    described = b"".join(
        bytes([number == 0]) + column.encode() + b"\0" + u32(25) + b"\xff\xff\xff\xff"
        for number, column in enumerate(columns)
    )
    count = len(columns).to_bytes(2, "big")
    return b"R" + in_stream(xid) + u32(OID) + b"s\0" + name.encode() + b"\0d" + count + described


def cells(*texts: str) -> bytes:
    sent = b"".join(b"t" + u32(len(text)) + text.encode() for text in texts)
    return len(texts).to_bytes(2, "big") + sent


def insert(*texts: str, xid: int | None = None) -> bytes:
    return b"I" + in_stream(xid) + u32(OID) + b"N" + cells(*texts)


def logical_message(*, transactional: bool, xid: int | None = None) -> bytes:
    return b"M" + in_stream(xid) + bytes([transactional]) + u64(1 << 24) + b"p\0" + u32(0)


def begin(lsn: int, xid: int) -> bytes:
    return b"B" + u64(lsn) + u64(0) + u32(xid)


def commit(lsn: int) -> bytes:
    return b"C\0" + u64(lsn) + u64(lsn + 1) + u64(0)


def start(xid: int, first: bool = True) -> bytes:
    return b"S" + u32(xid) + bytes([first])


STOP = b"E"


def stream_commit(lsn: int, xid: int) -> bytes:
    return b"c" + u32(xid) + commit(lsn)[1:]


def abort(xid: int, subxid: int) -> bytes:
    return b"A" + u32(xid) + u32(subxid)


def of_gid(tag: bytes, lsn: int, xid: int, gid: str) -> bytes:
    flags = b"" if tag == b"b" else b"\0"
    times = u64(0) * (2 if tag == b"r" else 1)
    return tag + flags + u64(lsn) + u64(lsn + 1) + times + u32(xid) + gid.encode() + b"\0"


def begin_prepare(lsn: int, xid: int, gid: str = "g") -> bytes:
    return of_gid(b"b", lsn, xid, gid)


def prepare(lsn: int, xid: int, gid: str = "g") -> bytes:
    return of_gid(b"P", lsn, xid, gid)


def commit_prepared(lsn: int, xid: int, gid: str = "g") -> bytes:
    return of_gid(b"K", lsn, xid, gid)


def rollback_prepared(lsn: int, xid: int, gid: str = "g") -> bytes:
    return of_gid(b"r", lsn, xid, gid)


def stream_prepare(lsn: int, xid: int, gid: str = "g") -> bytes:
    return of_gid(b"p", lsn, xid, gid)


R = relation("k")


def plain(lsn: int, xid: int, text: str) -> list[bytes]:
    return [begin(lsn, xid), insert(text), commit(lsn)]


def block(xid: int, *texts: str, first: bool = True, subxid: int | None = None) -> list[bytes]:
    described = [relation("k", xid=xid)] if first else []
    changed = [insert(text, xid=subxid or xid) for text in texts]
    return [start(xid, first), *described, *changed, STOP]


CASES = {
    "cut off between Begin and Commit": Case(
        [R, begin(20, 2), insert("a"), *plain(10, 1, "b"), *plain(20, 2, "c")], "bc"
    ),
    "cut off in Begin by a logical message": Case(
        [R, begin(20, 2), insert("a"), logical_message(transactional=False), *plain(20, 2, "b")],
        "b",
    ),
    "a logical message of the transaction": Case(
        [R, begin(20, 2), insert("a"), logical_message(transactional=True), commit(20)], "a"
    ),
    "cut off in a block, which goes on": Case(
        [
            R,
            *block(2, "a")[:-1],
            *plain(10, 1, "b"),
            *block(2, "c", first=False),
            stream_commit(20, 2),
        ],
        "bac",
    ),
    "cut off in a block by a logical message": Case(
        [R, *block(2, "a")[:-1], logical_message(transactional=False), *plain(10, 1, "b")],
        "b",
        (2,),
    ),
    "cut off in a block by a logical message, as what follows shows": Case(
        [*block(2, "a")[:-1], logical_message(transactional=False), R, *plain(10, 1, "b")],
        "b",
        (2,),
    ),
    "cut off in a block by a logical message without a transaction id": Case(
        [*block(2, "a")[:-1], logical_message(transactional=True), R, *plain(10, 1, "b")],
        "b",
        (2,),
    ),
    "a logical message in a block": Case(
        [
            *block(2, "a")[:-1],
            logical_message(transactional=True, xid=2),
            insert("b", xid=2),
            STOP,
            stream_commit(20, 2),
        ],
        "ab",
    ),
    "streamed again": Case(
        [*block(2, "a", "b")[:-1], *block(2, "c"), stream_commit(20, 2)],
        "c",
    ),
    "streamed, then sent whole": Case(
        [R, *block(2, "a"), *plain(20, 2, "b")],
        "b",
    ),
    "streamed, then prepared whole": Case(
        [
            R,
            *block(2, "a"),
            begin_prepare(20, 2),
            insert("b"),
            prepare(20, 2),
            commit_prepared(30, 2),
        ],
        "b",
    ),
    "streamed, then prepared whole and open": Case(
        [R, *block(2, "a"), begin_prepare(20, 2), insert("b"), prepare(20, 2)], "", (2,)
    ),
    "prepared, then sent whole": Case(
        [R, begin_prepare(10, 1), insert("a"), prepare(10, 1), *plain(20, 1, "b")], "b"
    ),
    "prepared under another gid": Case(
        [R, begin_prepare(10, 1), insert("a"), prepare(10, 1, "other")], ""
    ),
    "prepared without a beginning": Case([*block(1, "a", first=False), stream_prepare(10, 1)], ""),
    "prepared, streamed again and cut off, then decided": Case(
        [
            R,
            begin_prepare(10, 2),
            insert("a"),
            prepare(10, 2),
            *block(2, "b")[:-1],
            commit_prepared(30, 2),
        ],
        "a",
    ),
    "savepoints": Case(
        [
            *block(2, "a"),
            *block(2, "b", first=False, subxid=3),
            *block(2, "c", first=False),
            abort(2, 3),
            *block(2, "d", first=False, subxid=4),
            stream_commit(20, 2),
        ],
        "acd",
    ),
    "aborted": Case([*block(2, "a"), abort(2, 2), *block(2, "b", first=False)], ""),
    "commits again": Case(
        [
            R,
            *plain(10, 1, "a"),
            *plain(20, 2, "b"),
            *plain(10, 1, "a"),
            *plain(20, 2, "b"),
            *plain(30, 3, "c"),
        ],
        "abc",
    ),
    "prepared again": Case(
        [
            R,
            begin_prepare(10, 1),
            insert("a"),
            prepare(10, 1),
            begin_prepare(10, 1),
            insert("b"),
            prepare(10, 1),
            commit_prepared(20, 1),
        ],
        "b",
    ),
    "prepared again, but cut off": Case(
        [
            R,
            begin_prepare(10, 1),
            insert("a"),
            prepare(10, 1),
            begin_prepare(10, 1),
            insert("b"),
            commit_prepared(20, 1),
        ],
        "a",
    ),
    "decided again": Case(
        [
            R,
            begin_prepare(10, 1),
            insert("a"),
            prepare(10, 1),
            commit_prepared(20, 1),
            commit_prepared(20, 1),
        ],
        "a",
    ),
    "a gid used again": Case(
        [
            R,
            begin_prepare(10, 1),
            insert("a"),
            prepare(10, 1),
            begin_prepare(20, 2),
            insert("b"),
            prepare(20, 2),
            commit_prepared(30, 2),
            rollback_prepared(40, 1),
        ],
        "b",
    ),
    "prepared and open": Case(
        [R, begin_prepare(10, 1), insert("a"), prepare(10, 1), *plain(20, 2, "b")], "b", (1,)
    ),
    "nothing to abort or roll back": Case([abort(1, 1), abort(1, 2), rollback_prepared(10, 1)], ""),
    "LSNs beyond the signed ones": Case(
        [R, *plain(2**63 - 1, 1, "a"), *plain(2**63, 2, "b"), *plain(2**63 - 1, 1, "a")], "ab"
    ),
    "a relation of a block before its commit": Case(
        [
            R,
            start(2),
            relation("k", "v", xid=2),
            insert("a", "", xid=2),
            STOP,
            *plain(10, 1, "b"),
            stream_commit(20, 2),
            begin(30, 3),
            insert("c", ""),
            commit(30),
        ],
        "bac",
    ),
    "a relation of a block and a later one": Case(
        [
            start(2),
            relation("k", "v", xid=2),
            insert("a", "", xid=2),
            STOP,
            R,
            *plain(10, 1, "b"),
            stream_commit(20, 2),
            *plain(30, 3, "c"),
        ],
        "bac",
    ),
    "a relation of a block that aborts": Case(
        [R, start(2), relation("k", "v", xid=2), STOP, abort(2, 2), *plain(10, 1, "a")], "a"
    ),
    "a relation of a savepoint rolled back": Case(
        [
            R,
            start(2),
            relation("k", "v", xid=3),
            STOP,
            abort(2, 3),
            *block(2, first=False)[:-1],
            insert("a", "", xid=2),
            STOP,
            stream_commit(20, 2),
        ],
        "a",
    ),
    "zero bytes in place of an origin": Case([R, begin(10, 1), b"", insert("a"), commit(10)], "a"),
    "a change without relation that is not committed": Case(
        [begin(10, 1), insert("a"), *block(2, "b"), stream_commit(20, 2)], "b"
    ),
}
