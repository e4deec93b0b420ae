"""Short streams of messages, and which of their transactions are committed or open at the end.

The scenarios are written here, once. `python tests/support/transactions.py` writes them to
tests/data/transactions.jsonl, from which the Scala tests read them. A line is a JSON object:

- `name`: what happens in the stream.
- `messages`: the messages in their order, in hexadecimal. The first message has position 0. Each
  change is an Insert of a table whose first column is text.
- `committed`: a text `xid@lsn: values` or `xid@lsn gid: values` for each committed transaction, in
  the order of the commits. The values are those of the first column, each with a blank before it.
  The LSN is signed, as in a BIGINT. A transaction without changes has no values.
- `open`: a text `xid state position changes` for each open transaction, in the order of their first
  messages. The state is `begun`, `streaming` or `prepared`; the position is that of the first
  message; and changes that were rolled back to a savepoint count.
- `error`: if the stream is refused, the error condition; `committed` and `open` are then empty.
- `position`: if the stream is refused, the position that the error names.
- `after` and `incomplete`: the options of the read, if they are given. `after` is signed too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import messages as m

FILE = Path(__file__).parents[1] / "data" / "transactions.jsonl"

INCOMPLETE = "PGOUTPUT_INCOMPLETE_TRANSACTION"
WENT_BACK = "PGOUTPUT_COMMIT_WENT_BACK"


class Scenario(NamedTuple):
    """A stream and its outcome, as the text at the top of this module describes them."""

    name: str
    messages: list[bytes]
    committed: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    error: str | None = None
    position: int | None = None
    after: int | None = None
    incomplete: str | None = None


def as_line(scenario: Scenario) -> str:
    given = {name: value for name, value in scenario._asdict().items() if value is not None}
    return json.dumps({**given, "messages": [data.hex() for data in scenario.messages]})


def text_of_file() -> str:
    return "".join(as_line(scenario) + "\n" for scenario in SCENARIOS)


def ordinary() -> dict[str, list[bytes]]:
    """Return the messages, by name, of the scenarios that need no option and are not refused.

    The table of each scenario has a namespace of its own, so that the scenarios can be the sources
    of one read.
    """
    return {
        scenario.name: [
            data.replace(b"public\0", b"public%d\0" % number) for data in scenario.messages
        ]
        for number, scenario in enumerate(SCENARIOS)
        if scenario[4:] == (None, None, None, None)
    }


TABLE = m.relation("public.t", m.column("k", key=True))
WIDER = m.relation("public.t", m.column("k", key=True), m.column("v"))


def plain(xid: int, lsn: int, *values: str) -> list[bytes]:
    return m.transaction(xid, lsn, *map(m.insert, values))


def prepared(xid: int, gid: str, *values: str) -> list[bytes]:
    return [m.begin_prepare(xid, gid, 50), *map(m.insert, values), m.prepare(xid, gid, 50)]


def cut_block(
    xid: int, *values: str, first: bool = False, subxid: int | None = None
) -> list[bytes]:
    """Return a stream block without its Stream Stop."""
    inserts = [m.in_stream(subxid or xid, m.insert(value)) for value in values]
    return [m.stream_start(xid, first=first), *inserts]


def block(xid: int, *values: str, first: bool = False, subxid: int | None = None) -> list[bytes]:
    return [*cut_block(xid, *values, first=first, subxid=subxid), m.STREAM_STOP]


def emitted(*, transactional: bool, xid: int | None = None) -> bytes:
    message = m.logical_message(transactional=transactional)
    return message if xid is None else m.in_stream(xid, message)


def transactions() -> Iterator[Scenario]:
    yield Scenario(
        "A transaction has the changes from Begin to Commit.",
        [TABLE, *plain(7, 100, "a", "b"), *plain(8, 110, "c")],
        ("7@100: a b", "8@110: c"),
    )
    yield Scenario(
        "A streamed transaction has the changes of its blocks, at its commit.",
        [
            *(TABLE, *block(7, "a", first=True), *block(8, "b", first=True)),
            *(*plain(9, 100, "c"), *block(7, "d"), m.stream_commit(8, 110)),
            *(*block(7, "e"), m.stream_commit(7, 120)),
        ],
        ("9@100: c", "8@110: b", "7@120: a d e"),
    )
    yield Scenario(
        "A subtransaction that was rolled back has no changes.",
        [
            *(TABLE, *cut_block(7, "a", first=True), *cut_block(7, "b", subxid=71)[1:]),
            *(*cut_block(7, "c", subxid=72)[1:], m.STREAM_STOP, m.stream_abort(7, 71)),
            *(*cut_block(7, "d", subxid=73), *cut_block(7, "e", subxid=74)[1:], m.STREAM_STOP),
            *(m.stream_abort(7, 73), m.stream_commit(7, 100)),
        ],
        ("7@100: a c e",),
    )
    yield Scenario(
        "A subtransaction of another transaction can have the same xid.",
        [
            *(TABLE, *block(7, "a", first=True), *block(8, "b", first=True)),
            *(m.stream_abort(8, 7), m.stream_commit(7, 100), m.stream_commit(8, 110)),
        ],
        ("7@100: a", "8@110: b"),
    )
    yield Scenario(
        "A streamed transaction is rolled back as a whole.",
        [TABLE, *block(7, "a", first=True), m.stream_abort(7, 7), *plain(8, 100, "b")],
        ("8@100: b",),
    )
    yield Scenario(
        "A block that follows the rollback of its transaction belongs to no transaction.",
        [TABLE, *block(7, "a", first=True), m.stream_abort(7, 7), *block(7, "b")],
    )
    yield Scenario(
        "A stream block can be empty.",
        [
            *(TABLE, *block(7, first=True), *block(7), *block(7, "a"), m.stream_commit(7, 100)),
        ],
        ("7@100: a",),
    )
    yield Scenario(
        "A prepared transaction is committed or rolled back later.",
        [
            *(TABLE, *prepared(7, "g", "a"), *prepared(8, "h", "b"), *plain(9, 100, "c")),
            *(m.commit_prepared(8, "h", 110), m.rollback_prepared(7, "g", 120)),
        ],
        ("9@100: c", "8@110 h: b"),
    )
    yield Scenario(
        "A streamed transaction is prepared, and committed later.",
        [
            *(TABLE, *block(7, "a", first=True), m.stream_abort(7, 71), *block(7, "b")),
            *(m.stream_prepare(7, "g", 50), *plain(9, 100, "c"), m.commit_prepared(7, "g", 110)),
        ],
        ("9@100: c", "7@110 g: a b"),
    )
    yield Scenario(
        "An xid and a gid together name a prepared transaction.",
        [
            *(TABLE, *prepared(7, "g", "a"), m.rollback_prepared(7, "g", 60)),
            *(*prepared(8, "g", "b"), m.rollback_prepared(7, "g", 60)),
            *(m.rollback_prepared(8, "h", 60), m.commit_prepared(8, "g", 100)),
        ],
        ("8@100 g: b",),
    )
    yield Scenario(
        "A later transaction uses the gid of an open one.",
        [
            *(TABLE, *prepared(1, "g", "a"), *prepared(2, "g", "b")),
            *(m.commit_prepared(2, "g", 30), m.rollback_prepared(1, "g", 40)),
        ],
        ("2@30 g: b",),
    )
    yield Scenario(
        "A transaction can be empty, prepared or not.",
        [TABLE, *prepared(7, "g"), m.commit_prepared(7, "g", 100), *plain(8, 110)],
        ("7@100 g:", "8@110:"),
    )
    yield Scenario(
        "Logical messages and messages of zero bytes are not changes.",
        [
            *(TABLE, emitted(transactional=False), m.begin(7, 100), b""),
            *(emitted(transactional=True), m.insert("a"), m.commit(100)),
            *(emitted(transactional=False), m.stream_start(8), b""),
            *(emitted(transactional=True, xid=8), m.in_stream(8, m.insert("b")), m.STREAM_STOP),
            *(emitted(transactional=False), m.stream_commit(8, 110)),
        ],
        ("7@100: a", "8@110: b"),
    )
    yield Scenario(
        "LSNs are unsigned.",
        [
            *(TABLE, *plain(1, 2**63 - 1, "a"), *plain(2, 2**63, "b"), *plain(3, 2**64 - 1, "c")),
            *plain(2, 2**63, "b"),
        ],
        (f"1@{2**63 - 1}: a", f"2@{-(2**63)}: b", "3@-1: c"),
    )
    yield Scenario(
        "A Prepare is not compared with the commits before it.",
        [TABLE, *plain(7, 100, "a"), *prepared(8, "g", "b"), m.commit_prepared(8, "g", 110)],
        ("7@100: a", "8@110 g: b"),
    )
    yield Scenario(
        "A rollback of what is not known changes nothing.",
        [TABLE, m.stream_abort(1, 1), m.stream_abort(1, 2), m.rollback_prepared(1, "g", 10)],
    )


# These two are open where a stream is cut off.
BEFORE_CUT = [TABLE, *block(5, "s", first=True), *prepared(6, "p", "p")]
STREAMING, PREPARED = "5 streaming 1 1", "6 prepared 4 1"

# The message that follows the cut, the messages from there on, and their outcome.
AFTER_CUT: list[tuple[str, list[bytes], tuple[str, ...], tuple[str, ...]]] = [
    ("Begin", plain(9, 110, "z"), ("9@110: z",), (STREAMING, PREPARED)),
    (
        "Stream Start",
        [*block(9, "z", first=True), m.stream_commit(9, 110)],
        ("9@110: z",),
        (STREAMING, PREPARED),
    ),
    ("Stream Stop", [m.STREAM_STOP], (), (STREAMING, PREPARED)),
    ("Stream Commit", [m.stream_commit(5, 110)], ("5@110: s",), (PREPARED,)),
    ("Stream Abort", [m.stream_abort(5, 5)], (), (PREPARED,)),
    (
        "Stream Prepare",
        [m.stream_prepare(5, "s", 50), m.commit_prepared(5, "s", 110)],
        ("5@110 s: s",),
        (PREPARED,),
    ),
    (
        "Begin Prepare",
        [*prepared(9, "h", "z"), m.commit_prepared(9, "h", 110)],
        ("9@110 h: z",),
        (STREAMING, PREPARED),
    ),
    ("Commit Prepared", [m.commit_prepared(6, "p", 110)], ("6@110 p: p",), (STREAMING,)),
    ("Rollback Prepared", [m.rollback_prepared(6, "p", 60)], (), (STREAMING,)),
    (
        "A non-transactional Message",
        [emitted(transactional=False)],
        (),
        (STREAMING, PREPARED),
    ),
]


def cut_off() -> Iterator[Scenario]:
    """The reader was cut off in the middle of a transaction, and connected again."""
    for name, rest, committed, open_ in AFTER_CUT:
        yield Scenario(
            f"{name} follows a Begin that was cut off.",
            [*BEFORE_CUT, m.begin(7, 100), m.insert("a"), *rest],
            committed,
            open_,
        )
        yield Scenario(
            f"{name} follows a Begin Prepare that was cut off.",
            [*BEFORE_CUT, m.begin_prepare(7, "g", 50), m.insert("a"), *rest],
            committed,
            open_,
        )
        yield Scenario(
            f"{name} follows a stream block that was cut off: its transaction stays open.",
            [*BEFORE_CUT, *cut_block(7, "a", first=True), *rest],
            committed,
            (*open_, "7 streaming 7 1"),
        )
        for what, begun in (
            ("Begin", m.begin(7, 100)),
            ("Begin Prepare", m.begin_prepare(7, "g", 50)),
            ("Stream Start", m.stream_start(7)),
        ):
            messages = [*BEFORE_CUT, begun, *rest]
            yield Scenario(
                f"A change is refused: {name} ended the transaction of its {what}.",
                [*messages, m.insert("a")],
                error=INCOMPLETE,
                position=len(messages),
            )
    yield Scenario(
        "A transaction is cut off and sent again.",
        [TABLE, m.begin(2, 20), m.insert("a"), *plain(1, 10, "b"), *plain(2, 20, "c")],
        ("1@10: b", "2@20: c"),
    )
    yield Scenario(
        "A transaction that is being prepared is cut off and sent again.",
        [
            *(TABLE, m.begin_prepare(8, "g", 50), m.insert("c"), *prepared(8, "g", "d")),
            m.commit_prepared(8, "g", 110),
        ],
        ("8@110 g: d",),
    )
    yield Scenario(
        "A non-transactional Message shows that a Begin was cut off.",
        [TABLE, m.begin(2, 20), m.insert("a"), emitted(transactional=False), *plain(2, 20, "b")],
        ("2@20: b",),
    )
    yield Scenario(
        "A transactional Message belongs to the transaction.",
        [TABLE, m.begin(2, 20), m.insert("a"), emitted(transactional=True), m.commit(20)],
        ("2@20: a",),
    )
    yield Scenario(
        "A stream block is cut off, and its transaction goes on.",
        [
            *(TABLE, *cut_block(2, "a", first=True), *plain(1, 10, "b"), *block(2, "c")),
            m.stream_commit(2, 20),
        ],
        ("1@10: b", "2@20: a c"),
    )
    yield Scenario(
        "A non-transactional Message shows that a stream block was cut off.",
        [
            *(TABLE, *cut_block(2, "a", first=True), emitted(transactional=False)),
            *plain(1, 10, "b"),
        ],
        ("1@10: b",),
        ("2 streaming 1 1",),
    )
    yield Scenario(
        "A Relation after a Message in a cut stream block is outside of the block.",
        [
            *(m.stream_start(2), m.in_stream(2, TABLE), m.in_stream(2, m.insert("a"))),
            *(emitted(transactional=False), TABLE, *plain(1, 10, "b")),
        ],
        ("1@10: b",),
        ("2 streaming 0 1",),
    )
    yield Scenario(
        "A Message without an xid shows that a stream block was cut off.",
        [
            *(m.stream_start(2), m.in_stream(2, TABLE), m.in_stream(2, m.insert("a"))),
            *(emitted(transactional=True), TABLE, *plain(1, 10, "b")),
        ],
        ("1@10: b",),
        ("2 streaming 0 1",),
    )
    yield Scenario(
        "A Commit and a Prepare of other transactions end what was cut off.",
        [
            *(TABLE, m.begin(7, 100), m.insert("a"), m.commit(110)),
            *(m.begin_prepare(8, "g", 50), m.insert("b"), m.commit(120), m.prepare(8, "g", 50)),
            *(m.begin_prepare(9, "h", 50), m.insert("c"), m.prepare(9, "i", 50)),
            *(m.prepare(9, "h", 50), m.stream_start(10), m.prepare(9, "h", 50)),
            *(m.stream_start(11), m.commit(130)),
        ],
        open=("10 streaming 12 0", "11 streaming 14 0"),
        incomplete="skip",
    )


def sent_again() -> Iterator[Scenario]:
    """After a reconnect the server sends what the reader has not confirmed."""
    yield Scenario(
        "A streamed transaction starts again with its first block.",
        [
            *(TABLE, *cut_block(7, "a", first=True), *block(7, "b", subxid=71)[1:]),
            *(m.stream_abort(7, 71), *cut_block(7, "c")),
            *(*cut_block(7, "a", first=True), *block(7, "b", subxid=71)[1:]),
            m.stream_commit(7, 100),
        ],
        ("7@100: a b",),
    )
    yield Scenario(
        "A streamed transaction comes again from Begin to Commit.",
        [TABLE, *block(7, "a", first=True), *plain(7, 100, "b")],
        ("7@100: b",),
    )
    yield Scenario(
        "A streamed transaction comes again from Begin Prepare to Prepare.",
        [
            *(TABLE, *block(8, "c", first=True), *prepared(8, "g", "d")),
            m.commit_prepared(8, "g", 110),
        ],
        ("8@110 g: d",),
    )
    yield Scenario(
        "A streamed transaction comes again from Begin Prepare to Prepare, and stays open.",
        [TABLE, *block(2, "a", first=True), *prepared(2, "g", "b")],
        open=("2 prepared 4 1",),
    )
    yield Scenario(
        "A prepared transaction comes again from Begin to Commit.",
        [TABLE, *prepared(7, "g", "a"), *plain(7, 100, "b")],
        ("7@100: b",),
    )
    yield Scenario(
        "A transaction is prepared again.",
        [
            *(TABLE, *prepared(7, "g", "a"), *prepared(7, "g", "b"), *block(8, "c", first=True)),
            *(m.stream_prepare(8, "h", 50), *block(8, "d", first=True)),
            *(m.stream_prepare(8, "h", 50), m.commit_prepared(8, "h", 100)),
            m.commit_prepared(7, "g", 110),
        ],
        ("8@100 h: d", "7@110 g: b"),
    )
    yield Scenario(
        "A transaction is prepared again but cut off: the first one counts.",
        [
            *(TABLE, *prepared(7, "g", "a"), m.begin_prepare(7, "g", 50), m.insert("b")),
            m.commit_prepared(7, "g", 100),
        ],
        ("7@100 g: a",),
    )
    yield Scenario(
        "A prepared transaction is streamed again but cut off: the prepared one counts.",
        [
            *(TABLE, *prepared(2, "g", "a"), *cut_block(2, "b", first=True)),
            m.commit_prepared(2, "g", 100),
        ],
        ("2@100 g: a",),
    )
    yield Scenario(
        "A transaction that commits again gives no changes again.",
        [
            *(TABLE, *plain(7, 100, "a"), *plain(8, 110, "b"), *plain(7, 100, "a")),
            *(*plain(8, 110, "b"), *block(9, "c", first=True), m.stream_commit(9, 120)),
            *(*block(9, "c", first=True), m.stream_commit(9, 120), *prepared(10, "g", "d")),
            *(m.commit_prepared(10, "g", 130), *prepared(10, "g", "d")),
            *(m.commit_prepared(10, "g", 130), *plain(11, 140, "e")),
        ],
        ("7@100: a", "8@110: b", "9@120: c", "10@130 g: d", "11@140: e"),
    )
    yield Scenario(
        "A commit comes again without its transaction.",
        [
            *(TABLE, *prepared(7, "g", "a"), *[m.commit_prepared(7, "g", 100)] * 2),
            *(*block(8, "b", first=True), *[m.stream_commit(8, 110)] * 2),
            *(*plain(9, 120, "c"), m.commit(120)),
        ],
        ("7@100 g: a", "8@110: b", "9@120: c"),
    )
    yield Scenario(
        "A Prepare with another gid than its Begin Prepare prepares nothing.",
        [TABLE, m.begin_prepare(1, "g", 50), m.insert("a"), m.prepare(1, "other", 50)],
    )


def refused() -> Iterator[Scenario]:
    """The commits go back, or the beginning of a transaction is missing."""
    for name, messages, position in (
        ("A Commit", [*plain(7, 100), *plain(8, 120), *plain(9, 110)], 5),
        ("The Commit of another transaction at an LSN", [*plain(7, 100), *plain(8, 100)], 3),
        ("A Commit without a Begin", [*plain(7, 100), m.commit(90)], 2),
        (
            "A Stream Commit",
            [*plain(7, 100), *block(8, first=True), m.stream_commit(8, 90)],
            4,
        ),
        (
            "A Commit Prepared",
            [*plain(7, 100), *prepared(8, "g"), m.commit_prepared(8, "g", 90)],
            4,
        ),
    ):
        yield Scenario(
            f"{name} goes back.", [TABLE, *messages], error=WENT_BACK, position=position + 1
        )
    yield Scenario(
        "A commit above `after` goes back.",
        [TABLE, *plain(7, 120), *plain(8, 110)],
        error=WENT_BACK,
        position=4,
        after=105,
    )
    for name, messages, position in (
        ("A Commit", [m.STREAM_STOP, m.commit(100)], 1),
        ("A Commit of another Begin", [m.begin(1, 100), m.insert("a"), m.commit(105)], 2),
        (
            "A Commit of a Begin that was cut off",
            [m.begin(1, 100), m.insert("a"), emitted(transactional=False), m.commit(100)],
            3,
        ),
        ("A Stream Commit", [m.stream_commit(7, 100)], 0),
        ("A Stream Commit without the first block", [*block(7, "a"), m.stream_commit(7, 100)], 3),
        ("A Commit Prepared", [m.commit_prepared(7, "g", 100)], 0),
        (
            "A Commit Prepared without the first block",
            [*block(7, "a"), m.stream_prepare(7, "g", 50), m.commit_prepared(7, "g", 100)],
            4,
        ),
        ("A change", [m.insert("a")], 0),
        ("A change after a Commit", [*plain(7, 90), m.insert("a")], 2),
        (
            "A change after a Stream Abort",
            [m.begin(1, 100), m.stream_abort(3, 3), m.insert("a")],
            2,
        ),
    ):
        yield Scenario(
            f"{name} has no beginning.", [TABLE, *messages], error=INCOMPLETE, position=position + 1
        )
        committed = ("7@90:",) if "after a Commit" in name else ()
        yield Scenario(
            f"{name} without a beginning is skipped if the option says so.",
            [TABLE, *messages, *plain(8, 110, "b")],
            (*committed, "8@110: b"),
            incomplete="skip",
        )


def reads() -> Iterator[Scenario]:
    """A read goes on from an earlier one."""
    yield Scenario(
        "Open transactions are in the order of their first messages.",
        [
            *(TABLE, *block(7, "a", "b", first=True), *prepared(8, "g", "c")),
            *(*block(9, first=True), *block(7, "d"), m.stream_abort(7, 71)),
            *(m.begin(10, 100), m.insert("e")),
        ],
        open=("7 streaming 1 3", "8 prepared 5 1", "9 streaming 8 0", "10 begun 14 1"),
    )
    yield Scenario(
        "A transaction that is being prepared is begun.",
        [TABLE, m.begin_prepare(7, "g", 50), m.insert("a")],
        open=("7 begun 1 1",),
    )
    yield Scenario(
        "A prepared transaction stays open while others commit.",
        [TABLE, *prepared(1, "g", "a"), *plain(2, 20, "b")],
        ("2@20: b",),
        ("1 prepared 1 1",),
    )
    yield Scenario(
        "Commits up to `after` give no changes.",
        [
            *(TABLE, *plain(7, 100, "a"), *plain(8, 110, "b"), *block(9, "c", first=True)),
            *(m.stream_commit(9, 105), *prepared(10, "g", "d"), m.commit_prepared(10, "g", 104)),
            *plain(11, 120, "e"),
        ],
        ("11@120: e",),
        after=110,
    )
    yield Scenario(
        "`after` need not be the LSN of a commit.",
        [TABLE, *plain(7, 105), *plain(8, 112, "a")],
        ("8@112: a",),
        after=110,
    )
    yield Scenario(
        "`after` is unsigned.",
        [TABLE, *plain(6, 2**63 - 1, "a"), *plain(7, 2**63, "b")],
        (f"7@{-(2**63)}: b",),
        after=2**63 - 1,
    )
    yield Scenario(
        "Commits up to `after` need no beginning.",
        [
            *(TABLE, *block(7, "a"), m.stream_commit(7, 100), m.commit(90)),
            *(m.commit_prepared(8, "g", 95), *plain(9, 110, "b")),
        ],
        ("9@110: b",),
        after=100,
    )
    yield Scenario(
        "Blocks without the first one are not open at the end.",
        [TABLE, *block(7, "a"), m.stream_start(8, first=False), m.in_stream(8, m.insert("b"))],
    )
    yield Scenario(
        "A transaction without a beginning is prepared or rolled back.",
        [
            *(TABLE, *block(7, "a"), m.stream_prepare(7, "g", 50)),
            *(m.rollback_prepared(7, "g", 60), *block(8, "b"), m.stream_abort(8, 81)),
            *(m.stream_abort(8, 8), m.prepare(9, "h", 50), m.rollback_prepared(9, "h", 60)),
        ],
    )


def relations() -> Iterator[Scenario]:
    """A Relation message of a stream block holds for its transaction, and for all at the commit."""
    wide = m.insert("a", "")
    wider_in_block = [m.stream_start(2), m.in_stream(2, WIDER), m.in_stream(2, wide), m.STREAM_STOP]
    yield Scenario(
        "A table changes in a stream block, and others use it before the commit.",
        [
            *(TABLE, *wider_in_block, *plain(1, 10, "b"), m.stream_commit(2, 20)),
            *m.transaction(3, 30, m.insert("c", "")),
        ],
        ("1@10: b", "2@20: a", "3@30: c"),
    )
    yield Scenario(
        "A table changes in a stream block, and again before the commit.",
        [
            *(*wider_in_block, TABLE, *plain(1, 10, "b"), m.stream_commit(2, 20)),
            *plain(3, 30, "c"),
        ],
        ("1@10: b", "2@20: a", "3@30: c"),
    )
    yield Scenario(
        "A table changes in a stream block that is rolled back.",
        [
            *(TABLE, m.stream_start(2), m.in_stream(2, WIDER), m.STREAM_STOP),
            *(m.stream_abort(2, 2), *plain(1, 10, "a")),
        ],
        ("1@10: a",),
    )
    yield Scenario(
        "A table changes in a savepoint that is rolled back.",
        [
            *(TABLE, m.stream_start(2), m.in_stream(3, WIDER), m.STREAM_STOP),
            *(m.stream_abort(2, 3), m.stream_start(2, first=False), m.in_stream(2, wide)),
            *(m.STREAM_STOP, m.stream_commit(2, 20)),
        ],
        ("2@20: a",),
    )
    yield Scenario(
        "A transaction that is not committed needs no Relation message.",
        [
            *(m.begin(1, 10), m.insert("a"), m.stream_start(2), m.in_stream(2, TABLE)),
            *(m.in_stream(2, m.insert("b")), m.STREAM_STOP, m.stream_commit(2, 20)),
        ],
        ("2@20: b",),
    )


SCENARIOS = [
    *transactions(),
    *cut_off(),
    *sent_again(),
    *refused(),
    *reads(),
    *relations(),
]

if __name__ == "__main__":
    FILE.write_text(text_of_file())
