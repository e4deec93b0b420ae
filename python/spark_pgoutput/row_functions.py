"""The SQL functions for typed rows. Users import them from `spark_pgoutput.functions`."""

from __future__ import annotations

from pyspark.sql import Column

from spark_pgoutput.arguments import (
    ColumnOrName,
    Options,
    Schema,
    TypeIds,
    column,
    schema_column,
    type_ids_column,
)
from spark_pgoutput.calls import call_function

__all__ = ["pgoutput_row", "pgoutput_schema", "try_pgoutput_row"]


def pgoutput_row(
    tuple: ColumnOrName,
    schema: Schema,
    type_ids: TypeIds = None,
    options: Options | None = None,
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
        9999. ``timeZone``: the time zone for timestamptz text without an offset and for timestamps
        that you read as TIMESTAMP (by default the session's), and for a binary timestamptz that you
        read as STRING (by default UTC).
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
    return _call_with_tuple("pgoutput_row", tuple, schema, type_ids, options)


def try_pgoutput_row(
    tuple: ColumnOrName,
    schema: Schema,
    type_ids: TypeIds = None,
    options: Options | None = None,
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
    return _call_with_tuple("try_pgoutput_row", tuple, schema, type_ids, options)


def pgoutput_schema(relation: ColumnOrName, options: Options | None = None) -> Column:
    """Find the Spark schema of a table, for people to read and for `pgoutput_row`.

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
    return call_function("pgoutput_schema", column("relation", relation), options=options)


def _call_with_tuple(
    name: str,
    tuple: ColumnOrName,
    schema: Schema,
    type_ids: TypeIds,
    options: Options | None,
) -> Column:
    arguments = (column("tuple", tuple), schema_column(schema), type_ids_column(type_ids))
    return call_function(name, *arguments, options=options)
