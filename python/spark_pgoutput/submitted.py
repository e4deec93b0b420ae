"""What the scripts have in common that spark-submit runs: the session, and how an error is told."""

from __future__ import annotations

import re
import sys

from pyspark.sql import SparkSession

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def session(name: str, target: str) -> SparkSession:
    """Start a session. For a folder, it has Delta's settings, unless the user gives them."""
    builder = SparkSession.builder.appName(name)
    if "/" in target:
        given = _submitted()
        for setting, value in _DELTA.items():
            if setting not in given:
                builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def failed(command: str, error: Exception) -> int:
    """Print an error without the stack trace of the JVM, and return the exit status."""
    message = str(error)
    found = re.search(r"\[PGOUTPUT_\w+\].+", message)
    print(f"spark-pgoutput {command}: {found[0] if found else message}", file=sys.stderr)
    return 1


def _submitted() -> set[str]:
    """Return the names of the settings that spark-submit was given."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return {name for name, _ in SparkConf().getAll()}
