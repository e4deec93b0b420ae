"""Jobs in catalogs of each kind, in namespaces that also have tables of others."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.replication import Replication
from support import lake
from support.job_report import wait_until_live
from support.lake_job import LakeJob
from support.processes import TIMEOUT, errors_of
from support.servers import Server, server_fixture, wait_until

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(
    'CREATE TABLE "Orders" ("Id" int PRIMARY KEY, "größe" text);'
    "INSERT INTO \"Orders\" VALUES (1, 'a'), (2, 'b'); CREATE PUBLICATION p FOR ALL TABLES",
    scope="module",
)


@pytest.mark.parametrize("catalog", ["spark_catalog", "ice_jdbc", "ice"])
def test_a_job_goes_on_in_each_catalog(
    server: Server, tmp_path: Path, spark: SparkSession, catalog: str
) -> None:
    def replicate() -> Replication:
        job = spark_pgoutput.replicate(
            spark,
            **server.account,
            slot=catalog,
            publication="p",
            target=f"{catalog}.names",
            checkpoint=str(tmp_path / "checkpoint"),
            once=True,
        )
        job.awaitTermination()
        return job

    def rows() -> list[tuple[object, ...]]:
        spark.sql(f"REFRESH TABLE {catalog}.names.Orders")
        return sorted(map(tuple, spark.table(f"{catalog}.names.Orders").collect()))

    before = server.execute('SELECT * FROM "Orders" ORDER BY 1')
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.names")
    if catalog == "spark_catalog":
        spark.sql("CREATE TABLE spark_catalog.names.theirs USING parquet AS SELECT 1 AS x")
        spark.sql("CREATE VIEW spark_catalog.names.seen AS SELECT 1 AS x")
    assert replicate().exit_code == 0
    assert rows() == before
    for number in (10, 20):
        server.execute(f"INSERT INTO \"Orders\" VALUES ({number} + {len(before)}, 'c')")
        assert replicate().exit_code == 0
        assert rows() == server.execute('SELECT * FROM "Orders" ORDER BY 1')


# Two tables, of which `lost` is to lose its folder.
TWO_TABLES = """
CREATE TABLE lost (id int PRIMARY KEY);
CREATE TABLE kept (id int PRIMARY KEY);
CREATE PUBLICATION p FOR TABLE lost, kept;
"""


def remove_folder(spark: SparkSession, table: str) -> None:
    """Remove the folder of a table, which its catalog still has then."""
    described = spark.sql(f"DESCRIBE EXTENDED {table}")
    (location,) = described.where("col_name = 'Location'").collect()
    shutil.rmtree(location["data_type"].removeprefix("file:"))


def test_a_table_whose_metadata_is_gone_does_not_stop_the_others(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The catalog still has the table. Somebody else's table can be in the same state."""
    with Server() as server:
        server.execute(TWO_TABLES)
        job = LakeJob(tmp_path, server, "iceberg", slot="lost", publication="p")
        job.target = "ice_jdbc.lost"
        with job.session(spark) as replicate:
            spark.sql("CREATE NAMESPACE IF NOT EXISTS ice_jdbc.lost")
            spark.sql("CREATE TABLE ice_jdbc.lost.theirs (id INT) USING iceberg")
            assert replicate(once=True).exit_code == 0
            for name in ("theirs", "lost"):
                remove_folder(spark, f"ice_jdbc.lost.{name}")
            server.execute("INSERT INTO lost VALUES (1); INSERT INTO kept VALUES (1)")
            failed = replicate(once=True, retryFor="10s").failed()
            assert [line.split(":")[0] for line in failed] == ["public.lost"], failed
            assert spark.table("ice_jdbc.lost.kept").count() == 1


def test_a_table_of_delta_whose_folder_is_removed_says_what_to_do(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Server() as server:
        server.execute(f"{TWO_TABLES} INSERT INTO lost VALUES (1)")
        job = LakeJob(tmp_path, server, "delta", slot="lost", publication="p")
        job.target = "spark_catalog.removed"
        lost, kept = (f"spark_catalog.removed.{name}" for name in ("lost", "kept"))
        spark.sql("CREATE NAMESPACE spark_catalog.removed")
        with job.session(spark) as replicate:
            running = replicate()
            wait_until_live(running)
            remove_folder(spark, lost)
            server.execute("INSERT INTO lost VALUES (2); INSERT INTO kept VALUES (1)")
            wait_until(running.failed, TIMEOUT)
            (failed,) = running.failed()
            assert failed.startswith("public.lost: [PGOUTPUT_TARGET_LOG_LOST]"), failed
            wait_until(lambda: spark.table(kept).count() == 1, TIMEOUT)
            (statement,) = re.findall("run (DROP TABLE [^ ]*)[.] ", failed)
            spark.sql(statement)
            wait_until_live(running)
            assert sorted(map(tuple, spark.table(lost).collect())) == [(1,), (2,)]
        spark.sql("DROP NAMESPACE spark_catalog.removed CASCADE")


def test_a_job_goes_on_with_a_metastore(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """Each process finds the tables of the previous process in Hive's metastore."""
    job = LakeJob(tmp_path, server, "delta", slot="metastore", publication="p")
    job.target = "spark_catalog.names"
    database = f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true"
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": database,
    }
    copies = []
    for _ in range(2):
        server.execute('INSERT INTO "Orders" SELECT max("Id") + 1, \'m\' FROM "Orders"')
        with job.running("--once", settings=settings) as process:
            output, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, output + errors_of(tmp_path)[-3000:]
        copies.append(output.count("Copied public.Orders:"))
        rows = spark.read.format("delta").load(str(tmp_path / "delta" / "names.db" / "orders"))
        expected = server.execute('SELECT * FROM "Orders" ORDER BY 1')
        assert sorted(map(tuple, rows.collect())) == expected
    assert copies == [1, 0]
    assert (tmp_path / "metastore").is_dir()


@pytest.mark.parametrize(
    ("target", "table_format"),
    [("spark_catalog.taken", "parquet"), ("folder", "delta"), ("ice.taken", "iceberg")],
)
def test_a_table_of_somebody_else_is_not_written(
    server: Server, tmp_path: Path, spark: SparkSession, target: str, table_format: str
) -> None:
    if target == "folder":
        target = str(tmp_path)
        table = f"delta.`{tmp_path / 'Orders'}`"
    else:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {target}")
        table = f"{target}.Orders"
    spark.sql(f"CREATE TABLE {table} USING {table_format} AS SELECT 1 AS x")
    job = spark_pgoutput.replicate(
        spark,
        **server.account,
        slot="taken",
        publication="p",
        target=target,
        checkpoint=str(tmp_path / "checkpoint"),
        once=True,
    )
    job.awaitTermination()
    assert job.exit_code == 3
    (failed,) = job.failed()
    assert re.search(r"PGOUTPUT_TARGET_(EXISTS|FORMAT).*[Oo]rders.*names\.", failed)
    server.execute("SELECT pg_drop_replication_slot('taken')")
    assert spark.table(table).collect() == [(1,)]
    if table_format == "delta":
        assert spark.sql(f"DESCRIBE HISTORY {table}").count() == 1
    if table_format == "iceberg":
        assert spark.table(f"{table}.metadata_log_entries").count() == 1
