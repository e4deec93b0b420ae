"""On a Spark that is too old, Python says so; nothing else is tested there."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from support.processes import run_python

pytestmark = pytest.mark.skipif(
    not pyspark.__version__.startswith("3."), reason="for a Spark older than 4.0"
)

SCRIPT = """
import spark_pgoutput
from pyspark.sql import SparkSession

def attempt(action, argument):
    try:
        action(argument)
    except RuntimeError as error:
        print(error)

attempt(spark_pgoutput.configure, SparkSession.builder)
attempt(spark_pgoutput.register, SparkSession.builder.getOrCreate())
"""


def test_configure_and_register_refuse_it(tmp_path: Path) -> None:
    error = (
        "spark-pgoutput needs Spark 4.0 or newer with Scala 2.13, and this is Spark "
        f"{pyspark.__version__}: install a newer one (pip install 'pyspark>=4.0')"
    )
    assert run_python(SCRIPT, tmp_path) == [error, error]
