"""Transactions and roles of a server that make a job wait."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.background import background
from support.job_report import generations
from support.job_tables import PATIENCE, JobTables, wait_until_equal
from support.lake_job import LakeJob
from support.servers import Server, server_fixture, wait_until

pytestmark = lake.needs_lake

SETUP = """
CREATE ROLE copier LOGIN REPLICATION;
ALTER ROLE copier SET statement_timeout = '1s';
ALTER ROLE copier SET lock_timeout = '1s';
ALTER ROLE copier SET idle_in_transaction_session_timeout = '1s';
ALTER ROLE copier SET transaction_timeout = '1s';
GRANT CREATE ON DATABASE postgres TO copier;
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO copier;
CREATE TABLE t (id int PRIMARY KEY, v text);
CREATE TABLE other (id int PRIMARY KEY, v text);
INSERT INTO t VALUES (1, 'a'), (2, 'b');
CREATE PUBLICATION p FOR TABLE t, other;
"""

server = server_fixture(SETUP)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_waits_for_transactions_and_for_a_synchronous_standby(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(f"ALTER ROLE copier PASSWORD '{server.password}'")
    job = LakeJob(tmp_path, server, target, publication="p")
    with job.session(spark) as replicate:
        # The slot waits for the end of this transaction, longer than the role's limits allow.
        with server.open_transaction() as connection:
            running = replicate(user="copier")
            time.sleep(3)
            assert running.exception() is None, running.exception()
            connection.execute("COMMIT")
        tables = JobTables(running)
        wait_until_equal(spark, job, running, ["t", "other"])
        copied = generations(job)

        # The standby never confirms this commit. So it is in the WAL, but no session sees it.
        def alter(_: threading.Event) -> None:
            with psycopg.connect(server.conninfo, autocommit=True) as connection:
                connection.execute(
                    "BEGIN; ALTER TABLE t ADD c text; UPDATE t SET c = 'x' WHERE id = 1; COMMIT"
                )

        server.configure(synchronous_standby_names="nobody")
        with background(alter):
            try:
                waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                wait_until(lambda: server.execute(waiting))
                tables.wait("live", "t", reason="which wait for a standby")
                # Other tables go on.
                server.execute(
                    "BEGIN; SET LOCAL synchronous_commit = local;"
                    "INSERT INTO other VALUES (3, 'c'); COMMIT"
                )
                other = job.sql_name("other")  # the judge would wait for the lock of ALTER TABLE
                wait_until(lambda: spark.table(other).count() == 1, PATIENCE, 0.2)
                assert "c" not in spark.table(job.sql_name("t")).columns
            finally:
                server.configure(synchronous_standby_names="")
        wait_until_equal(spark, job, running, ["t", "other"])
        assert spark.table(job.sql_name("t")).where("c = 'x'").count() == 1
        tables.wait("live", "t")
        assert generations(job) == copied
        assert running.exception() is None


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_changes_that_are_not_flushed_when_a_table_leaves_the_publication_are_applied(
    target: str, tmp_path: Path, spark: SparkSession
) -> None:
    """With synchronous_commit = off, the catalog shows what the walsender does not send yet."""
    with Server(settings={"wal_level": "logical", "wal_writer_delay": "10s"}) as server:
        server.execute(SETUP)
        job = LakeJob(tmp_path, server, target, publication="p")
        with job.session(spark) as replicate:
            running = replicate()
            tables = JobTables(running)
            wait_until_equal(spark, job, running, ["t", "other"])
            with psycopg.connect(server.conninfo, autocommit=True) as connection:
                connection.execute("SET synchronous_commit = off")
                connection.execute("INSERT INTO t VALUES (3, 'c')")
                connection.execute("ALTER PUBLICATION p DROP TABLE t")
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["public.other"])
            tables.wait("dropped", "t")
            assert spark.table(job.sql_name("t")).count() == 3
