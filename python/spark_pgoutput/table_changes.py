"""The table functions: from messages to the committed changes of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_pgoutput.arguments import (
    Options,
    checked,
    column_name,
    option_texts,
    schema_text,
    table_names,
)
from spark_pgoutput.registration import require_functions

_ARGUMENTS = ("data", "source", "table", "tables", "schema")


def changes(
    df: DataFrame,
    order_by: str = "seq",
    *,
    data: str = "data",
    source: str | None = None,
    table: str | None = None,
    tables: str | Sequence[str] | None = None,
    schema: str | StructType | None = None,
    options: Options | None = None,
) -> DataFrame:
    """Turn messages into the committed changes of tables.

    It calls the SQL table function ``pgoutput_changes`` on `df`.

    Parameters
    ----------
    df : DataFrame
        The messages of one replication slot, or of several slots if you set `source`. They start
        at the slot's beginning or where an earlier read ended. Spark reads them twice. If the
        second read could give other messages, write or persist the messages first.
    order_by : str
        The name of the column that orders the messages: a whole number that is unique within a
        source, such as an offset or a row number.
    data : str
        The name of the column with the messages, BINARY.
    source : str, optional
        The name of the column that says which slot a message comes from. A second read of a
        slot is not another source.
    table : str, optional
        The name of one table. The result has the table's columns, with the types of its last
        Relation message. To find them, `changes` calls ``pgoutput_tables``, which reads the
        messages once more, at once. If the messages do not define the table, that is an error.
    tables : str or sequence of str, optional
        The tables whose changes you want; by default all. Write names as in SQL:
        ``public.orders`` or ``"My"."Table"``. A name alone is in the schema public, and
        ``sales.*`` stands for all tables of the schema sales. A name that matches no table gives
        no rows and no error, because the table may have no changes in these messages.
    schema : str or StructType, optional
        The columns of the one table whose changes you want. They are filled by name.
    options : mapping of str to str, number, bool or None, optional
        ``row``: without a schema, all columns of a row come as one, which is a ``map`` (the
        default) of PostgreSQL's text, or a ``variant``. ``schemaEvolution``: if the schema lacks
        a column of the table, or if its type cannot be converted to the one in the schema,
        ``error`` (the default) raises an error. With ``ignore``, the result leaves out a column
        that the schema lacks, and a column whose type cannot be converted is NULL and is named in
        ``_missing``. With `table`, ``merge`` makes a schema of all columns that the table had in
        these messages. ``after``: the LSN of the last commit of the messages of an earlier read,
        also if its result had no rows of this commit; the result has only the commits above this
        one. You cannot set it together with `source`. If no commit is above it, the result is
        empty. If the earlier read had no commits, keep the value that you gave to it.
        ``relations``: the name of a view with earlier messages,
        whose Relation and Type messages count. ``incomplete``: if the beginning of a committed
        transaction is not in the messages, ``error`` (the default) raises an error and ``skip``
        leaves the transaction out, so its changes are lost. ``abandon``: the xids of streamed
        transactions that will not end, separated by commas; with `source`, the source is before
        each xid, as in ``shop:790``. Also the options of
        `spark_pgoutput.functions.pgoutput_row`. An option whose value is None counts as not given.

    Returns
    -------
    DataFrame
        The table's columns, or without a schema one column named ``row``; then ``_table``,
        ``_change_type`` (insert, update_preimage, update_postimage, delete, truncate),
        ``_commit_version``, ``_commit_timestamp``, ``_xid``, ``_gid``, ``_origin``, ``_ordinal``,
        ``_position``, ``_keys``, ``_missing``, and with `source` ``_source``. The rows have no
        order; sort by ``_commit_version`` and ``_ordinal`` to put the changes in order.

    Raises
    ------
    TypeError
        If an argument has a wrong Python type.
    ValueError
        If the messages do not define the table, if `df` is streaming and you set `table`, or if
        arguments exclude each other.
    RuntimeError
        If the Spark session does not have the functions.
    pyspark.errors.AnalysisException
        If a column does not exist or has a wrong SQL type, or if an option is unknown or has an
        invalid value.
    pyspark.errors.IllegalArgumentException
        If the messages are wrong when the query runs, with a condition that begins with
        ``PGOUTPUT_``. The documentation lists the conditions and what to do.

    Examples
    --------
    >>> from spark_pgoutput import changes
    >>> messages = [
    ...     "420000000001a761c0000303b09721e12200000316",
    ...     "520000404a7075626c6963006f726465727300640001016964000000001400000000",
    ...     "490000404a4e000174000000023432",
    ...     "43000000000001a761c00000000001a76200000303b09721e122",
    ... ]
    >>> rows = [(seq, bytearray.fromhex(message)) for seq, message in enumerate(messages)]
    >>> df = spark.createDataFrame(rows, "seq BIGINT, data BINARY")
    >>> changes(df, table="orders").select("id", "_table", "_change_type", "_xid").show()
    +---+-------------+------------+----+
    | id|       _table|_change_type|_xid|
    +---+-------------+------------+----+
    | 42|public.orders|      insert| 790|
    +---+-------------+------------+----+
    <BLANKLINE>
    """
    given = _checked(options)
    columns = _columns(df, order_by, data, source)
    if table is not None:
        if schema is not None or tables is not None:
            raise ValueError(
                "The argument 'table' cannot be combined with 'schema' or 'tables': it names the "
                "only table and finds its schema."
            )
        checked("table", "the name of a table", table, str)
        merge = given.get("schemaevolution", "").lower() == "merge"
        if merge:
            del given["schemaevolution"]  # the merged schema takes the columns of all layouts
        schema = _find_schema(df, order_by, table, {**given, **columns}, merge)
        tables = table
    if tables is not None:
        given["tables"] = ",".join(table_names(tables))
    if schema is not None:
        given["schema"] = schema_text(schema)
    return _call("pgoutput_changes", df, order_by, {**given, **columns})


def open_transactions(
    df: DataFrame,
    order_by: str = "seq",
    *,
    data: str = "data",
    source: str | None = None,
    options: Options | None = None,
) -> DataFrame:
    """List the transactions that are still open at the end of the messages.

    It calls the SQL table function ``pgoutput_open`` on `df`. If the positions of your messages
    go on from read to read, start the next read at the least ``first_position``, or after the last
    message if no transaction is open. If you peek at a slot again, take all of its messages and
    set the option ``after`` instead.

    Parameters
    ----------
    df : DataFrame
        The messages, as for `changes`.
    order_by : str
        The name of the column that orders the messages.
    data : str
        The name of the column with the messages.
    source : str, optional
        The name of the column that says which slot a message comes from.
    options : mapping of str to str, number, bool or None, optional
        The options of `changes`. Give the same options to both.

    Returns
    -------
    DataFrame
        With `source` ``_source``; then ``_xid``, ``_gid``, ``state`` (begun, streaming or
        prepared), ``first_position`` and ``changes``, which is the number of changes so far.

    Raises
    ------
    TypeError
        If an argument has a wrong Python type.
    RuntimeError
        If the Spark session does not have the functions.
    pyspark.errors.AnalysisException
        If a column does not exist or has a wrong SQL type, or if an option is unknown or has an
        invalid value.
    pyspark.errors.IllegalArgumentException
        If the messages are wrong when the query runs, as for `changes`.

    Examples
    --------
    >>> from spark_pgoutput import open_transactions
    >>> begin = bytearray.fromhex("420000000001a761c0000303b09721e12200000316")
    >>> df = spark.createDataFrame([(7, begin)], "seq BIGINT, data BINARY")
    >>> open_transactions(df).show()
    +----+----+-----+--------------+-------+
    |_xid|_gid|state|first_position|changes|
    +----+----+-----+--------------+-------+
    | 790|NULL|begun|             7|      0|
    +----+----+-----+--------------+-------+
    <BLANKLINE>
    """
    given = _checked(options)
    columns = _columns(df, order_by, data, source)
    return _call("pgoutput_open", df, order_by, {**given, **columns})


def _checked(options: Options | None) -> dict[str, str]:
    """Return the options with their names in lower case, without those that are arguments."""
    found: dict[str, str] = {}
    for name, value in option_texts(options).items():
        known = name.lower()
        if known in _ARGUMENTS:
            raise ValueError(
                f"'{known}' is not an option in Python. Pass it as the argument {known}."
            )
        if known in found:
            raise ValueError(f"The option '{known}' is given twice.")
        found[known] = value
    return found


def _columns(df: DataFrame, order_by: str, data: str, source: str | None) -> dict[str, str]:
    """Check the DataFrame and the names of its columns, and return the names that are options."""
    require_functions(checked("df", "a DataFrame of messages", df, DataFrame).sparkSession)
    column_name("order_by", order_by)
    named = {"data": column_name("data", data)}
    if source is not None:
        named["source"] = column_name("source", source)
    return named


def _find_schema(
    df: DataFrame, order_by: str, table: str, options: Mapping[str, str], merge: bool
) -> str:
    """Return the schema of a table as DDL: the last one, or one for all its columns over time."""
    if df.isStreaming:
        raise ValueError(
            "The argument 'table' needs a DataFrame that is not streaming, because its messages "
            "are searched for the table's schema at once. Set the arguments schema and tables "
            "instead of table."
        )
    found = _call("pgoutput_tables", df, order_by, {**options, "tables": table}).collect()
    if len(found) != 1 or table.rstrip().endswith("*"):
        raise ValueError(
            f"The argument 'table' must name one table, such as public.orders, orders or "
            f'"My"."Table", and not \'{table}\'. Use the argument tables for several tables.'
        )
    schema: str | None = found[0]["merged_schema" if merge else "schema"]
    if schema is None:
        raise ValueError(
            f"The messages do not define the table {found[0]['_table']}: they have no Relation "
            "message of it. Give its schema with the arguments tables and schema, or name a view "
            "with earlier messages in the option 'relations'."
        )
    return schema


def _call(function: str, df: DataFrame, order_by: str, options: Mapping[str, str]) -> DataFrame:
    """Call a table function with the name of a temporary view of the DataFrame.

    Spark makes the view, because the query names the DataFrame. On Classic, Spark resolves the
    query here and drops the view at once. On Connect, the client sends the DataFrame with the
    query, and the server makes and drops the view each time it resolves the query.

    The arguments are literals and not parameters: the SQL parsers of Delta 4.4 and Iceberg 1.11
    leave out a query's parameters on Spark 4.1.
    """
    pairs = [_literal(text) for entry in options.items() for text in entry]
    call = f"{function}('{{messages}}', {_literal(order_by)}, map({', '.join(pairs)}))"
    return df.sparkSession.sql(f"SELECT * FROM {call}", messages=df)


def _literal(text: str) -> str:
    """Write a text in SQL for a query in which ``{name}`` and ``${name}`` are replaced.

    The setting ``spark.sql.parser.escapedStringLiterals`` decides how quotes and backslashes are
    escaped. Bytes are the same under both of its values.
    """
    if set(text) & set("'\\${}"):
        return f"decode(X'{text.encode().hex()}', 'UTF-8')"
    return f"'{text}'"
