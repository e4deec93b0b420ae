"""The settings of the demo's Spark sessions, which are short, quiet and have few rows."""

from __future__ import annotations

import pyspark

from spark_pgoutput.submitted import DELTA_SETTINGS

SETTINGS = {
    # A session is too short for the optimizing compiler. Without it, a session takes half the time.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    # The rows are too few for generated code, for adaptive plans and for several tasks. Delta reads
    # the state of a table by tasks of its own, before and after each commit.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


# The Sparks that Delta runs on. The JAR has the same list in `LakeFormat`.
DELTA_SPARKS = ("4.0", "4.1", "4.2")


def has_delta() -> bool:
    """Return whether Delta runs on this Spark."""
    return _spark() in DELTA_SPARKS


def delta_settings() -> dict[str, str]:
    """Return the settings of a session that reads and writes Delta, which Spark downloads."""
    return {"spark.jars.packages": delta_package(), **DELTA_SETTINGS}


def delta_package() -> str:
    """Return the coordinates of Delta for this Spark."""
    return f"io.delta:delta-spark_{_spark()}_2.13:4.4.0"


def _spark() -> str:
    """Return the version of Spark without the patch release."""
    return ".".join(pyspark.__version__.split(".")[:2])
