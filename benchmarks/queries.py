"""The queries that are measured, and what each is compared with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A query over a cached table of messages.

    Attributes
    ----------
    name : str
        The name of the query in the report.
    sql : str
        The query.
    scan : str, optional
        A query that only reads the same columns. Its time is subtracted. Without it, the query's
        whole time counts.
    slow : bool
        True if the query takes so long that it is measured three times at most.
    """

    name: str
    sql: str
    scan: str | None = None
    slow: bool = False


_SCAN = "SELECT data FROM messages"
_DECODED = "FROM (SELECT pgoutput_decode(data) AS d FROM messages)"
_CHANGE_TYPES = "('INSERT', 'UPDATE', 'DELETE')"

HANDED_OVER = Query("`length(data)`, nothing decoded", "SELECT length(data) FROM messages", _SCAN)
"""The cost of handing a message to any function, which each query below includes."""

FULL = Query("`pgoutput_decode(data)`", "SELECT pgoutput_decode(data) AS d FROM messages", _SCAN)

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
        )
        for field in ("type", "relation_id", "xid")
    ),
    Query("`d.new.text[3]`", f"SELECT d.new.text[3] {_DECODED}", _SCAN),
    Query("`d.new.text`", f"SELECT d.new.text {_DECODED}", _SCAN),
    Query(
        f"`d.type, d.lsn, d.new … WHERE d.type IN {_CHANGE_TYPES}`",
        f"SELECT d.type, d.lsn, d.new {_DECODED} WHERE d.type IN {_CHANGE_TYPES}",
        _SCAN,
    ),
    Query(
        "`pgoutput_row(pgoutput_decode(data).new, '…')`, 9 columns",
        f"SELECT {_ROW} AS r FROM messages",
        _SCAN,
    ),
    Query(
        "`pgoutput_row(pgoutput_decode(data).new, '…').amount`",
        f"SELECT {_ROW}.amount FROM messages",
        _SCAN,
    ),
    Query(
        "`d.type, pgoutput_row(d.new, '…') … WHERE d.type IN ('INSERT', 'UPDATE')`",
        f"""SELECT d.type, pgoutput_row(d.new, '{_SCHEMA}') AS r {_DECODED}
            WHERE d.type IN ('INSERT', 'UPDATE')""",
        _SCAN,
    ),
]
"""Queries over `messages`, measured with every number of messages."""

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

STREAMED = [IN_STREAM_GIVEN, IN_STREAM_LEFT_OUT]
"""Queries over `streamed`: the messages with the xid of a streamed transaction in each."""

CHANGE = """named_struct(
  'type', d.type, 'relation_id', d.relation_id, 'xid', d.xid, 'lsn', d.lsn,
  'new', if(d.new IS NULL, NULL, named_struct('kinds', d.new.kinds, 'text', d.new.text)))"""
"""The fields of a message that its JSON has."""

CHANGE_TYPE = (
    "type STRING, relation_id BIGINT, xid BIGINT, lsn BIGINT, "
    "new STRUCT<kinds: STRING, text: ARRAY<STRING>>"
)

ALTERNATIVES = [
    Query(
        "`from_json`, for changes that are JSON already",
        f"SELECT from_json(change, '{CHANGE_TYPE}') AS d FROM changes",
        "SELECT change FROM changes",
        slow=True,
    ),
    Query(
        "pandas UDF with the decoders of pypgoutput",
        "SELECT pypgoutput_decode(data) AS d FROM few_messages",
        "SELECT data FROM few_messages",
        slow=True,
    ),
]
"""Other ways to the same data. The UDF decodes less: type, relation_id and the new row's text."""

FEW_MESSAGES = 100_000
"""The greatest number of rows of `few_messages`."""

CHANGES = Query(
    "`pgoutput_changes`, 9 columns",
    f"SELECT * FROM pgoutput_changes('orders', 'seq', map('schema', '{_SCHEMA}'))",
)

SHUFFLED_CHANGES = Query(
    "`pgoutput_changes`, 9 columns, shuffled messages",
    f"SELECT * FROM pgoutput_changes('shuffled_orders', 'seq', map('schema', '{_SCHEMA}'))",
)

TABLE_CHANGES = [
    CHANGES,
    SHUFFLED_CHANGES,
    Query("`pgoutput_changes`, `row` as a map", "SELECT * FROM pgoutput_changes('orders', 'seq')"),
]
"""Queries over `orders` and `shuffled_orders`: whole transactions, as a server sends them."""
