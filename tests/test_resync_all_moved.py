"""A job that starts over with another server, slot, publication, or name of a table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.lake_job import LakeJob
from support.lake_judge import assert_equal, lake_rows
from support.lake_operations import SETUP, TABLES, copied, write
from support.lake_points import commits
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(SETUP)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_starts_over_with_another_server(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
    with Server() as other:
        # Its tables have other oids, one is missing and one is new.
        other.execute("CREATE TABLE added (id int PRIMARY KEY, v text)")
        other.execute(SETUP.replace("FOR TABLE orders, seats", "FOR TABLE added, orders"))
        other.execute("INSERT INTO added VALUES (1, 'a')")
        job.server = other
        kept = lake_rows(spark, job.sql_name("seats"), ["id", "v"])
        with job.session(spark) as replicate:
            with pytest.raises(PySparkException) as caught:
                replicate(once=True)
            assert caught.value.getCondition() == "PGOUTPUT_OTHER_JOB"
            assert "spark-pgoutput resync --all" in str(caught.value)
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            assert copied(replicate(once=True)) == 3
            write(other, "other")
            assert copied(replicate(once=True)) == 0
            assert_equal(spark, job, {t: t for t in ("added", "orders", "readings")})
            assert lake_rows(spark, job.sql_name("seats"), ["id", "v"]) == kept
            # The table that was left out comes back, with another oid than at the first server.
            other.execute("ALTER PUBLICATION shop ADD TABLE seats")
            assert copied(replicate(once=True)) == 1
            write(other, "back")
            assert copied(replicate(once=True)) == 0
            assert_equal(spark, job, {**TABLES, "added": "added"})


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_starts_over_with_another_slot_and_publication(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        write(server, "missed")
        server.execute(
            "ALTER TABLE orders RENAME TO purchases;"
            "CREATE TABLE added (id int PRIMARY KEY, v text); INSERT INTO added VALUES (1, 'a');"
            "CREATE PUBLICATION other FOR TABLE purchases, seats, added"
        )
        server.create_slot("taken")
        kept = lake_rows(spark, job.sql_name("readings"), ["x", "y"])
        job.publication = "other"

        def refused(slot: str) -> str:
            job.slot = slot
            with pytest.raises(PySparkException) as caught:
                replicate(once=True)
            return str(caught.value)

        assert refused("another").startswith("[PGOUTPUT_OTHER_JOB]")
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
        before = {table: commits(job, table) for table in TABLES}
        assert "The slot 'taken' exists, and it is not the slot" in refused("taken")
        assert {table: commits(job, table) for table in before} == before

        job.slot = "another"
        report = "\n".join(replicate(once=True).report())
        assert report.count("\nCopied") == 3
        assert "SELECT pg_drop_replication_slot('lake')" in report
        tables = {"purchases": "orders", "seats": "seats", "added": "added"}
        assert_equal(spark, job, tables)
        server.execute(
            "UPDATE purchases SET v = 'later' WHERE id > 20; DELETE FROM seats WHERE id > 40;"
            "INSERT INTO added VALUES (2, 'b'); INSERT INTO readings VALUES (1, 'left out')"
        )
        assert copied(replicate(once=True)) == 0
        assert_equal(spark, job, tables)
        assert lake_rows(spark, job.sql_name("readings"), ["x", "y"]) == kept
        found = {
            row.table: row.state for row in spark_pgoutput.applied(spark, job.checkpoint).collect()
        }
        live = {f"public.{table}": "live" for table in tables}
        assert found == {**live, "public.readings": "dropped"}
        assert not (job.tables / "purchases").exists()
        # The table that was left out comes back.
        server.execute("ALTER PUBLICATION other ADD TABLE readings")
        assert copied(replicate(once=True)) == 1
        server.execute("INSERT INTO readings VALUES (2, 'back')")
        assert copied(replicate(once=True)) == 0
        assert_equal(spark, job, {**tables, "readings": "readings"})
