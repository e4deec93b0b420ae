"""The SQL functions for PySpark, Classic and Connect alike.

By convention imported as ``from spark_pgoutput import functions as PF``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_pgoutput.arguments import ColumnOrName, options_map
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
    options: Mapping[str, str] | None = None,
) -> Column:
    """Decode a message of PostgreSQL's logical replication to a struct.

    Parameters
    ----------
    data : Column or str
        BINARY: one message as pgoutput wrote it, without the header of CopyData or XLogData.
    in_stream : Column, str or bool, optional
        BOOLEAN: whether the message stands between Stream Start and Stream Stop. It is ignored
        for messages that cannot stand there. Without it, or where it is NULL, found out from the
        message.
    options : mapping of str to str, optional
        ``mode``: ``FAILFAST`` (the default) makes a malformed message an error, ``PERMISSIVE``
        makes it NULL. ``encoding``: the server's client_encoding when the messages were written,
        by PostgreSQL's name or Java's; ``UTF8`` by default.

    Returns
    -------
    Column
        The struct of `spark_pgoutput.message_schema`; NULL where `data` is NULL or has no bytes.

    Raises
    ------
    pyspark.errors.IllegalArgumentException
        When the query runs and a message is malformed, with the condition
        ``PGOUTPUT_MALFORMED_MESSAGE``.
    pyspark.errors.AnalysisException
        When an argument has a wrong type, or an option is unknown or has no valid value.

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
    return _of_message("pgoutput_decode", data, in_stream, options)


def try_pgoutput_decode(
    data: ColumnOrName,
    in_stream: ColumnOrName | bool | None = None,
    options: Mapping[str, str] | None = None,
) -> Column:
    """Decode a message as `pgoutput_decode` does, but give NULL where it is malformed.

    Parameters
    ----------
    data : Column or str
        BINARY: one message as pgoutput wrote it.
    in_stream : Column, str or bool, optional
        BOOLEAN: whether the message stands between Stream Start and Stream Stop.
    options : mapping of str to str, optional
        As for `pgoutput_decode`; the mode can only be ``PERMISSIVE``.

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
    return _of_message("try_pgoutput_decode", data, in_stream, options)


def pgoutput_error(
    data: ColumnOrName,
    in_stream: ColumnOrName | bool | None = None,
    options: Mapping[str, str] | None = None,
) -> Column:
    """Tell what is wrong with a message, to put malformed ones aside.

    Parameters
    ----------
    data : Column or str
        BINARY: one message as pgoutput wrote it.
    in_stream : Column, str or bool, optional
        BOOLEAN: whether the message stands between Stream Start and Stream Stop.
    options : mapping of str to str, optional
        As for `pgoutput_decode`; the mode is ignored.

    Returns
    -------
    Column
        STRING: NULL where `pgoutput_decode` decodes the message, else the text of its error.

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
    return _of_message("pgoutput_error", data, in_stream, options)


def pg_lsn_format(lsn: ColumnOrName) -> Column:
    """Show an LSN as PostgreSQL's type pg_lsn does.

    Parameters
    ----------
    lsn : Column or str
        BIGINT: the 64 bits of the LSN; a negative value is one of the upper half.

    Returns
    -------
    Column
        STRING: two upper-case hexadecimal numbers without padding, with a slash between.

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
    return F.call_function("pg_lsn_format", lsn)


def pg_lsn_parse(text: ColumnOrName) -> Column:
    """Read an LSN from its text.

    Parameters
    ----------
    text : Column or str
        STRING: two hexadecimal numbers of 1 to 8 digits, padded or not, with a slash between.

    Returns
    -------
    Column
        BIGINT: the 64 bits.

    Raises
    ------
    pyspark.errors.IllegalArgumentException
        When the query runs and a text is no LSN, with the condition ``PGOUTPUT_INVALID_LSN``.

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
    return F.call_function("pg_lsn_parse", text)


def try_pg_lsn_parse(text: ColumnOrName) -> Column:
    """Read an LSN from its text as `pg_lsn_parse` does, but give NULL for a text that is none.

    Parameters
    ----------
    text : Column or str
        STRING: two hexadecimal numbers of 1 to 8 digits, padded or not, with a slash between.

    Returns
    -------
    Column
        BIGINT: the 64 bits, or NULL.

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
    return F.call_function("try_pg_lsn_parse", text)


def _of_message(
    name: str,
    data: ColumnOrName,
    in_stream: ColumnOrName | bool | None,
    options: Mapping[str, str] | None,
) -> Column:
    known = F.lit(in_stream) if in_stream is None or isinstance(in_stream, bool) else in_stream
    arguments: list[ColumnOrName] = [data, known]
    if options is not None:
        arguments.append(options_map(options))
    return F.call_function(name, *arguments)
