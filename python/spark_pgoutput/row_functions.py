"""The SQL functions for typed rows; `spark_pgoutput.functions` hands them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_pgoutput.arguments import ColumnOrName, options_map

__all__ = ["pgoutput_row", "pgoutput_schema", "try_pgoutput_row"]


def pgoutput_row(
    tuple: ColumnOrName,
    schema: str | StructType,
    type_ids: ColumnOrName | Sequence[int | None] | None = None,
    options: Mapping[str, str] | None = None,
) -> Column:
    """Read the cells of a tuple, by position, as a struct of the schema.

    Parameters
    ----------
    tuple : Column or str
        A tuple of `pgoutput_decode`'s struct: its ``key``, ``old`` or ``new``.
    schema : str or StructType
        The columns and their types, as DDL or as a StructType; `pgoutput_schema` finds it. There
        must be as many as the tuple has cells. NOT NULL in it is ignored.
    type_ids : Column, str or sequence of int, optional
        ARRAY<BIGINT>: the oids of the columns' types; a column of them is
        ``r.relation.columns.type_id``, where ``r`` is the decoded Relation message. Binary cells
        need them. Where NULL (or None), or NULL for a column, the type is not known: text is then
        read by the type in the schema.
    options : mapping of str to str, optional
        ``mode``: ``FAILFAST`` (the default) makes a value that does not fit an error,
        ``PERMISSIVE`` makes it NULL. ``infinity``: what infinite dates, timestamps and intervals
        give: ``error`` (the default), ``null``, or ``clamp`` for the first and last there are.
        ``timeZone``: of timestamptz text without an offset and of timestamps that are read as
        TIMESTAMP (the session's by default), and of a binary timestamptz that is read as STRING
        (UTC by default). ``dateStyle``: the server's, ``ISO`` by default. ``moneyScale``: the
        digits of money after the point, ``2`` by default. ``encoding``: the server's
        client_encoding, for the text in binary cells, ``UTF8`` by default. ``type.<oid>``: what a
        type is whose oid PostgreSQL does not fix, for example ``enum`` or ``array:int4``.

    Returns
    -------
    Column
        The struct of the schema; NULL where `tuple` is NULL. A cell that is NULL gives NULL, and so
        does a TOASTed value that was not sent: ``tuple.kinds`` tells them apart, ``n`` and ``u``.

    Raises
    ------
    pyspark.errors.IllegalArgumentException
        When the query runs: with the condition ``PGOUTPUT_INVALID_VALUE``, where a value does not
        fit its type; with ``PGOUTPUT_SCHEMA_MISMATCH``, in every mode, where the tuple, the schema
        and the type_ids are not of one length or a type cannot be read as the schema wants it.
    pyspark.errors.AnalysisException
        When an argument has a wrong type, an option is unknown or has no valid value, or constant
        type_ids do not go with the schema.

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
    return _row("pgoutput_row", tuple, schema, type_ids, options)


def try_pgoutput_row(
    tuple: ColumnOrName,
    schema: str | StructType,
    type_ids: ColumnOrName | Sequence[int | None] | None = None,
    options: Mapping[str, str] | None = None,
) -> Column:
    """Read a tuple as `pgoutput_row` does, but give NULL for a value that does not fit its type.

    Parameters
    ----------
    tuple : Column or str
        A tuple of `pgoutput_decode`'s struct: its ``key``, ``old`` or ``new``.
    schema : str or StructType
        The columns and their types, as DDL or as a StructType.
    type_ids : Column, str or sequence of int, optional
        ARRAY<BIGINT>: the oids of the columns' types.
    options : mapping of str to str, optional
        As for `pgoutput_row`; the mode can only be ``PERMISSIVE``.

    Returns
    -------
    Column
        The struct of the schema; NULL where `tuple` is NULL.

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
    return _row("try_pgoutput_row", tuple, schema, type_ids, options)


def pgoutput_schema(relation: ColumnOrName, options: Mapping[str, str] | None = None) -> Column:
    """Find the Spark schema of a table, for people to read and to give to `pgoutput_row`.

    `spark_pgoutput.schema_of` gives that of a collected row as a StructType.

    Parameters
    ----------
    relation : Column or str
        The field ``relation`` of `pgoutput_decode`'s struct.
    options : mapping of str to str, optional
        As for `pgoutput_row`, of which ``type.<oid>`` tells what types are whose oids PostgreSQL
        does not fix.

    Returns
    -------
    Column
        STRING: the schema as DDL, with PostgreSQL's types in the columns' comments; NULL where
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
    arguments = [relation] if options is None else [relation, options_map(options)]
    return F.call_function("pgoutput_schema", *arguments)


def _row(
    name: str,
    tuple: ColumnOrName,
    schema: str | StructType,
    type_ids: ColumnOrName | Sequence[int | None] | None,
    options: Mapping[str, str] | None,
) -> Column:
    columns = F.lit(schema.json() if isinstance(schema, StructType) else schema)
    arguments: list[ColumnOrName] = [tuple, columns, _oids(type_ids)]
    if options is not None:
        arguments.append(options_map(options))
    return F.call_function(name, *arguments)


def _oids(type_ids: ColumnOrName | Sequence[int | None] | None) -> ColumnOrName:
    if type_ids is None or isinstance(type_ids, (Column, str)):
        return F.lit(None) if type_ids is None else type_ids
    return F.array(*[F.lit(oid) for oid in type_ids]).cast("array<bigint>")
