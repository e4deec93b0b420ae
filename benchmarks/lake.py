"""A server with tables, and jobs that keep them equal in Delta and Iceberg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
from pyspark.sql import SparkSession

import spark_pgoutput
from benchmarks.cost import Meter
from spark_pgoutput.demo.server import PostgresServer
from spark_pgoutput.submitted import JOB_SETTINGS

_JARS = Path(__file__).parents[1] / ".lake"
_PUBLICATION = "measured"
_TABLE = """
CREATE TABLE {name} (
  id bigint PRIMARY KEY, customer int, status text, price numeric(12,2), placed timestamptz,
  changed timestamp, note text, paid boolean, ratio float8
)"""
_ROWS = (
    "SELECT id, id % 1000, 'new', id / 100.0, now(), now(), 'order note ' || md5(id::text), "
    "id % 3 = 0, sqrt(id) FROM generate_series({first}, {last}) AS id"
)


class Lake:
    """A server with a table, and a session that writes Delta and Iceberg."""

    def __init__(
        self, spark: SparkSession, server: PostgresServer, folder: Path, rows: int
    ) -> None:
        self.spark, self.server, self.folder, self.rows = spark, server, folder, rows
        self.sql = psycopg.connect(server.conninfo, autocommit=True)
        self.meter = Meter(server)
        self._jobs = 0

    def fill(self, *tables: str) -> None:
        """Make tables with rows, and a publication of them."""
        for table in tables:
            self.sql.execute(_TABLE.format(name=table).encode())
            self.insert(table, 1, self.rows)
        names = ", ".join(tables)
        self.sql.execute(f"CREATE PUBLICATION {_PUBLICATION} FOR TABLE {names}".encode())
        self.sql.execute("VACUUM ANALYZE")
        self.sql.execute("CHECKPOINT")

    def insert(self, table: str, first: int, last: int) -> None:
        """Insert rows into a table, with the ids from one to another."""
        self.sql.execute(f"INSERT INTO {table} {_ROWS.format(first=first, last=last)}".encode())

    def job(self, target: str) -> Callable[..., spark_pgoutput.Replication]:
        """Return a function that starts a new job, or goes on with it."""
        self._jobs += 1
        name = f"job{self._jobs}"
        folder = self.folder / name
        where = str(folder / "tables") if target == "delta" else f"ice.{name}"

        def start(once: bool = True) -> spark_pgoutput.Replication:
            return spark_pgoutput.replicate(
                self.spark,
                url=self.server.jdbc_url,
                user=self.server.user,
                password=self.server.password,
                slot=name,
                publication=_PUBLICATION,
                target=where,
                checkpoint=str(folder / "checkpoint"),
                once=once,
            )

        return start

    def drop_slots(self) -> None:
        """Drop the slots of the jobs that have ended."""
        self.sql.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active"
        )


def session(folder: Path) -> SparkSession:
    """Start a session that writes Delta and Iceberg. The tables of Iceberg are in the folder."""
    builder = SparkSession.builder.master("local[2]").appName("spark-pgoutput's benchmarks")
    for name, value in {
        "spark.jars": ",".join(str(jar) for jar in _JARS.glob("*.jar")),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
        "spark.driver.memory": "4g",
        **JOB_SETTINGS,
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    return spark_pgoutput.configure(builder).getOrCreate()
