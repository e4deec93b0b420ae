"""Jobs on an object store that fails, and beside another process that writes the tables."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.jar import jar_path
from support import lake
from support.background import background
from support.infrastructure import SETUP, ObjectStore, RestCatalog, StoredJob, needs_infrastructure
from support.job_tables import PATIENCE, copied, is_equal, wait_until_equal
from support.lake_job import SETTINGS
from support.lake_judge import assert_equal
from support.lake_points import kill
from support.lake_target import compaction
from support.processes import TIMEOUT, errors_of, started
from support.servers import Server, server_fixture, wait_until

pytestmark = [needs_infrastructure, pytest.mark.infra]

server = server_fixture(SETUP)


@pytest.fixture(params=lake.TARGETS)
def job(
    request: pytest.FixtureRequest,
    server: Server,
    store: ObjectStore,
    rest: RestCatalog,
    tmp_path: Path,
) -> StoredJob:
    return StoredJob(tmp_path, server, request.param, store, rest)


LOG_STORE = "io.sparkpgoutput.lake.target.S3LogStore"
# How long another process rewrites a table.
SECONDS = 300

SETTING = "spark.delta.logStore.s3a.impl"

# The rows of another process have keys from here on.
FOREIGN = 1_000_000


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Change a setting of Spark that sessions cannot change."""
    jvm: Any = spark._jvm
    settings = jvm.org.apache.spark.SparkEnv.get().conf()
    before = settings.get(name, "")
    settings.set(name, value)
    try:
        yield
    finally:
        if before:
            settings.set(name, before)
        else:
            settings.remove(name)


@contextmanager
def hadoop_setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Change a setting of Hadoop."""
    context: Any = spark.sparkContext._jsc
    context.hadoopConfiguration().set(name, value)
    try:
        yield
    finally:
        context.hadoopConfiguration().unset(name)


def refusal(job: StoredJob, spark: SparkSession, **options: object) -> str:
    """Return why a job does not start. It must have made nothing but an empty folder."""
    with job.session(spark) as replicate, pytest.raises(PySparkException) as caught:
        replicate(once=True, **options)
    assert {"shop/"} >= set(job.store.keys(job.bucket))
    assert not job.server.execute("SELECT 1 FROM pg_replication_slots")
    return str(caught.value)


def test_delta_refuses_s3_where_commits_are_not_atomic(
    server: Server, store: ObjectStore, rest: RestCatalog, tmp_path: Path, spark: SparkSession
) -> None:
    def job() -> StoredJob:
        """A job with a bucket of its own, because a bucket is checked once."""
        return StoredJob(tmp_path, server, "delta", store, rest)

    wanted = f"Otherwise, set {SETTING} to a log store that is safe for several drivers"

    # A store that ignores the condition.
    with store.proxy.fault("unconditional"):
        found = refusal(job(), spark)
    assert "has created an object twice" in found
    assert wanted in found

    # A connector that does not send the condition.
    with hadoop_setting(spark, "fs.s3a.create.conditional.enabled", "false"):
        found = refusal(job(), spark)
    assert "Conditional Writes Unavailable" in found
    assert wanted in found

    with setting(spark, SETTING, "io.delta.storage.S3SingleDriverLogStore"):
        found = refusal(job(), spark)
    assert "S3SingleDriverLogStore is safe for one driver only" in found

    # A bucket that is not there, or a key without rights.
    found = refusal(job(), spark, target="s3a://missing/shop")
    assert "[PGOUTPUT_TARGET_NOT_WRITABLE] The job cannot make an object in s3a://missing/" in found
    assert "The specified bucket does not exist" in found

    # The user knows that another log store is safe.
    with store.proxy.fault("unconditional"), setting(spark, SETTING, "org.example.Missing"):
        found = refusal(job(), spark)
    assert "org.example.Missing" in found
    assert "atomic" not in found


def test_iceberg_refuses_a_catalog_that_renames_files_in_a_store(
    server: Server, store: ObjectStore, rest: RestCatalog, tmp_path: Path, spark: SparkSession
) -> None:
    job = StoredJob(tmp_path, server, "iceberg", store, rest)
    spark.conf.set("spark.sql.catalog.renaming", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.renaming.type", "hadoop")
    spark.conf.set("spark.sql.catalog.renaming.warehouse", f"s3a://{job.bucket}/warehouse")
    found = refusal(job, spark, target="renaming.shop")
    assert "spark.sql.catalog.renaming.type is hadoop" in found
    assert "such as rest, jdbc, glue or hive" in found


def test_a_job_goes_on_when_a_store_fails(
    job: StoredJob, server: Server, store: ObjectStore, spark: SparkSession
) -> None:
    with copied(spark, job, "good") as (running, report):
        with store.proxy.fault("unavailable", every=3) as fault:
            server.execute("UPDATE good SET v = 'b' WHERE id < 100")
            wait_until_equal(spark, job, running, ["good"])
        assert fault.hits > 3

        # The store writes the object, and the connector does not know this.
        with store.proxy.fault("dropped", lambda request: request.method == "PUT", 2) as fault:
            for number in range(3):
                server.execute(f"DELETE FROM good WHERE id % 10 = {number}")
                wait_until_equal(spark, job, running, ["good"])
        assert fault.hits > 3

        with store.proxy.first_answers_lost() as kinds:
            for number in range(3, 6):
                server.execute(f"UPDATE good SET v = 'e' WHERE id % 10 = {number}")
                wait_until_equal(spark, job, running, ["good"])
        assert {method for method, *_ in kinds} >= {"GET", "HEAD", "PUT"}, kinds

        with store.proxy.away():
            server.execute("INSERT INTO good SELECT g, 'c' FROM generate_series(2000, 2100) g")
            time.sleep(20)
        server.execute("INSERT INTO good VALUES (3000, 'd')")
        wait_until_equal(spark, job, running, ["good"])
        assert running.failed() == []
        assert len(report.lines("Copied ")) == 1


def test_a_job_is_killed_on_a_store(job: StoredJob, server: Server, spark: SparkSession) -> None:
    with job.running() as process:
        wait_until(lambda: is_equal(spark, job, "good"), TIMEOUT, 1)
        with background(lambda ended: write(server, ended)):
            time.sleep(5)
            kill(process)
    assert job.run_once() == 0
    assert_equal(spark, job, {"good": "good"})


def write(server: Server, ended: threading.Event, pause: float = 0) -> None:
    """Change rows until an event is set, with pauses in which OPTIMIZE can win against the job."""
    number = 10_000
    while not ended.wait(0.2 if number % 50 else pause):
        number += 1
        server.execute(
            f"INSERT INTO good VALUES ({number}, 'n');"
            f"UPDATE good SET v = 'u{number}' WHERE id = {number % 900};"
            f"DELETE FROM good WHERE id = {number - 50}"
        )


CHANGING = """
import itertools, json, sys
from pyspark.sql import SparkSession

