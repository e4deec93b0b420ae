"""The steps of the demo: Spark reads a slot, decodes its messages and shows the results."""

from __future__ import annotations

import getpass
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from rich.console import Console

from spark_pgoutput.demo import report
from spark_pgoutput.demo.errors import DemoError
from spark_pgoutput.demo.jdbc import Server, postgres_errors
from spark_pgoutput.demo.server import PostgresServer
from spark_pgoutput.demo.session import spark_session
from spark_pgoutput.demo.slot import peek_query, slot_state, state_query
from spark_pgoutput.demo.workload import PUBLICATION, SLOT, TABLES, run_workload

_READ = """\
# Spark sends the query each time it needs the rows, so write the rows to a
# file. Only peek: a query that takes the changes out of the slot loses them if
# Spark sends it twice.
(spark.read.format("jdbc")
    .option("url", "{url}")
    .option("driver", "org.postgresql.Driver")
    .option("fetchsize", 5000)
    .option("query", query)  # and user, password
    .load()
    .write.parquet("messages"))
spark.read.parquet("messages").createOrReplaceTempView("messages")"""


def demonstrate_own_server(limit: int) -> None:
    """Start a PostgreSQL server, make changes, and show what its slot has."""
    console = _console()
    with ExitStack() as stack:
        with _step(console, "Starting PostgreSQL 18", "PostgreSQL 18 is running"):
            server = stack.enter_context(PostgresServer())
        console.rule("In PostgreSQL: tables, a publication, a slot and some changes")
        for section in run_workload(server.conninfo):
            report.print_code(console, section.text)
        own = Server(server.jdbc_url, server.user, server.password)
        _show(console, own, SLOT, [PUBLICATION], limit, TABLES)
    console.print("The demo stopped the PostgreSQL server and removed its data.")


def demonstrate_server(
    url: str,
    user: str | None,
    password: str | None,
    slot: str,
    publications: Sequence[str],
    limit: int,
) -> None:
    """Show what a slot of the user's server has."""
    if password is None:
        password = os.environ.get("PGPASSWORD")
    if password is None and "password=" not in url and sys.stdin.isatty():
        password = (
            getpass.getpass(f"Password of {user or 'the user'} (press Enter for none): ") or None
        )
    _show(_console(), Server(url, user, password), slot, publications, limit)


def _show(
    console: Console,
    server: Server,
    slot: str,
    publications: Sequence[str],
    limit: int,
    tables: str | None = None,
) -> None:
    """Show what a slot has.

    With `tables`, a query for the cells of all tables on the server, also show that the changes
    lead to the same cells.
    """
    with TemporaryDirectory(prefix="spark-pgoutput-demo-") as folder, ExitStack() as stack:
        with _step(console, "Starting Spark and fetching the JDBC driver", "Spark is running"):
            spark = stack.enter_context(spark_session(Path(folder, "spark.log")))
        console.rule("From PostgreSQL to Spark")
        report.print_code(console, state_query(slot))
        before = slot_state(spark, server, slot)
        _read(console, spark, server, peek_query(slot, publications, before, limit), folder)
        console.rule("In Spark SQL")
        for statement in (report.DECODED, report.CELLS):
            report.print_code(console, statement)
            spark.sql(statement)
        if not report.print_result(console, spark, report.TYPES):
            console.print("The slot has no changes of these publications.")
            return
        for query in (report.RELATIONS, report.CHANGES, report.TRANSACTIONS):
            report.print_result(console, spark, query)
        _show_typed_rows(console, spark)
        _show_changes(console, spark)
        if tables is not None:
            _show_rebuilt_tables(console, spark, server, tables)
        after = slot_state(spark, server, slot)
        if after == before:
            console.print(
                f"The slot is unchanged (confirmed_flush_lsn {after.confirmed_flush_lsn}, "
                f"two_phase {str(after.two_phase).lower()})."
            )
        else:
            console.print("Another reader used or changed the slot during the demo.")


def _show_typed_rows(console: Console, spark: SparkSession) -> None:
    """Show the changes of one table as rows with the types of its columns."""
    for relation_id, ddl in report.print_result(console, spark, report.SCHEMA):
        schema = cast(StructType, StructType.fromDDL(ddl))
        report.print_result(console, spark, report.typed_rows(relation_id, schema))


def _show_changes(console: Console, spark: SparkSession) -> None:
    """Show the committed changes."""
    console.rule("Changes of tables")
    report.print_code(console, report.COMMITTED)
    spark.sql(report.COMMITTED)
    for query in (report.COMMITTED_COUNTS, report.COMMITTED_CHANGES):
        report.print_result(console, spark, query)


def _show_rebuilt_tables(
    console: Console, spark: SparkSession, server: Server, tables: str
) -> None:
    """Apply the changes, and compare the result with the server's tables."""
    report.print_code(console, report.REBUILT)
    spark.sql(report.REBUILT)
    report.print_code(console, tables)
    with postgres_errors():
        server.query(spark, tables).createOrReplaceTempView("server")
        compared = report.print_result(console, spark, report.COMPARED)
    if not compared or any(len({row.rebuilt, row.server, row.equal}) > 1 for row in compared):
        raise DemoError("The rebuilt tables differ from the server's tables.")
    console.print("The rebuilt tables equal the server's tables.", style="green")


def _read(console: Console, spark: SparkSession, server: Server, peek: str, folder: str) -> None:
    """Write the slot's messages to a file, with the view `messages` on it."""
    report.print_code(console, peek)
    report.print_code(console, _READ.format(url=server.url.partition("?")[0]), "python")
    console.print()
    path = str(Path(folder, "messages"))
    with _step(console, "Reading the slot", "Spark has read the slot"), postgres_errors():
        server.query(spark, peek).write.parquet(path)
    spark.read.parquet(path).createOrReplaceTempView("messages")


def _console() -> Console:
    return Console(highlight=False, markup=False, emoji=False)


@contextmanager
def _step(console: Console, doing: str, done: str) -> Iterator[None]:
    """Show that a step runs, and then how long it took."""
    started = time.monotonic()
    with console.status(doing):
        yield
    console.print(f"{done} ({time.monotonic() - started:.1f} s)", style="green")
