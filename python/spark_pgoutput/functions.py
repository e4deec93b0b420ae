"""The SQL functions for PySpark, on Classic and on Connect.

By convention, import this module as ``from spark_pgoutput import functions as PF``.
"""

from __future__ import annotations

from pyspark.sql import Column

from spark_pgoutput.arguments import ColumnOrName, Options, column, in_stream_column
from spark_pgoutput.calls import call_function
from spark_pgoutput.row_functions import pgoutput_row, pgoutput_schema, try_pgoutput_row

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
    data: ColumnOrName,
    in_stream: ColumnOrName | bool | None = None,
    options: Options | None = None,
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
    return _call_with_message("pgoutput_decode", data, in_stream, options)


def try_pgoutput_decode(
    data: ColumnOrName,
    in_stream: ColumnOrName | bool | None = None,
    options: Options | None = None,
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
    return _call_with_message("try_pgoutput_decode", data, in_stream, options)


def pgoutput_error(
    data: ColumnOrName,
    in_stream: ColumnOrName | bool | None = None,
    options: Options | None = None,
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
    return _call_with_message("pgoutput_error", data, in_stream, options)


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
    return call_function("pg_lsn_format", column("lsn", lsn))


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
    return call_function("pg_lsn_parse", column("text", text))


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
    return call_function("try_pg_lsn_parse", column("text", text))


def _call_with_message(
    name: str,
    data: ColumnOrName,
    in_stream: ColumnOrName | bool | None,
    options: Options | None,
) -> Column:
    return call_function(name, column("data", data), in_stream_column(in_stream), options=options)
