"""Copy the JARs of Maven packages into Spark's own folder. The Dockerfile runs this."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession


def main(packages: str) -> None:
    """Let Spark resolve the packages, with all that they need, and keep what it has found."""
    with tempfile.TemporaryDirectory() as folder:
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.jars.packages", packages).config("spark.jars.ivy", folder)
        builder.getOrCreate().stop()
        for jar in Path(folder, "jars").glob("*.jar"):
            shutil.copy(jar, Path(pyspark.__file__).parent / "jars")


if __name__ == "__main__":
    main(sys.argv[1])
