"""Jobs whose Iceberg tables are in a REST catalog."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support.infrastructure import (
    ObjectStore,
    RestCatalog,
    StoredJob,
    needs_infrastructure,
    rest_catalog,
)
from support.job_tables import PATIENCE, JobTables, copied, look, wait_until_equal
from support.servers import Server, server_fixture, wait_until

pytestmark = [needs_infrastructure, pytest.mark.infra]

SETUP = """
CREATE TABLE good (id int PRIMARY KEY, v text);
CREATE TABLE other (id int PRIMARY KEY, v text);
INSERT INTO good SELECT g, repeat('a', 20) FROM generate_series(1, 1000) g;
INSERT INTO other VALUES (1, 'a');
CREATE PUBLICATION p FOR ALL TABLES;
"""

server = server_fixture(SETUP)


def test_a_job_follows_its_tables_in_a_rest_catalog(
    server: Server, store: ObjectStore, rest: RestCatalog, tmp_path: Path, spark: SparkSession
) -> None:
    job = StoredJob(tmp_path, server, "iceberg", store, rest)
    with copied(spark, job, "good", "other") as (running, report):
        tables = JobTables(running)

        # The columns change.
        server.execute(
            "ALTER TABLE good ADD COLUMN c int; ALTER TABLE good RENAME COLUMN v TO w;"
            "ALTER TABLE other ALTER id TYPE bigint; UPDATE good SET c = id WHERE id < 50;"
            f"INSERT INTO other VALUES ({2**40}, 'b')"
        )
        wait_until_equal(spark, job, running, ["good", "other"])

        # A table is copied again, and another one is dropped and made again.
        copies = len(report.lines("Copied "))
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, tables=["public.good"])
        wait_until(lambda: len(report.lines("Copied ")) > copies, PATIENCE, 0.2)
        server.execute("DROP TABLE other")
        look(server)
        tables.wait("dropped", "other")
        server.execute("CREATE TABLE other (id text PRIMARY KEY); INSERT INTO other VALUES ('x')")
        added = look(server)
        wait_until_equal(spark, job, running, ["good", "other", added])

        # The catalog is away.
        with rest.proxy.away():
            server.execute("DELETE FROM good WHERE id % 2 = 0")
            time.sleep(20)
        server.execute("INSERT INTO good VALUES (2000, 'd', 1)")
        wait_until_equal(spark, job, running, ["good", "other", added])

        # The catalog is back, but its answer to each third commit is lost.
        with rest.proxy.fault(
            "dropped", lambda request: request.method == "POST" and "/tables/" in request.path, 3
        ) as fault:
            for number in range(6):
                server.execute(f"UPDATE good SET w = 'e{number}' WHERE id % 7 = {number}")
                wait_until_equal(spark, job, running, ["good"])
        assert fault.hits > 0

        # Then the answer to the first request of each kind is lost.
        with rest.proxy.first_answers_lost() as kinds:
            for number in range(3):
                server.execute(f"UPDATE good SET w = 'f{number}' WHERE id % 7 = {number}")
                wait_until_equal(spark, job, running, ["good"])
        assert {method for method, *_ in kinds} >= {"GET", "POST"}, kinds
        assert running.failed() == []


def test_a_catalog_lets_nobody_remove_files(
    server: Server, store: ObjectStore, tmp_path: Path, spark: SparkSession
) -> None:
    """The catalog of Nessie gives each table the property `gc.enabled=false`."""
    forbidden = {"table-default.gc.enabled": "false"}
    with rest_catalog(tmp_path / "rest", store, forbidden) as rest:
        job = StoredJob(tmp_path, server, "iceberg", store, rest)
        with copied(spark, job, "good") as (running, report):
            properties = spark.sql(f"SHOW TBLPROPERTIES {job.sql_name('good')}").collect()
            assert {row.key: row.value for row in properties}["gc.enabled"] == "false"
            copies = len(report.lines("Copied "))
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint_url, tables=["public.good"])
            wait_until(lambda: len(report.lines("Copied ")) > copies, PATIENCE, 0.2)
            server.execute("UPDATE good SET v = 'b' WHERE id < 100")
            wait_until_equal(spark, job, running, ["good"])
            assert running.failed() == []
        found = spark.sql(f"SHOW TABLES IN {job.target}").collect()
        assert not [row.tableName for row in found if row.tableName.startswith("_spark_pgoutput")]
