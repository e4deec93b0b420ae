"""The demo's Spark SQL statements, and how it prints them and their results."""

from __future__ import annotations

import re

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType
from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from spark_pgoutput.printable import printable

console = Console(highlight=False, markup=False, emoji=False)

# The demo prints each statement before it runs, with the comment that explains it.
DECODED = """\
-- Decode each message into a struct and turn the struct's fields into columns.
-- The source sends whole transactions, so no message is in_stream.
CREATE TEMPORARY VIEW decoded AS
SELECT seq, xid AS transaction, octet_length(data) AS bytes, message.*
FROM (SELECT *, pgoutput_decode(data, false) AS message FROM messages)"""

CELLS = """\
-- Show a tuple as text. Its field kinds has one letter for each column: n means
-- NULL, and u means a large value (TOAST) that did not change and was not sent.
CREATE TEMPORARY FUNCTION cells(
  names ARRAY<STRING>, kinds STRING, text ARRAY<STRING>, null_text STRING)
RETURNS STRING
RETURN IF(kinds IS NULL, NULL, concat_ws(', ', transform(names, (name, i) ->
  name || '=' || CASE substring(kinds, i + 1, 1)
    WHEN 'n' THEN null_text
    WHEN 'u' THEN '<unchanged TOAST>'
    ELSE IF(length(text[i]) > 32, left(text[i], 24) || '...', text[i])
  END)))"""

TYPES = """\
-- Count the messages by type.
SELECT type, count(*) AS messages, sum(bytes) AS bytes, min(seq) AS first_seq
FROM decoded GROUP BY type ORDER BY first_seq"""

RELATIONS = """\
-- List the tables with their last definition. A * marks the columns of the
-- replica identity (d: primary key, i: another index, f: all, n: none).
SELECT relation_id, relation.namespace || '.' || relation.name AS relation,
       relation.replica_identity AS identity,
       array_join(transform(relation.columns,
         column -> column.name || IF(column.key, '*', '')), ', ') AS columns
FROM (
  SELECT relation_id, max_by(relation, seq) AS relation
  FROM decoded WHERE type = 'RELATION' GROUP BY relation_id
)
ORDER BY relation LIMIT 20"""

CHANGES = """\
-- Show the first change of each shape. The column names come from the last
-- RELATION before the change. In a key, n means that it lacks the column.
SELECT seq, transaction AS xid, type || ' ' || described.name AS change,
       concat_ws('\\n',
         'key: ' || cells(described.columns.name, key.kinds, key.text, NULL),
         'old: ' || cells(described.columns.name, old.kinds, old.text, 'NULL'),
         'new: ' || cells(described.columns.name, new.kinds, new.text, 'NULL')
       ) AS tuples
FROM (
  SELECT *, row_number() OVER (
      PARTITION BY relation_id, type, key.kinds, old.kinds, new.kinds
      ORDER BY seq) AS nth
  FROM (
    SELECT *, last_value(relation) IGNORE NULLS OVER (
        PARTITION BY relation_id ORDER BY seq) AS described
    FROM decoded
  )
  WHERE type IN ('INSERT', 'UPDATE', 'DELETE')
)
WHERE nth = 1 ORDER BY seq LIMIT 20"""

TRANSACTIONS = """\
-- Show the commits of the transactions, and the other messages without rows.
SELECT seq, transaction AS xid, type, origin, pg_lsn_format(lsn) AS lsn,
       date_format(timestamp, 'HH:mm:ss.SSS') AS time
FROM decoded
WHERE type IN ('COMMIT', 'ORIGIN', 'TRUNCATE')
ORDER BY seq LIMIT 30"""

SCHEMA = """\
-- Find the Spark schema of the table with the most changes.
SELECT relation_id, pgoutput_schema(relation) AS schema
FROM (
  SELECT relation_id, count_if(type <> 'RELATION') AS changes,
         max_by(relation, seq) FILTER (WHERE type = 'RELATION') AS relation
  FROM decoded WHERE relation_id IS NOT NULL GROUP BY relation_id
)
ORDER BY changes DESC LIMIT 1"""

COMMITTED = """\
-- Turn the messages into the committed changes of tables.
CREATE TEMPORARY VIEW changes AS
SELECT * FROM pgoutput_changes('messages', 'seq')"""

COMMITTED_COUNTS = """\
-- Count the changes of each table.
SELECT _table, _change_type, count(*) AS changes,
       count(DISTINCT _commit_version) AS commits
FROM changes GROUP BY ALL ORDER BY ALL LIMIT 20"""

