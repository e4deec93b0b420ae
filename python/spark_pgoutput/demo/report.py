"""The demo's Spark SQL statements, and how it prints them and their results."""

from __future__ import annotations

import re

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType
from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from spark_pgoutput.demo.workload import sections
from spark_pgoutput.printable import printable

console = Console(highlight=False, markup=False, emoji=False)

# The demo prints each statement before it runs, with the comment that explains it.
DECODED, CELLS, TYPES, RELATIONS, CHANGES, TRANSACTIONS, SCHEMA, _TYPED = sections("messages.sql")
COMMITTED, COMMITTED_COUNTS, COMMITTED_CHANGES, REBUILT, LAKE, COMPARED = sections("tables.sql")


def typed_rows(relation_id: int, schema: StructType) -> str:
    """Return the query for a table's changes as typed rows."""

    def quoted(name: str) -> str:
        """Quote a name for DDL inside a literal of the query."""
        return re.sub(r"([\\'])", r"\\\1", f"`{name.replace('`', '``')}`")

    columns = ",\n".join(
        f"      {quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields
    )
    return _TYPED.format(columns=columns, relation_id=relation_id, cells=len(schema.fields))


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
        table.add_row(*map(_cell, row))
    console.print(table)
    return rows


def _cell(value: object) -> str:
    """Return a value as a text, which can have several lines."""
    return "" if value is None else "\n".join(map(printable, str(value).split("\n")))
