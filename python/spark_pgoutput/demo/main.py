"""The steps of the demo: Spark reads a slot, as messages and as a stream, and shows the results."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_pgoutput.demo import lake, report, workload
from spark_pgoutput.demo.errors import DemoError
from spark_pgoutput.demo.report import console
from spark_pgoutput.demo.server import PostgresServer
from spark_pgoutput.demo.session import DELTA_SPARKS, delta_package, has_delta, spark_session
from spark_pgoutput.demo.slot import DemoSlot, source_errors
from spark_pgoutput.password import ask

_MESSAGES = """\
# Read the messages that the slot holds now, at most {limit}. A batch read
# copies the slot, and leaves it as it is.
slot = {{
    "url": {url},
    "slot": {slot},
    "publication": {publications},
}}  # and user, password
messages = (spark.read.format("pgoutput")
    .options(**slot, output="messages")
    .load()
    .limit({limit}))
messages.write.parquet("messages")
(spark.read.parquet("messages")
    .selectExpr("row_number() OVER (ORDER BY lsn, ordinal) AS seq", "*")
    .createOrReplaceTempView("messages"))"""

_STREAM = """\
# Read all changes up to now as a stream, and stop. The checkpoint has the
# position, and the stream confirms to the server what Spark has committed.
query = (spark.readStream.format("pgoutput")
    .options(**slot)
    .load()
    .writeStream
    .option("checkpointLocation", "checkpoint")
    .trigger(availableNow=True)
    .start("changes"))
query.awaitTermination()"""

_REPLICATE = """\
# Copy the tables, and apply what happened since. With --once, the job ends
# when it has everything. The password is in PGPASSWORD.
spark-pgoutput replicate --once --url jdbc:postgresql://localhost/postgres \\
    --user postgres --slot lake_slot --publication shop \\
    --target ./lake --checkpoint lake-checkpoint \\
    --packages {packages}"""

_NO_DELTA = """\
The demo ends here, because Delta does not run on Spark {this}. On Spark {newest}, the
demo also copies the tables into Delta, and keeps them equal."""

_AGAIN = "# Start the same stream again. It goes on where it stopped."


def demonstrate_own_server(limit: int) -> None:
    """Start a PostgreSQL server, make changes, and read its slot as messages and as a stream."""
    with ExitStack() as stack:
        with _step("Starting PostgreSQL 18", "PostgreSQL 18 is running"):
            server = stack.enter_context(PostgresServer())
        console.rule("In PostgreSQL: tables, a publication, a slot and some changes")
        _run(workload.CHANGES, server)
        slot = DemoSlot(
            server.jdbc_url, workload.SLOT, [workload.PUBLICATION], server.user, server.password
        )
        spark, folder = _start_spark(stack, writes_delta=has_delta())
        _show_messages(spark, slot, limit, folder)
        _show_stream(spark, slot, server, folder)
        if has_delta():
            _show_lake(spark, server, folder)
        else:
            console.print(_NO_DELTA.format(this=spark.version, newest=DELTA_SPARKS[-1]))
    console.print("The demo stopped the PostgreSQL server and removed its data.")


def demonstrate_server(
    url: str, user: str | None, slot: str, publications: Sequence[str], limit: int
) -> None:
    """Show what a slot of the user's server has."""
    password = os.environ.get("PGPASSWORD")
    if password is None:
        password = ask(user)
    with ExitStack() as stack:
        spark, folder = _start_spark(stack, writes_delta=False)
        if _show_messages(spark, DemoSlot(url, slot, publications, user, password), limit, folder):
            console.rule("Changes of tables")
            report.print_code(report.COMMITTED)
            spark.sql(report.COMMITTED)
            _show_changes(spark)
    console.print("The slot is as it was.")


def _start_spark(stack: ExitStack, *, writes_delta: bool) -> tuple[SparkSession, Path]:
    """Start Spark, and make a folder for its data."""
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="spark-pgoutput-demo-")))
    with _step("Starting Spark", "Spark is running"):
        session = spark_session(folder / "spark.log", writes_delta=writes_delta)
        return stack.enter_context(session), folder


