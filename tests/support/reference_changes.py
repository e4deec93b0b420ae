"""A simple and slow way to find the committed changes in the messages of one source.

The tests compare the fast way with it. It takes the messages one after the other, and keeps those
of a transaction in memory until its commit. It looks up the relation of a change at the
position of the change, and only for a change that it returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from support.reference_decoder import Fields, decode

Cell = str | bytes | None
Row = dict[str, Cell]


class Refused(ValueError):
    """The messages cannot be those of one replication slot, or some of them are missing."""

    condition: ClassVar[str]

    def __init__(self, position: int, what: str) -> None:
        super().__init__(f"{what} at position {position}")
        self.position = position


class IncompleteTransaction(Refused):
    """A transaction has a commit or a change, but its beginning was not seen."""

    condition = "PGOUTPUT_INCOMPLETE_TRANSACTION"


class CommitWentBack(Refused):
    """A commit has a lower LSN than an earlier commit, and does not repeat one."""

    condition = "PGOUTPUT_COMMIT_WENT_BACK"


class UnknownRelation(Refused):
    """A change has a relation that no message described, or that has other columns."""

    condition = "PGOUTPUT_UNKNOWN_RELATION"


@dataclass(frozen=True)
class Change:
    """A committed change of a row.

    A truncated table has no row. The row has only the columns that the message carries.
    """

    table: str
    change_type: str
    commit_version: int
    commit_timestamp: int
    xid: int
    gid: str | None
    origin: str | None
    position: int
    ordinal: int
    keys: list[str]
    missing: list[str]
    row: Row | None


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that is neither committed nor rolled back at the end of the messages."""

    xid: int
    gid: str | None
    state: str
    first_position: int
    changes: int


class Relation(NamedTuple):
    """The columns of a table. A value says whether the replica identity has the column."""

    position: int
    table: str
    columns: dict[str, bool]


class Sent(NamedTuple):
    """A change as its transaction sent it, and the relations of its oids at this position."""

    position: int
    ordinal: int
    fields: Fields
    relations: list[Relation | None]


@dataclass
class Transaction:
    """The messages of an open transaction.

    If it is headless, its first block is not in the messages, and its changes are not kept.
    """

    xid: int
    gid: str | None
    position: int
    lsn: int | None = None
    headless: bool = False
    origin: str | None = None
    relations: dict[int, Relation] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    messages: int = 0
    next_ordinal: int = 0


def changes(
    messages: Iterable[tuple[int, bytes]],
    *,
    after: int | None = None,
    relations: Iterable[tuple[int, bytes]] = (),
    incomplete: str = "error",
    abandon: Collection[int] = (),
) -> tuple[list[Change], list[OpenTransaction]]:
    """Return the changes in the order of their commits, and the transactions open at the end."""
    source = Source(after, skip=incomplete == "skip")
    for position, data in relations:
        if data[:1] == b"R":
            source.relation(position, decoded(data, in_stream=None))
    for position, data in messages:
        # PostgreSQL sends zero bytes if the origin was dropped.
        if data:
            source.message(position, data)
    return source.committed, source.open(abandon)


@lru_cache(maxsize=2**15)  # the tests read the same messages many times
def decoded(data: bytes, in_stream: bool | None) -> Fields:
    fields = decode(data, in_stream)
    assert fields is not None
    return fields


def unsigned(lsn: int) -> int:
    return lsn % 2**64