COMMITTED_CHANGES = """\
-- Show the first changes. _missing lists the columns that were not sent.
SELECT pg_lsn_format(_commit_version) AS version, _table, _change_type,
       concat_ws('\\n',
         array_join(transform(map_entries(row), cell ->
           cell.key || '=' || coalesce(left(cell.value, 24), 'NULL')), ', '),
         'missing: ' || nullif(array_join(_missing, ', '), '')) AS row
FROM changes
ORDER BY _commit_version, _ordinal LIMIT 12"""

REBUILT = """\
-- Rebuild the tables from the changes. Each cell has the value that was sent
-- last, unless the row's last change deleted it or a TRUNCATE came later.
CREATE TEMPORARY VIEW rebuilt AS
SELECT _table, row['id'] AS id, column, max_by(cell, place) AS cell
FROM (
  SELECT *, max_by(_change_type, place) OVER (
              PARTITION BY _table, row['id']) AS last_change,
            max(IF(_change_type = 'truncate', place, NULL)) OVER (
              PARTITION BY _table) AS truncated
  FROM (SELECT *, (_commit_version, _ordinal) AS place FROM changes)
)
LATERAL VIEW explode(row) AS column, cell
WHERE last_change IN ('insert', 'update_postimage')
  AND (truncated IS NULL OR place > truncated)
GROUP BY _table, row['id'], column"""

LAKE = """\
-- List all cells of the tables in the lake as text.
CREATE TEMPORARY VIEW lake AS
SELECT 'public.customers' AS _table, CAST(id AS STRING) AS id, column, cell
FROM delta.`{lake}/customers`
LATERAL VIEW stack(4,
  'id', CAST(id AS STRING), 'name', name, 'email', email, 'picture', picture
) AS column, cell
UNION ALL
SELECT 'public.orders', CAST(id AS STRING), column, cell
FROM delta.`{lake}/orders`
LATERAL VIEW stack(5,
  'id', CAST(id AS STRING), 'customer_id', CAST(customer_id AS STRING),
  'status', status, 'total', CAST(total AS STRING),
  'placed_at', date_format(placed_at, 'yyyy-MM-dd HH:mm:ss+00')
) AS column, cell"""

COMPARED = """\
-- Count the cells of the {name} tables and the server's tables, and compare.
SELECT _table, count(DISTINCT id) AS rows,
       count({name}.id) AS {name}, count(server.id) AS server,
       count_if({name}.id = server.id
         AND {name}.cell <=> server.cell) AS equal
FROM {name} FULL JOIN server USING (_table, id, column)
GROUP BY _table ORDER BY _table"""


def typed_rows(relation_id: int, schema: StructType) -> str:
    """Return the query for a table's changes as typed rows."""

    def quoted(name: str) -> str:
        """Quote a name for DDL inside a literal of the query."""
        return re.sub(r"([\\'])", r"\\\1", f"`{name.replace('`', '``')}`")

    columns = ",\n".join(
        f"      {quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields
    )
    return f"""\
-- Show the table's changes as rows of this schema. A value that does not fit
-- becomes NULL; with pgoutput_row it raises an error.
SELECT seq, type, row.*
FROM (
  SELECT seq, type, try_pgoutput_row(coalesce(new, old, key), '
{columns}') AS row
  FROM decoded
  WHERE relation_id = {relation_id} AND type IN ('INSERT', 'UPDATE', 'DELETE')
    AND length(coalesce(new, old, key).kinds) = {len(schema.fields)}
)
ORDER BY seq LIMIT 8"""


def print_code(code: str, language: str = "sql") -> None:
    """Print a statement or a piece of a program, in a form that can be copied."""
    console.print()
    text = Syntax("", language, theme="ansi_dark").highlight(code)
    text.rstrip()
    console.print(text, soft_wrap=True)


def print_result(spark: SparkSession, sql: str) -> list[Row]:
    """Print a query, run it, and print and return its rows."""
    print_code(sql)
    with console.status("Spark is working"):
        result = spark.sql(sql)
        rows = result.collect()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name, kind in result.dtypes:
        numeric = kind in ("int", "bigint")
        table.add_column(
            name, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold"
        )
    for row in rows:
        table.add_row(*("" if value is None else printable(str(value)) for value in row))
    console.print(table)
    return rows