def _show_messages(spark: SparkSession, slot: DemoSlot, limit: int, folder: Path) -> bool:
    """Read the messages of a slot, and decode them. Return False if there are none."""
    console.rule("From PostgreSQL to Spark: messages")
    code = _MESSAGES.format(
        url=json.dumps(slot.url.partition("?")[0]),
        slot=json.dumps(slot.name),
        publications=json.dumps(slot.options["publication"]),
        limit=limit,
    )
    report.print_code(code, "python")
    console.print()
    path = str(folder / "messages")
    with _step("Reading the slot", "Spark has read the slot"), source_errors():
        slot.read_messages(spark).limit(limit).write.parquet(path)
    numbered = "row_number() OVER (ORDER BY lsn, ordinal) AS seq"
    spark.read.parquet(path).selectExpr(numbered, "*").createOrReplaceTempView("messages")
    console.rule("In Spark SQL")
    for statement in (report.DECODED, report.CELLS):
        report.print_code(statement)
        spark.sql(statement)
    if not report.print_result(spark, report.TYPES):
        console.print("The slot has no changes of these publications.")
        return False
    for query in (report.RELATIONS, report.CHANGES, report.TRANSACTIONS):
        report.print_result(spark, query)
    for relation_id, ddl in report.print_result(spark, report.SCHEMA):
        schema = cast(StructType, StructType.fromDDL(ddl))
        report.print_result(spark, report.typed_rows(relation_id, schema))
    return True


def _show_stream(spark: SparkSession, slot: DemoSlot, server: PostgresServer, folder: Path) -> None:
    """Copy the changes with a stream that stops and starts again, and rebuild the tables."""
    console.rule("A stream of changes")
    report.print_code(_STREAM, "python")
    console.print()
    _copy_changes(spark, slot, server, folder)
    console.rule("In PostgreSQL: more changes")
    _run(workload.LATER_CHANGES, server)
    console.rule("The stream goes on")
    report.print_code(_AGAIN, "python")
    console.print()
    _copy_changes(spark, slot, server, folder)
    spark.read.parquet(str(folder / "changes")).createOrReplaceTempView("changes")
    _show_changes(spark)
    report.print_code(report.REBUILT)
    spark.sql(report.REBUILT)
    _compare(spark, server, "rebuilt")


def _copy_changes(
    spark: SparkSession, slot: DemoSlot, server: PostgresServer, folder: Path
) -> None:
    """Run the stream once."""
    with _step("The stream is running", "The stream has stopped"), source_errors():
        query = slot.copy_changes(spark, str(folder / "changes"), str(folder / "checkpoint"))
    rows = sum(progress.numInputRows for progress in query.recentProgress)
    ((confirmed,),) = workload.query(server.conninfo, workload.CONFIRMED)
    console.print(f"It has written {rows} changes. The slot is confirmed up to {confirmed}.")


def _show_changes(spark: SparkSession) -> None:
    """Show the view `changes`."""
    for query in (report.COMMITTED_COUNTS, report.COMMITTED_CHANGES):
        report.print_result(spark, query)


def _compare(spark: SparkSession, server: PostgresServer, name: str) -> None:
    """Compare a view of all cells with the server's tables."""
    report.print_code(workload.TABLES)
    rows = workload.query(server.conninfo, workload.TABLES)
    columns = "_table STRING, id STRING, column STRING, cell STRING"
    spark.createDataFrame(rows, columns).createOrReplaceTempView("server")
    compared = report.print_result(spark, report.COMPARED.format(name=name))
    if not compared or any(len({row[name], row.server, row.equal}) > 1 for row in compared):
        raise DemoError(f"The {name} tables differ from the server's tables.")
    console.print(f"The {name} tables equal the server's tables.", style="green")


def _show_lake(spark: SparkSession, server: PostgresServer, folder: Path) -> None:
    """Keep the tables equal in Delta by a job that is killed and started again."""
    console.rule("Tables in Delta, kept equal by one command")
    report.print_code(_REPLICATE.format(packages=delta_package()), "bash")
    console.print()
    for line in lake.run(server, folder, kill_at=lambda line: line.startswith(lake.COPIED)):
        console.print(line, soft_wrap=True)
    console.print("The demo has killed the job with SIGKILL.", style="yellow")
    console.rule("In PostgreSQL: more changes")
    _run(workload.LAKE_CHANGES, server)
    console.rule("The same command again")
    for line in lake.run(server, folder):
        console.print(line, soft_wrap=True)
    report.print_code(report.LAKE.format(lake="lake"))
    spark.sql(report.LAKE.format(lake=folder / lake.TABLES))
    _compare(spark, server, "lake")


def _run(script: str, server: PostgresServer) -> None:
    """Run a script on the demo's server."""
    for section in workload.run(script, server.conninfo):
        report.print_code(section)
    console.print()


@contextmanager
def _step(doing: str, done: str) -> Iterator[None]:
    """Show that a step runs, and then how long it took."""
    started = time.monotonic()
    with console.status(doing):
        yield
    console.print(f"{done} ({time.monotonic() - started:.1f} s)", style="green")
