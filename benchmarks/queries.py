"""What is measured: queries, what each is compared with, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A query over a cached table of messages.

    Attributes
    ----------
    name : str
        What it is called in the report.
    sql : str
        The query.
    scan : str, optional
        The query that only reads the same columns: what the decoding costs comes on top of it. If
        left out, everything counts.
    goal : int, optional
        The nanoseconds that a message may take a core above the scan.
    slow : bool
        Whether it is so slow that a few repetitions must do.
    """

    name: str
    sql: str
    scan: str | None = None
    goal: int | None = None
    slow: bool = False


_SCAN = "SELECT data FROM messages"
_DECODED = "FROM (SELECT pgoutput_decode(data) AS d FROM messages)"
_CHANGE_TYPES = "('INSERT', 'UPDATE', 'DELETE')"

HANDED_OVER = Query("`length(data)`, nothing decoded", "SELECT length(data) FROM messages", _SCAN)
"""What Spark takes to hand a message to any function, which is part of what follows."""

FULL = Query(
    "`pgoutput_decode(data)`", "SELECT pgoutput_decode(data) AS d FROM messages", _SCAN, 150
)

_SCHEMA = (
    "id BIGINT, customer_id INT, status STRING, amount DECIMAL(12,2), created_at TIMESTAMP, "
    "updated_at TIMESTAMP_NTZ, note STRING, paid BOOLEAN, score DOUBLE"
)
_ROW = f"pgoutput_row(pgoutput_decode(data).new, '{_SCHEMA}')"

DECODING = [
    HANDED_OVER,
    FULL,
    *(
        Query(
            f"`pgoutput_decode(data).{field}`",
            f"SELECT pgoutput_decode(data).{field} FROM messages",
            _SCAN,
            60,
        )
        for field in ("type", "relation_id", "xid")
    ),
    Query("`d.new.text[3]`", f"SELECT d.new.text[3] {_DECODED}", _SCAN, 80),
    Query("`d.new.text`", f"SELECT d.new.text {_DECODED}", _SCAN, 80),
    Query(
        f"`d.type, d.lsn, d.new … WHERE d.type IN {_CHANGE_TYPES}`",
        f"SELECT d.type, d.lsn, d.new {_DECODED} WHERE d.type IN {_CHANGE_TYPES}",
        _SCAN,
        200,
    ),
    Query(
        "`pgoutput_row(pgoutput_decode(data).new, '…')`, 9 columns",
        f"SELECT {_ROW} AS r FROM messages",
        _SCAN,
        350,
    ),
    Query("the same, `.amount` of it", f"SELECT {_ROW}.amount FROM messages", _SCAN, 120),
    Query(
        "`d.type, pgoutput_row(d.new, '…') … WHERE d.type IN ('INSERT', 'UPDATE')`",
        f"""SELECT d.type, pgoutput_row(d.new, '{_SCHEMA}') AS r {_DECODED}
            WHERE d.type IN ('INSERT', 'UPDATE')""",
        _SCAN,
    ),
]
"""Over `messages`, of every size. In the corpus each tuple has more than four columns."""

IN_STREAM_GIVEN = Query(
    "`pgoutput_decode(data, in_stream)`, in a stream",
    "SELECT pgoutput_decode(data, in_stream) AS d FROM streamed",
    "SELECT data, in_stream FROM streamed",
)
IN_STREAM_LEFT_OUT = Query(
    "`pgoutput_decode(data)`, in a stream",
    "SELECT pgoutput_decode(data) AS d FROM streamed",
    "SELECT data FROM streamed",
)
IN_STREAM_RATIO_GOAL = 1.3
"""How many times as long it may take to find out what `in_stream` would have said."""

STREAMED = [IN_STREAM_GIVEN, IN_STREAM_LEFT_OUT]
"""Over `streamed`: the messages with the xid that they have inside a streamed transaction."""

CHANGE = """named_struct(
  'type', d.type, 'relation_id', d.relation_id, 'xid', d.xid, 'lsn', d.lsn,
  'new', if(d.new IS NULL, NULL, named_struct('kinds', d.new.kinds, 'text', d.new.text)))"""
"""What the JSON of a message says."""

CHANGE_TYPE = (
    "type STRING, relation_id BIGINT, xid BIGINT, lsn BIGINT, "
    "new STRUCT<kinds: STRING, text: ARRAY<STRING>>"
)

ALTERNATIVES = [
    Query(
        "`from_json` of the same changes as JSON",
        f"SELECT from_json(change, '{CHANGE_TYPE}') AS d FROM changes",
        "SELECT change FROM changes",
        slow=True,
    ),
    Query(
        "pandas UDF with the Python package pypgoutput",
        "SELECT pypgoutput_decode(data) AS d FROM few_messages",
        "SELECT data FROM few_messages",
        slow=True,
    ),
]
"""What else a user could do. The UDF decodes less: type, relation_id and the new row's text."""

FEW_MESSAGES = 100_000
"""How many rows `few_messages` has at most."""

CHANGES = Query(
    "`pgoutput_changes`, 9 columns",
    f"SELECT * FROM pgoutput_changes('orders', 'seq', map('schema', '{_SCHEMA}'))",
    goal=1000,
)
CHANGES_SPEEDUP_GOAL = 1.8
"""How many times as fast two cores shall be as one."""
CHANGES_GROWTH_GOAL = 1.1
"""How many times as long a message may take where there are more of them."""

SHUFFLED_CHANGES = Query(
    "the same, of shuffled messages",
    f"SELECT * FROM pgoutput_changes('shuffled_orders', 'seq', map('schema', '{_SCHEMA}'))",
    goal=2500,
)

TABLE_CHANGES = [
    CHANGES,
    SHUFFLED_CHANGES,
    Query("`pgoutput_changes`, `row` as a map", "SELECT * FROM pgoutput_changes('orders', 'seq')"),
]
"""Over `orders` and `shuffled_orders`: transactions as a server sent them, in order and not."""
