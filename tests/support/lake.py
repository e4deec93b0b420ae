"""Delta and Iceberg in a session, as users add them."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
import pytest

# `make test-formats` names another folder, which has other versions of Delta and Iceberg.
JARS = Path(os.environ.get("LAKE_FOLDER", Path(__file__).parents[2] / ".lake"))

# The files of jobs that use object stores, and those of the services that the tests start.
INFRASTRUCTURE = Path(__file__).parents[2] / ".infra"

_SPARK = ".".join(pyspark.__version__.split(".")[:2])

# Each format that runs here, as `LakeJob` names it. All have a JAR for their version of Spark.
TARGETS = tuple(
    name
    for name, artifact in {"delta": "delta-spark_", "iceberg": "iceberg-spark-runtime-"}.items()
    if any(JARS.glob(f"{artifact}{_SPARK}_*.jar"))
)
RUNS_HERE = bool(TARGETS)
needs_lake = pytest.mark.skipif(not RUNS_HERE, reason=f"no format in {JARS} runs on this Spark")
needs_iceberg = pytest.mark.skipif("iceberg" not in TARGETS, reason=f"no Iceberg in {JARS}")

# `make test` runs these tests with Iceberg, which is faster, and `make test-lake` with Delta.
JOB_TARGETS = tuple(
    pytest.param(name, marks=[pytest.mark.lake] if name == "delta" else [])
    for name in TARGETS[::-1]
)

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