class Source:
    """The state of a reader of one slot.

    Between Begin and Commit, or Prepare, it has `begun`. Between Stream Start and Stream Stop it
    has `block`. It never has both.
    """

    def __init__(self, after: int | None, skip: bool) -> None:
        self.after = -1 if after is None else unsigned(after)
        self.skip = skip
        self.committed: list[Change] = []
        # None if no message has shown it yet: the first message may be one inside a block.
        self.in_stream: bool | None = None
        self.begun: Transaction | None = None
        self.block: Transaction | None = None
        self.streamed: dict[int, Transaction] = {}
        self.prepared: dict[tuple[int, str], Transaction] = {}
        self.relations: dict[int, Relation] = {}
        self.commits: dict[int, int | None] = {}  # the xid for each LSN; None without a Begin
        self.greatest = -1

    def message(self, position: int, data: bytes) -> None:
        # Only a logical message itself can show that it is not in the block that it follows.
        guessed = data[:1] == b"M" and self.in_stream
        fields = decoded(data, in_stream=None if guessed else self.in_stream)
        match fields["type"]:
            case "INSERT" | "UPDATE" | "DELETE" | "TRUNCATE":
                self.change(position, fields, len(data))
            case "RELATION":
                self.relation(position, fields)
            case "TYPE":
                pass
            case "ORIGIN":
                if transaction := self.block or self.begun:
                    transaction.origin = fields["origin"]
            case "MESSAGE":
                if not fields["transactional"] or (self.block and "xid" not in fields):
                    self.leave()
            case kind:
                begun = self.leave()
                self.boundary(position, kind, fields, begun)

    def leave(self) -> Transaction | None:
        """Leave the transaction or block. The caller keeps or drops a begun transaction;
        a streamed one waits for its end.
        """
        begun = self.begun
        self.begun = self.block = None
        self.in_stream = False
        return begun

    def boundary(self, position: int, kind: str, fields: Fields, begun: Transaction | None) -> None:
        xid: Any = fields.get("xid")
        gid: Any = fields.get("gid")
        match kind:
            case "BEGIN":
                self.streamed.pop(xid, None)
                for known in [known for known in self.prepared if known[0] == xid]:
                    del self.prepared[known]
                self.begun = Transaction(xid, None, position, lsn=fields["lsn"])
            case "COMMIT":
                if begun and begun.lsn != fields["lsn"]:
                    begun = None
                self.commit(position, fields, begun, begun.xid if begun else None)
            case "BEGIN_PREPARE":
                self.streamed.pop(xid, None)
                self.begun = Transaction(xid, gid, position)
            case "PREPARE":
                if begun and (begun.xid, begun.gid) == (xid, gid):
                    self.prepared[xid, gid] = begun
            case "STREAM_START":
                first = fields["first_segment"]
                if first or xid not in self.streamed:
                    self.streamed[xid] = Transaction(xid, None, position, headless=not first)
                self.block = self.streamed[xid]
                self.in_stream = True
            case "STREAM_COMMIT":
                streamed = self.streamed.pop(xid, None)
                if streamed:
                    for oid, relation in streamed.relations.items():
                        self.describe(self.relations, oid, relation)
                self.commit(position, fields, streamed, xid)
            case "STREAM_PREPARE":
                streamed = self.streamed.pop(xid, None)
                if streamed and not streamed.headless:
                    self.prepared[xid, gid] = replace(streamed, gid=gid)
            case "STREAM_ABORT":
                if fields["subxid"] == xid:
                    self.streamed.pop(xid, None)
                elif xid in self.streamed:
                    streamed = self.streamed[xid]
                    subxid = fields["subxid"]
                    streamed.sent = [s for s in streamed.sent if s.fields["xid"] != subxid]
            case "COMMIT_PREPARED":
                self.streamed.pop(xid, None)
                self.commit(position, fields, self.prepared.pop((xid, gid), None), xid)
            case "ROLLBACK_PREPARED":
                self.prepared.pop((xid, gid), None)

    def relation(self, position: int, fields: Fields) -> None:
        described = fields["relation"]
        table = f"{described['namespace'] or 'pg_catalog'}.{described['name']}"
        columns = {column["name"]: column["key"] for column in described["columns"]}
        known = self.block.relations if self.block else self.relations
        self.describe(known, fields["relation_id"], Relation(position, table, columns))

    def describe(self, known: dict[int, Relation], oid: int, relation: Relation) -> None:
        if oid not in known or known[oid].position < relation.position:
            known[oid] = relation

    def change(self, position: int, fields: Fields, size: int) -> None:
        transaction = self.block or self.begun
        if transaction is None:
            # Before the first boundary, a change with a transaction id belongs to a block whose
            # start was not seen.
            if self.in_stream is False or "xid" not in fields:
                self.incomplete(position, "a change outside of any transaction")
        elif not transaction.headless:
            truncates = fields["type"] == "TRUNCATE"
            oids = fields["relation_ids"] if truncates else [fields["relation_id"]]
            known = self.relations | transaction.relations
            relations = [known.get(oid) for oid in oids]
            ordinal = transaction.next_ordinal
            transaction.sent.append(Sent(position, ordinal, fields, relations))
            transaction.messages += 1
            transaction.next_ordinal += max(2, size // 4) if truncates else 2

    def commit(
        self, position: int, fields: Fields, transaction: Transaction | None, xid: int | None
    ) -> None:
        lsn = unsigned(fields["lsn"])
        if lsn <= self.greatest:
            if lsn in self.commits and (xid is None or self.commits[lsn] in (xid, None)):
                return
            if lsn > self.after:
                raise CommitWentBack(position, f"a commit of xid {xid}")
        self.commits[lsn] = xid
        self.greatest = max(self.greatest, lsn)
        if lsn > self.after:
            if transaction is None or transaction.headless:
                self.incomplete(position, f"a {fields['type']} of xid {xid}")
            else:
                self.give_out(transaction, fields)

    def incomplete(self, position: int, what: str) -> None:
        if not self.skip:
            raise IncompleteTransaction(position, what)

    def give_out(self, transaction: Transaction, commit: Fields) -> None:
        for position, ordinal, fields, relations in transaction.sent:
            for number, (change_type, relation, missing, row) in rows(position, fields, relations):
                self.committed.append(
                    Change(
                        table=relation.table,
                        change_type=change_type,
                        commit_version=commit["lsn"],
                        commit_timestamp=commit["timestamp"],
                        xid=transaction.xid,
                        gid=transaction.gid,
                        origin=transaction.origin,
                        position=position,
                        ordinal=ordinal + number,
                        keys=[name for name, key in relation.columns.items() if key],
                        missing=missing,
                        row=row,
                    )
                )

    def open(self, abandon: Collection[int]) -> list[OpenTransaction]:
        states = [
            *(("begun", transaction) for transaction in [self.begun] if transaction),
            *(
                ("streaming", transaction)
                for transaction in self.streamed.values()
                if not transaction.headless and transaction.xid not in abandon
            ),
            *(("prepared", transaction) for transaction in self.prepared.values()),
        ]
        return sorted(
            (OpenTransaction(t.xid, t.gid, state, t.position, t.messages) for state, t in states),
            key=lambda transaction: transaction.first_position,
        )


class RowOfMessage(NamedTuple):
    change_type: str
    relation: Relation
    missing: list[str]
    row: Row | None


def rows(
    position: int, fields: Fields, relations: list[Relation | None]
) -> Iterable[tuple[int, RowOfMessage]]:
    """Yield the rows of one message, each with its place: 0 for a pre-image, 1 for another row."""
    known = []
    for relation in relations:
        if relation is None:
            raise UnknownRelation(position, f"{fields}")
        known.append(relation)
    if fields["type"] == "TRUNCATE":
        for number, relation in enumerate(known):
            yield number, RowOfMessage("truncate", relation, [], None)
        return

    (relation,) = known
    columns = relation.columns
    before: Row | None = None
    if "old" in fields:
        before = cells(position, columns, fields["old"])
    elif "key" in fields:
        sent = cells(position, columns, fields["key"])
        before = {name: cell for name, cell in sent.items() if columns[name]}

    def of(change_type: str, row: Row) -> RowOfMessage:
        return RowOfMessage(change_type, relation, [c for c in columns if c not in row], row)

    if fields["type"] == "INSERT":
        yield 1, of("insert", cells(position, columns, fields["new"]))
    elif fields["type"] == "DELETE":
        assert before is not None
        yield 1, of("delete", before)
    else:
        if before is not None:
            yield 0, of("update_preimage", before)
        after = cells(position, columns, fields["new"])
        # NULL is not TOASTed: the partition of the row has another replica identity than its root.
        known_before = {name: cell for name, cell in (before or {}).items() if cell is not None}
        filled = {**known_before, **after}
        yield 1, of("update_postimage", {name: filled[name] for name in columns if name in filled})


def cells(position: int, columns: Collection[str], sent: Fields) -> Row:
    """Return the columns that the message carries, which excludes unchanged TOASTed values."""
    if len(columns) != len(sent["kinds"]):
        raise UnknownRelation(position, f"{len(sent['kinds'])} cells for {list(columns)}")
    binary = sent["binary"] or [None] * len(columns)
    return {
        name: text if hex_ is None else bytes.fromhex(hex_)
        for name, kind, text, hex_ in zip(columns, sent["kinds"], sent["text"], binary, strict=True)
        if kind != "u"
    }
