"""The SQL functions for PySpark, on Classic and on Connect.

By convention, import this module as ``from spark_pgoutput import functions as PF``.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_pgoutput.arguments import (
    ColumnOrName,
    InStream,
    Options,
    Schema,
    TypeIds,
    column,
    in_stream_column,
    options_map,
    schema_column,
    type_ids_column,
)
from spark_pgoutput.registration import require_functions

__all__ = [
    "pg_lsn_format",
    "pg_lsn_parse",
    "pgoutput_decode",
    "pgoutput_error",
    "pgoutput_row",
    "pgoutput_schema",
    "try_pg_lsn_parse",
    "try_pgoutput_decode",
    "try_pgoutput_row",
]


def pgoutput_decode(
    data: ColumnOrName, in_stream: InStream = None, options: Options | None = None
) -> Column:
    """Decode a logical replication message of PostgreSQL into a struct.

    Parameters
    ----------
    data : Column or str
        BINARY: one message as pgoutput wrote it, without the header of CopyData or XLogData.
    in_stream : Column, str or bool, optional
        BOOLEAN: whether the message is between Stream Start and Stream Stop. If you omit it,
        or if it is NULL, the decoder infers it from the message. The decoder ignores it for
        messages that cannot be there.
    options : mapping of str to str, number, bool or None, optional
        ``mode``: if a message is malformed, ``FAILFAST`` (the default) raises an error and
        ``PERMISSIVE`` gives NULL. ``encoding``: the server's client_encoding when it wrote the
        messages, by PostgreSQL's name or Java's; the default is ``UTF8``. An option whose value is
        None counts as not given.

    Returns
    -------
    Column
        The struct of `spark_pgoutput.message_schema`. It is NULL if `data` is NULL or has no bytes.

    Raises
    ------
    TypeError
        If an argument has a wrong Python type.
    RuntimeError
        If the Spark session does not have the functions.
    pyspark.errors.AnalysisException
        If an argument has a wrong SQL type, or if an option is unknown or has an invalid value.
    pyspark.errors.IllegalArgumentException
        If a message is malformed when the query runs, with the condition
        ``PGOUTPUT_MALFORMED_MESSAGE``.

    Notes
    -----
    PostgreSQL documentation, chapter "Logical Replication Message Formats".

    Examples
    --------
    >>> from spark_pgoutput import functions as PF
    >>> insert = bytearray.fromhex("49000040104e0002740000000234326e")
    >>> df = spark.createDataFrame([(insert,)], "data binary")
    >>> message = df.select(PF.pgoutput_decode("data").alias("d"))
    >>> message.select("d.type", "d.relation_id", "d.new.kinds", "d.new.text").show()
    +------+-----------+-----+----------+
    |  type|relation_id|kinds|      text|
    +------+-----------+-----+----------+
    |INSERT|      16400|   tn|[42, NULL]|
    +------+-----------+-----+----------+
    <BLANKLINE>
    """
    return _call("pgoutput_decode", options, column("data", data), in_stream_column(in_stream))


def try_pgoutput_decode(
    data: ColumnOrName, in_stream: InStream = None, options: Options | None = None
) -> Column:
    """Decode a message as `pgoutput_decode` does, but give NULL if it is malformed.

    Parameters
    ----------
    data : Column or str
        BINARY: one message as pgoutput wrote it.
    in_stream : Column, str or bool, optional
        BOOLEAN: whether the message is between Stream Start and Stream Stop.
    options : mapping of str to str, number, bool or None, optional
        The options of `pgoutput_decode`; the only valid ``mode`` is ``PERMISSIVE``.

    Returns
    -------
    Column
        The struct of `spark_pgoutput.message_schema`, or NULL.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF
    >>> messages = [(bytearray(b"E"),), (bytearray(b"E?"),)]
    >>> df = spark.createDataFrame(messages, "data binary")
    >>> df.select(PF.try_pgoutput_decode("data")["type"].alias("type")).show()
    +-----------+
    |       type|
    +-----------+
    |STREAM_STOP|
    |       NULL|
    +-----------+
    <BLANKLINE>
    """
    return _call("try_pgoutput_decode", options, column("data", data), in_stream_column(in_stream))


def pgoutput_error(
    data: ColumnOrName, in_stream: InStream = None, options: Options | None = None
) -> Column:
    """Say what is wrong with a message, so that you can set malformed messages aside.

    Parameters
    ----------
    data : Column or str
        BINARY: one message as pgoutput wrote it.
    in_stream : Column, str or bool, optional
        BOOLEAN: whether the message is between Stream Start and Stream Stop.
    options : mapping of str to str, number, bool or None, optional
        The options of `pgoutput_decode`; the function ignores ``mode``.

    Returns
    -------
    Column
        STRING: the text of the error that `pgoutput_decode` raises for the message. It is NULL if
        `pgoutput_decode` decodes the message, and also if `data` is NULL.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF
    >>> df = spark.createDataFrame([(bytearray(b"E?"),)], "data binary")
    >>> df.select(PF.pgoutput_error("data").alias("error")).show(truncate=False)
    +-----------------------------------------------------------------+
    |error                                                            |
    +-----------------------------------------------------------------+
    |STREAM_STOP at byte 1: 1 byte left over; message of 2 bytes: 453f|
    +-----------------------------------------------------------------+
    <BLANKLINE>
    """
    return _call("pgoutput_error", options, column("data", data), in_stream_column(in_stream))


def pg_lsn_format(lsn: ColumnOrName) -> Column:
    """Format an LSN as PostgreSQL's type pg_lsn does.

    Parameters
    ----------
    lsn : Column or str
        BIGINT: the 64 bits of the LSN. A negative value stands for an LSN of 2**63 or more.

    Returns
    -------
    Column
        STRING: two upper-case hexadecimal numbers without padding and a slash between them.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF
    >>> df = spark.createDataFrame([(97500059720,), (-1,)], "lsn bigint")
    >>> df.select(PF.pg_lsn_format("lsn").alias("text")).show()
    +-----------------+
    |             text|
    +-----------------+
    |      16/B374D848|
    |FFFFFFFF/FFFFFFFF|
    +-----------------+
    <BLANKLINE>
    """
    return _call("pg_lsn_format", None, column("lsn", lsn))


def pg_lsn_parse(text: ColumnOrName) -> Column:
    """Parse the text of an LSN.

    Parameters
    ----------
    text : Column or str
        STRING: two hexadecimal numbers of 1 to 8 digits each and a slash between them.

    Returns
    -------
    Column
        BIGINT: the 64 bits of the LSN.

    Raises
    ------
    pyspark.errors.IllegalArgumentException
        If a text is not an LSN when the query runs, with the condition ``PGOUTPUT_INVALID_LSN``.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF
    >>> df = spark.createDataFrame([("16/B374D848",)], "text string")
    >>> df.select(PF.pg_lsn_parse("text").alias("lsn")).show()
    +-----------+
    |        lsn|
    +-----------+
    |97500059720|
    +-----------+
    <BLANKLINE>
    """
    return _call("pg_lsn_parse", None, column("text", text))


def try_pg_lsn_parse(text: ColumnOrName) -> Column:
    """Parse the text of an LSN as `pg_lsn_parse` does, but give NULL if the text is not an LSN.

    Parameters
    ----------
    text : Column or str
        STRING: two hexadecimal numbers of 1 to 8 digits each and a slash between them.

    Returns
    -------
    Column
        BIGINT: the 64 bits of the LSN, or NULL.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF
    >>> df = spark.createDataFrame([("0/1A",), ("1A",)], "text string")
    >>> df.select(PF.try_pg_lsn_parse("text").alias("lsn")).show()
    +----+
    | lsn|
    +----+
    |  26|
    |NULL|
    +----+
    <BLANKLINE>
    """
    return _call("try_pg_lsn_parse", None, column("text", text))


def pgoutput_row(
    tuple: ColumnOrName, schema: Schema, type_ids: TypeIds = None, options: Options | None = None
) -> Column:
    """Convert the cells of a tuple, by position, to a struct of typed columns.

    Parameters
    ----------
    tuple : Column or str
        A tuple of the struct that `pgoutput_decode` returns: its ``key``, ``old`` or ``new``.
    schema : str, StructType or Column
        The columns and their types, as DDL or as a StructType; `pgoutput_schema` finds them. The
        schema must have as many columns as the tuple has cells. The function ignores NOT NULL.
        A Column must be constant.
    type_ids : Column, str or sequence of int, optional
        ARRAY<BIGINT>: the oids of the columns' types in PostgreSQL, for example
        ``r.relation.columns.type_id``, where ``r`` is the decoded Relation message. Binary cells
        need them. If they are None or NULL, or NULL for one column, the function reads text by the
        type in the schema.
    options : mapping of str to str, number, bool or None, optional
        ``mode``: if a value does not fit its type, ``FAILFAST`` (the default) raises an error and
        ``PERMISSIVE`` gives NULL. ``infinity``: with ``error`` (the default), an infinite date,
        timestamp or interval is an error. With ``null``, it becomes NULL. With ``clamp``, it
        becomes the nearest value: for dates and timestamps, the first or last one of the years 1 to
        9999, in UTC. ``timeZone``: the time zone for timestamptz text without an offset and for
        timestamps that you read as TIMESTAMP (by default the session's), and for a binary
        timestamptz that you read as STRING (by default UTC).
        ``dateStyle``: the server's DateStyle, which must be ``ISO``. ``moneyScale``: how many
        digits money has after the decimal point, by default ``2``. ``encoding``: the server's
        client_encoding, for the text in binary cells, by default ``UTF8``. ``type.<oid>``: the type
        behind an oid that PostgreSQL does not fix, for example ``enum`` or ``array:int4``. An
        option whose value is None counts as not given.

    Returns
    -------
    Column
        The struct of the schema. It is NULL if `tuple` is NULL. A column is NULL if its cell is
        NULL, and also if its cell is a TOASTed value that was not sent; ``tuple.kinds`` has ``n``
        for the former and ``u`` for the latter.

    Raises
    ------
    TypeError
        If an argument has a wrong Python type.
    RuntimeError
        If the Spark session does not have the functions.
    pyspark.errors.AnalysisException
        If an argument has a wrong SQL type, if an option is unknown or has an invalid value, or if
        constant type_ids do not match the schema.
    pyspark.errors.IllegalArgumentException
        If a value does not fit its type when the query runs, with the condition
        ``PGOUTPUT_INVALID_VALUE``. Also, in every mode, if the tuple, the schema and the type_ids
        differ in length or a type cannot be converted to the one in the schema, with the condition
        ``PGOUTPUT_SCHEMA_MISMATCH``.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF
    >>> insert = bytearray.fromhex("49000040104e000274000000023432740000000431392e39")
    >>> df = spark.createDataFrame([(insert,)], "data binary")
    >>> new = df.select(PF.pgoutput_decode("data")["new"].alias("new"))
    >>> new.select(PF.pgoutput_row("new", "id BIGINT, price DECIMAL(6,2)").alias("row")).show()
    +-----------+
    |        row|
    +-----------+
    |{42, 19.90}|
    +-----------+
    <BLANKLINE>
    """
    return _call("pgoutput_row", options, *_tuple_arguments(tuple, schema, type_ids))


def try_pgoutput_row(
    tuple: ColumnOrName, schema: Schema, type_ids: TypeIds = None, options: Options | None = None
) -> Column:
    """Convert a tuple as `pgoutput_row` does, but give NULL for a value that does not fit its type.

    Parameters
    ----------
    tuple : Column or str
        A tuple of the struct that `pgoutput_decode` returns: its ``key``, ``old`` or ``new``.
    schema : str, StructType or Column
        The columns and their types, as for `pgoutput_row`.
    type_ids : Column, str or sequence of int, optional
        ARRAY<BIGINT>: the oids of the columns' types in PostgreSQL.
    options : mapping of str to str, number, bool or None, optional
        The options of `pgoutput_row`; the only valid ``mode`` is ``PERMISSIVE``.

    Returns
    -------
    Column
        The struct of the schema. It is NULL if `tuple` is NULL.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF
    >>> insert = bytearray.fromhex("49000040104e000274000000023432740000000431392e39")
    >>> df = spark.createDataFrame([(insert,)], "data binary")
    >>> new = df.select(PF.pgoutput_decode("data")["new"].alias("new"))
    >>> new.select(PF.try_pgoutput_row("new", "id BIGINT, price INT").alias("row")).show()
    +----------+
    |       row|
    +----------+
    |{42, NULL}|
    +----------+
    <BLANKLINE>
    """
    return _call("try_pgoutput_row", options, *_tuple_arguments(tuple, schema, type_ids))


def pgoutput_schema(relation: ColumnOrName, options: Options | None = None) -> Column:
    """Find the Spark schema of a table as human-readable DDL, which `pgoutput_row` takes.

    `spark_pgoutput.schema_of` gives the schema of a collected row as a StructType.

    Parameters
    ----------
    relation : Column or str
        The field ``relation`` of the struct that `pgoutput_decode` returns.
    options : mapping of str to str, number, bool or None, optional
        The options of `pgoutput_row`. Only ``type.<oid>`` matters here: it names the type behind an
        oid that PostgreSQL does not fix.

    Returns
    -------
    Column
        STRING: the schema as DDL, with PostgreSQL's types in the columns' comments. It is NULL if
        `relation` is NULL.

    Examples
    --------
    >>> from spark_pgoutput import functions as PF
    >>> relation = "520000404a7075626c6963006f726465727300640001016964000000001400000000"
    >>> df = spark.createDataFrame([(bytearray.fromhex(relation),)], "data binary")
    >>> found = df.select(PF.pgoutput_decode("data")["relation"].alias("relation"))
    >>> found.select(PF.pgoutput_schema("relation").alias("schema")).show(truncate=False)
    +------------------------+
    |schema                  |
    +------------------------+
    |id BIGINT COMMENT 'int8'|
    +------------------------+
    <BLANKLINE>
    """
    return _call("pgoutput_schema", options, column("relation", relation))


def _tuple_arguments(tuple: ColumnOrName, schema: Schema, type_ids: TypeIds) -> list[ColumnOrName]:
    return [column("tuple", tuple), schema_column(schema), type_ids_column(type_ids)]


def _call(name: str, options: Options | None, *arguments: ColumnOrName) -> Column:
    """Call a SQL function, on Classic and on Connect. Its last argument is the options, if any."""
    require_functions()
    return F.call_function(name, *arguments, *([] if options is None else [options_map(options)]))
