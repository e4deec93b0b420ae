"""The struct that a message decodes to."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)


def message_schema() -> StructType:
    """Give the struct that `spark_pgoutput.functions.pgoutput_decode` returns.

    It is flat, NULL where a field does not apply, and each field has a comment. No session is
    needed.

    Returns
    -------
    StructType
        The same as the decoder's own, comments included.

    Examples
    --------
    >>> from spark_pgoutput import message_schema
    >>> message_schema()["lsn"].dataType
    LongType()
    """
    return _struct(
        ("type", StringType(), "name of the message: " + ", ".join(_MESSAGES)),
        (
            "xid",
            LongType(),
            "transaction id; of a change inside a stream the subtransaction's, "
            "of a MESSAGE the top-level one",
        ),
        ("subxid", LongType(), "STREAM_ABORT: the subtransaction that was aborted"),
        (
            "lsn",
            LongType(),
            "BEGIN: of the commit to come; COMMIT, STREAM_COMMIT, COMMIT_PREPARED: of the commit; "
            "ORIGIN: of the commit at the origin; MESSAGE: its own; STREAM_ABORT: of the abort; "
            "BEGIN_PREPARE, PREPARE, STREAM_PREPARE: of the prepare; ROLLBACK_PREPARED: "
            "end of the prepare",
        ),
        ("end_lsn", LongType(), "end of the transaction, of its prepare or of the rollback"),
        ("timestamp", TimestampType(), "time of the commit, prepare, abort or rollback"),
        ("prepare_timestamp", TimestampType(), "ROLLBACK_PREPARED: time of the prepare"),
        ("gid", StringType(), "identifier of the prepared transaction"),
        ("origin", StringType(), "ORIGIN: name of the replication origin"),
        ("transactional", BooleanType(), "MESSAGE: whether it is part of its transaction"),
        (
            "first_segment",
            BooleanType(),
            "STREAM_START: whether this is the transaction's first block",
        ),
        ("cascade", BooleanType(), "TRUNCATE: CASCADE was given"),
        ("restart_identity", BooleanType(), "TRUNCATE: RESTART IDENTITY was given"),
        ("prefix", StringType(), "MESSAGE: its prefix"),
        ("content", BinaryType(), "MESSAGE: its content"),
        ("relation_id", LongType(), "RELATION, INSERT, UPDATE, DELETE: oid of the table"),
        (
            "relation_ids",
            ArrayType(LongType(), containsNull=False),
            "TRUNCATE: oids of the tables",
        ),
        ("relation", _RELATION, "RELATION: the table"),
        ("pg_type", _PG_TYPE, "TYPE: the type"),
        (
            "key",
            _TUPLE,
            "UPDATE, DELETE: the old values of the replica identity's columns; the others are n",
        ),
        ("old", _TUPLE, "UPDATE, DELETE: the old row, with REPLICA IDENTITY FULL"),
        ("new", _TUPLE, "INSERT, UPDATE: the new row"),
    )


def _struct(*fields: tuple[str, DataType, str]) -> StructType:
    return StructType(
        [
            StructField(name, data_type, nullable=True, metadata={"comment": comment})
            for name, data_type, comment in fields
        ]
    )


_MESSAGES = (
    "BEGIN",
    "MESSAGE",
    "COMMIT",
    "ORIGIN",
    "RELATION",
    "TYPE",
    "INSERT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "STREAM_START",
    "STREAM_STOP",
    "STREAM_COMMIT",
    "STREAM_ABORT",
    "BEGIN_PREPARE",
    "PREPARE",
    "COMMIT_PREPARED",
    "ROLLBACK_PREPARED",
    "STREAM_PREPARE",
)

_COLUMN = _struct(
    ("key", BooleanType(), "whether the column is part of the replica identity"),
    ("name", StringType(), "name of the column"),
    ("type_id", LongType(), "oid of the column's type"),
    ("type_modifier", IntegerType(), "atttypmod of the column, -1 where it has none"),
)

_RELATION = _struct(
    ("namespace", StringType(), "schema of the table, empty for pg_catalog"),
    ("name", StringType(), "name of the table"),
    ("replica_identity", StringType(), "d default (primary key), n nothing, f full, i index"),
    (
        "columns",
        ArrayType(_COLUMN, containsNull=False),
        "columns, in the order of the tuples' cells",
    ),
)

_PG_TYPE = _struct(
    ("id", LongType(), "oid of the type"),
    ("namespace", StringType(), "schema of the type, empty for pg_catalog"),
    ("name", StringType(), "name of the type; of a domain, its base type's"),
)

_TUPLE = _struct(
    (
        "kinds",
        StringType(),
        "one letter a column: n NULL, u unchanged TOASTed value that was not sent, "
        "t text, b binary",
    ),
    ("text", ArrayType(StringType()), "one element a column, NULL where the kind is not t"),
    (
        "binary",
        ArrayType(BinaryType()),
        "one element a column, NULL where the kind is not b; NULL itself where no kind is b",
    ),
)