statements, conflicts, settings = map(json.loads, sys.argv[1:])
spark = SparkSession.builder.config(map=settings).getOrCreate()
for number in itertools.count():
    statement = statements[number % len(statements)].format(number=number)
    kind = statement.split()[0]
    try:
        row = spark.sql(statement).first()
        is_done = (
            row.metrics.numFilesAdded if kind == "OPTIMIZE"
            else row.rewritten_data_files_count if kind == "CALL"
            else True
        )
        if is_done:
            print(kind, flush=True)
    except Exception as error:
        if not any(conflict in str(error) for conflict in conflicts):
            raise
        print("conflict", flush=True)
"""
CONFLICTS = ("DELTA_CONCURRENT", "ValidationException", "CommitFailedException")


@contextmanager
def changing(job: StoredJob, folder: Path, *statements: str) -> Iterator[list[str]]:
    """Run statements again and again in another process, and give what it prints."""
    folder.mkdir()
    formats = lake.settings(folder, lake.DELTA, lake.ICEBERG)
    formats["spark.jars"] += f",{jar_path()}"
    settings = {
        **SETTINGS,
        **formats,
        **job.catalog,
        SETTING: LOG_STORE,
        "spark.master": "local[1]",
    }
    arguments = map(json.dumps, (statements, CONFLICTS, settings))
    lines: list[str] = []
    with started([sys.executable, "-c", CHANGING, *arguments], folder) as process:

        def read() -> None:
            assert process.stdout
            lines.extend(iter(process.stdout.readline, ""))

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        yield lines
        assert process.poll() is None, errors_of(folder)[-3000:]


def test_optimize_in_another_process_loses_nothing(
    server: Server, store: ObjectStore, rest: RestCatalog, tmp_path: Path, spark: SparkSession
) -> None:
    job = StoredJob(tmp_path, server, "delta", store, rest)
    with copied(spark, job, "good") as (running, report):
        statement = compaction(job.format, job.sql_name("good"))
        with changing(job, tmp_path / "optimizing", statement) as lines:
            with background(lambda ended: write(server, ended, pause=15)):
                wait_until(lambda: "OPTIMIZE\n" in lines, PATIENCE, 0.2)
                time.sleep(SECONDS)
            wait_until_equal(spark, job, running, ["good"])
        wait_until_equal(spark, job, running, ["good"])
        optimized, conflicts = lines.count("OPTIMIZE\n"), lines.count("conflict\n")
        print(f"OPTIMIZE committed {optimized} times, and lost {conflicts} times.")
        assert optimized > 1
        assert running.failed() == []
        assert len(report.lines("Copied ")) == 1
    found = spark_pgoutput.applied(spark, job.checkpoint_url).collect()
    assert [row.state for row in found] == ["live"]
    assert all(commit.is_conditional for commit in job.commits("good"))


def test_a_job_repairs_rows_while_another_process_writes_and_rewrites_the_table(
    job: StoredJob, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    name = job.sql_name("good")
    statements = (
        compaction(job.format, name),
        f"DELETE FROM {name} WHERE id % 50 = {{number}} % 50",
        f"INSERT INTO {name} VALUES ({FOREIGN} + {{number}}, 'of another process')",
    )
    with copied(spark, job, "good", onDrift="repair") as (running, report):
        with (
            changing(job, tmp_path / "changing", *statements) as lines,
            background(lambda ended: write(server, ended, pause=15)),
        ):
            kinds = [f"{statement.split()[0]}\n" for statement in statements]
            wait_until(lambda: min(map(lines.count, kinds)) >= 3, 2 * PATIENCE, 1)
        print(f"The other process: {Counter(map(str.strip, lines))}.")
        # The rows of the other process go, and those that it has deleted come back.
        spark.sql(f"DELETE FROM {name} WHERE id >= {FOREIGN}")
        server.execute("UPDATE good SET v = v || '.'")
        wait_until_equal(spark, job, running, ["good"])
        assert running.failed() == []
        assert len(report.lines("Copied ")) == 1
