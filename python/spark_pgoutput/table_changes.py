"""Table changes: from messages to the committed rows of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_pgoutput.arguments import options_map
from spark_pgoutput.table_schema import TableSchemas

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
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Give the committed changes of tables, from a stream of messages.

    It is the SQL table function ``pgoutput_changes`` over `df`.

    Parameters
    ----------
    df : DataFrame
        The messages of one replication slot, or with `source` of several, each from its beginning
        or from where an earlier read says. They are read twice, so write or persist them first
        where a second time could give others.
    order_by : str
        The name of the column that orders the messages: a whole number, unique within a source,
        such as an offset or a row number.
    data : str
        The name of the column of the messages, BINARY.
    source : str, optional
        The name of the column that tells the streams of different slots apart.
    table : str, optional
        The name of the one table whose changes are wanted, as columns of its own: their types are
        found in the table's Relation messages, of which the last counts. This reads the messages
        once more, at once.
    tables : str or sequence of str, optional
        The tables whose changes are wanted; all by default. Names are written as in SQL:
        ``public.orders``, ``"My"."Table"``; one alone is in public; ``sales.*`` are all of sales.
    schema : str or StructType, optional
        The columns of the one table whose changes are wanted, which are filled by name.
    options : mapping of str to str, optional
        ``row``: without a schema, what all columns of a table are together: ``map`` (the default)
        of PostgreSQL's text, or ``variant``. ``schemaEvolution``: what becomes of a table's column
        that the schema lacks or that has a type which cannot be read as the schema's: ``error``
        (the default) or ``ignore``; ``merge``, with `table` only, makes the schema of all columns
        that the table ever had. ``after``: the greatest ``_commit_version`` of an earlier read;
        commits up to it are not given again. ``relations``: the name of a view with the messages
        before these, whose Relation and Type messages count. ``incomplete``: a commit without its
        beginning is an ``error`` (the default), or ``skip`` leaves it out. ``abandon``: xids of
        streamed transactions that will have no end, with commas between them. And those of
        `spark_pgoutput.functions.pgoutput_row`.

    Returns
    -------
    DataFrame
        The table's columns, or without a schema one named ``row``; ``_table``, ``_change_type``
        (insert, update_preimage, update_postimage, delete, truncate), ``_commit_version``,
        ``_commit_timestamp``, ``_xid``, ``_gid``, ``_origin``, ``_ordinal``, ``_position``,
        ``_keys``, ``_missing``; with `source` ``_source``. In no order: that of the changes is by
        ``_commit_version`` and ``_ordinal``.

    Raises
    ------
    ValueError
        When the table has no Relation message; when `df` is streaming, so that its schema cannot
        be searched for; when arguments exclude each other.
    pyspark.errors.AnalysisException
        When a column is not there or has a wrong type, or an option is unknown or has no valid
        value.
    pyspark.errors.IllegalArgumentException
        When the query runs, with a condition that begins with ``PGOUTPUT_``; the README lists them
        with what to do.

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
    if table is not None:
        if schema is not None or tables is not None:
            raise ValueError("table excludes schema and tables: it finds the one and is the other")
        merge = given.get("schemaevolution", "").lower() == "merge"
        if merge:
            del given["schemaevolution"]  # the schema of all layouts takes all of them
        found = TableSchemas(_messages(df, order_by, data, source, given), table, given)
        schema = found.union() if merge else found.last()
        tables = table
    if tables is not None and not isinstance(tables, str):
        tables = ",".join(tables)
    if isinstance(schema, StructType):
        schema = schema.json()
    arguments = {"data": data, "source": source, "tables": tables, "schema": schema}
    return _call("pgoutput_changes", df, order_by, arguments, given)


def open_transactions(
    df: DataFrame,
    order_by: str = "seq",
    *,
    data: str = "data",
    source: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """List the transactions that are open at the end of the messages.

    It is the SQL table function ``pgoutput_open`` over `df`. The next read begins at the least
    ``first_position``, or behind the last message where nothing is open.

    Parameters
    ----------
    df : DataFrame
        As for `changes`.
    order_by : str
        As for `changes`.
    data : str
        As for `changes`.
    source : str, optional
        As for `changes`.
    options : mapping of str to str, optional
        As for `changes`; those that were given there belong here too.

    Returns
    -------
    DataFrame
        With `source` ``_source``; ``_xid``, ``_gid``, ``state`` (begun, streaming, prepared),
        ``first_position``, ``changes`` (so far).

    Raises
    ------
    pyspark.errors.AnalysisException
        When a column is not there or has a wrong type, or an option is unknown or has no valid
        value.
    pyspark.errors.IllegalArgumentException
        When the query runs, as for `changes`.

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
    arguments = {"data": data, "source": source}
    return _call("pgoutput_open", df, order_by, arguments, _checked(options))


def _checked(options: Mapping[str, str] | None) -> dict[str, str]:
    """Give the options with their names in lower case, none of them an argument's."""
    checked: dict[str, str] = {}
    for name, value in (options or {}).items():
        known = name.lower()
        if known in _ARGUMENTS:
            raise ValueError(f"'{known}' is an argument of its own and none of the options")
        if known in checked:
            raise ValueError(f"the option '{known}' is given twice")
        checked[known] = value
    return checked


def _messages(
    df: DataFrame, order_by: str, data: str, source: str | None, options: Mapping[str, str]
) -> DataFrame:
    """Give all messages that can have a table's schema, those of earlier reads among them."""
    if df.isStreaming:
        raise ValueError(
            "a streaming DataFrame cannot be searched for the table's schema: give schema and "
            "tables in place of table"
        )
    columns = [
        F.col(order_by).alias("position"),
        F.col(data).alias("message"),
        (F.lit(None).cast("string") if source is None else F.col(source)).alias("source"),
    ]
    messages = df.select(*columns)
    if "relations" in options:
        earlier = df.sparkSession.table(options["relations"])
        messages = messages.union(earlier.select(*columns))
    return messages


def _call(
    function: str,
    df: DataFrame,
    order_by: str,
    arguments: Mapping[str, str | None],
    options: Mapping[str, str],
) -> DataFrame:
    """Call a table function with the name of a temporary view of the DataFrame.

    The view is Spark's own, for a DataFrame that is named in a query: Classic, which resolves the
    query here, drops it at once; Connect sends the DataFrame with the query, and the server makes
    and drops the view each time that it resolves it.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    return df.sparkSession.sql(
        f"SELECT * FROM {function}('{{messages}}', :order_by, :options)",
        args={"order_by": order_by, "options": options_map({**options, **given})},
        messages=df,
    )
