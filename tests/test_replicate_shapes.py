"""Partitions and clusterings of the tables in the target, on a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.replication import Replication
from support import lake
from support.job_report import generations
from support.lake_job import LakeJob
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(
    "CREATE TABLE events (id int PRIMARY KEY, at timestamptz, day date, country text, note text);"
    "ALTER TABLE events ALTER note SET STORAGE EXTERNAL;"
    "INSERT INTO events SELECT n, '2026-01-01'::timestamptz + n * interval '1 hour',"
    " '2026-01-01'::date + n % 3, 'c' || n % 3, repeat('n', 3000) FROM generate_series(1, 90) n;"
    "CREATE TABLE other (id int PRIMARY KEY);"
    "INSERT INTO other VALUES (1);"
    "CREATE PUBLICATION p FOR TABLE events, other"
)


@pytest.mark.parametrize("target", lake.TARGETS)
@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_a_table_has_the_partitions_that_the_option_names(
    target: str, mode: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p", mode={"events": mode})
    is_delta = target == "delta"
    fields = ["country"] if is_delta else ["days(at)", "bucket(4, id)"]
    if mode == "history":
        fields.append("_change_type")
    given: dict[str, object] = {"partition": {"public.events": fields}}

    with job.session(spark) as replicate:

        def run(**options: object) -> Replication:
            done = replicate(once=True, **options)
            if done.exit_code == 0 and mode == "mirror":
                given: dict[str, Any] = {**job.options, **options}
                compared = spark_pgoutput.verify(spark, once=True, **given)
                assert {row.result for row in compared.collect()} == {"equal"}
            return done

        assert run(**given).exit_code == 0
        assert partitions(spark, job) == (fields if is_delta else [*spec(fields)])
        copied = generations(job)

        # Rows move between partitions, and the server does not send their notes again.
        server.execute(
            "UPDATE events SET country = 'c9', at = at + interval '40 days' WHERE id < 30"
        )
        server.execute(
            "UPDATE events SET id = id + 1000, country = NULL WHERE id BETWEEN 20 AND 25"
        )
        server.execute("DELETE FROM events WHERE id BETWEEN 60 AND 70")
        assert run(**given).exit_code == 0
        server.execute(
            "ALTER TABLE events RENAME country TO land; ALTER TABLE events RENAME at TO made"
        )
        server.execute("UPDATE events SET land = 'x', made = now() WHERE id = 50")
        assert run(**given).exit_code == 0
        assert generations(job) == copied

        # The names of the options must be those of the server when the table is copied.
        renamed = [each.replace("country", "land").replace("at)", "made)") for each in fields]
        assert run(partition={"events": renamed}).exit_code == 0
        assert generations(job) == copied
        other: dict[str, object] = {"partition": {"events": ["day"]}}
        assert run(**other).exit_code == 0
        now = generations(job)
        assert now["events"] > copied["events"]
        assert now["other"] == copied["other"]
        assert partitions(spark, job) == (["day"] if is_delta else ["identity day"])
        server.execute(
            "TRUNCATE events; INSERT INTO events VALUES (1, now(), '2026-03-01', 'c', 'n')"
        )
        assert run(**other).exit_code == 0

        # The error is one of the table, and not of the job.
        wrong = run(partition={"events": ["nowhere"]})
        assert wrong.exit_code == 3
        (failed,) = wrong.failed()
        assert "partition.public.events has 'nowhere'" in failed
        assert "no column 'nowhere' in the target" in failed

        assert run(cluster={"events": ["day", "id"]}).exit_code == 0
        assert partitions(spark, job) == []
        assert clusters(spark, job) == ["day", "id"]
        assert generations(job)["events"] > now["events"]
        server.execute("UPDATE events SET land = 'e'")
        assert run(cluster={"events": ["day", "id"]}).exit_code == 0
        assert spark.sql(f"SELECT land FROM {job.sql_name('events')}").first() is not None


@lake.needs_iceberg
def test_a_sort_column_that_gets_another_type_stops_only_its_table(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """Iceberg keeps each sort order that a table has had. The error names a way out that works."""
    server.execute(
        "CREATE TABLE ranked (id int PRIMARY KEY, place int); INSERT INTO ranked VALUES (1, 7);"
        "ALTER PUBLICATION p ADD TABLE ranked"
    )
    job = LakeJob(tmp_path, server, "iceberg", publication="p")
    sorted_by = {"cluster": {"ranked": ["place"]}}
    with job.session(spark) as replicate:
        assert replicate(once=True, **sorted_by).exit_code == 0
        before = spark.table(job.sql_name("other")).count()
        server.execute(
            "ALTER TABLE ranked ALTER place TYPE text USING 'n' || place;"
            "INSERT INTO other SELECT max(id) + 1 FROM other"
        )
        stopped = replicate(once=True, **sorted_by)
        assert stopped.exit_code == 3
        (failed,) = stopped.failed()
        assert "is or was sorted by it" in failed
        assert "Remove the table of the target, and start the job again" in failed
        assert spark.table(job.sql_name("other")).count() == before + 1

        spark.sql(f"DROP TABLE {job.sql_name('ranked')}")
        assert replicate(once=True, **sorted_by).exit_code == 0
        assert spark.table(job.sql_name("ranked")).collect() == [(1, "n7")]
    server.execute("DROP TABLE ranked")


def spec(fields: list[str]) -> list[str]:
    """Return how Iceberg describes fields."""
    names = {"days(at)": "day at", "bucket(4, id)": "bucket[4] id"}
    return [names.get(each, f"identity {each}") for each in fields]


def partitions(spark: SparkSession, job: LakeJob) -> list[str]:
    """Return the fields of the partitioning."""
    if "/" in job.target:
        return detail(spark, job, "partitionColumns")
    table = iceberg(spark, job)
    fields = table.spec().fields()
    found = [fields.get(each) for each in range(fields.size())]
    return [f"{each.transform().toString()} {column(table, each)}" for each in found]


def clusters(spark: SparkSession, job: LakeJob) -> list[str]:
    """Return the columns of the clustering or of the sort order."""
    if "/" in job.target:
        return detail(spark, job, "clusteringColumns")
    table = iceberg(spark, job)
    fields = table.sortOrder().fields()
    return [column(table, fields.get(each)) for each in range(fields.size())]


def detail(spark: SparkSession, job: LakeJob, columns: str) -> list[str]:
    """Return columns by which Delta lays out the table."""
    found = spark.sql(f"DESCRIBE DETAIL {job.sql_name('events')}").head()
    assert found is not None
    return list(found[columns])


def iceberg(spark: SparkSession, job: LakeJob) -> JavaObject:
    """Return the table as Iceberg has it."""
    jvm: Any = spark._jvm
    util = jvm.org.apache.iceberg.spark.Spark3Util
    found: JavaObject = util.loadIcebergTable(spark._jsparkSession, f"{job.target}.events")
    return found


def column(table: JavaObject, field: JavaObject) -> str:
    return str(table.schema().findColumnName(field.sourceId()))
