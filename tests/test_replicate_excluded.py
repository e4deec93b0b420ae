"""Tables of a publication that the option `excludeTables` leaves out."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from support import lake
from support.job_tables import JobTables
from support.lake_job import LakeJob, Replicate, job_fixtures
from support.lake_judge import assert_equal
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

# Nothing but the tables a and b can be copied.
server = server_fixture(
    "CREATE SCHEMA staging;"
    "CREATE TABLE a (id int PRIMARY KEY, v text); INSERT INTO a VALUES (1, 'a');"
    "CREATE TABLE b (id int PRIMARY KEY, d date); INSERT INTO b VALUES (1, '2026-01-01');"
    "CREATE TABLE tmp_empty ();"
    'CREATE TABLE staging.lower (id int PRIMARY KEY, "Id" int);'
    "CREATE TABLE staging.tree (id int) PARTITION BY RANGE (id);"
    "CREATE TABLE staging.branch PARTITION OF staging.tree (PRIMARY KEY (id)) DEFAULT;"
    "CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root)"
)
job, replicate = job_fixtures("p")

EXCLUDED = ["staging.*", "tmp_*"]


def test_excluded_tables_are_not_errors_keep_their_rows_and_are_copied_when_they_come_back(
    spark: SparkSession, server: Server, job: LakeJob, replicate: Replicate
) -> None:
    def run(*excluded: str, **options: object) -> dict[str, str]:
        patterns = [*EXCLUDED, *excluded]
        done = replicate(once=True, excludeTables=patterns, onTableError="stop", **options)
        assert (done.exit_code, done.failed()) == (0, [])
        return JobTables(done).states()

    of_excluded = {"types": {"staging.lower.Id": "STRING"}, "mode": {"staging.tree": "history"}}
    assert run(**of_excluded) == {"a": "live", "b": "live"}
    assert_equal(spark, job, {"a": "a", "b": "b"})
    assert not [path for path in job.tables.iterdir() if "staging" in path.name]

    # The job meets a value that it cannot read, and changes of tables that it does not have.
    server.execute(
        "INSERT INTO b VALUES (2, 'infinity'); INSERT INTO staging.tree VALUES (1);"
        "INSERT INTO staging.lower VALUES (1, 2); UPDATE a SET v = 'b'"
    )
    failed = replicate(once=True, excludeTables=EXCLUDED)
    assert failed.exit_code == 3
    assert JobTables(failed).states() == {"a": "live", "b": "failed"}
    end = server.value("SELECT pg_current_wal_lsn() - '0/0'")
    for value in ("c", "d"):
        server.execute(f"UPDATE a SET v = '{value}'; DELETE FROM b WHERE id = 1")
        assert run("public.b") == {"a": "live", "b": "excluded"}
        assert_equal(spark, job, {"a": "a"})
        assert spark.table(job.sql_name("b")).count() == 1
    # The table holds back no WAL.
    assert server.confirmed(job.slot) >= int(end)

    server.execute("UPDATE b SET d = '2026-02-02'; INSERT INTO b VALUES (3, NULL)")
    assert run() == {"a": "live", "b": "live"}
    assert_equal(spark, job, {"a": "a", "b": "b"})
