"""Delta and Iceberg in a session, as users add them."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

JARS = Path(__file__).parents[2] / ".lake"

# The files of jobs that use object stores, and those of the services that the tests start.
INFRASTRUCTURE = Path(__file__).parents[2] / ".infra"

# The Spark version that the JARs in .lake are built for.
RUNS_HERE = pyspark.__version__.startswith("4.1.")
needs_lake = pytest.mark.skipif(not RUNS_HERE, reason="Delta and Iceberg run on Spark 4.1 together")

# Each format, as `LakeJob` names it.
TARGETS = ("delta", "iceberg")

# `make test` runs these tests with Iceberg, which commits faster, and `make test-lake` with Delta.
JOB_TARGETS = ("iceberg", pytest.param("delta", marks=pytest.mark.lake))

DELTA = "io.delta.sql.DeltaSparkSessionExtension"
ICEBERG = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def settings(folder: Path, *extensions: str) -> dict[str, str]:
    """Give a session Delta in ``spark_catalog``, and Iceberg in ``ice`` and ``ice_jdbc``.

    Parameters
    ----------
    folder : Path
        Where the tables are.
    *extensions : str
        The classes that extend SQL: `DELTA`, `ICEBERG`, or both.
    """
    iceberg = "org.apache.iceberg.spark.SparkCatalog"
    jars = [*JARS.glob("*.jar"), *INFRASTRUCTURE.glob("spark/*.jar")]
    return {
        "spark.jars": ",".join(sorted(map(str, jars))),
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.warehouse.dir": str(folder / "delta"),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",  # small logs
        "spark.sql.catalog.ice": iceberg,
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(folder / "ice"),
        "spark.sql.catalog.ice_jdbc": iceberg,
        "spark.sql.catalog.ice_jdbc.type": "jdbc",
        "spark.sql.catalog.ice_jdbc.uri": f"jdbc:sqlite:{folder / 'ice_jdbc.db'}",
        "spark.sql.catalog.ice_jdbc.warehouse": str(folder / "ice_jdbc"),
    }
