"""Each way to give the functions to a Spark session, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import spark_pgoutput
from support.processes import (
    ANSWER,
    PRELUDE,
    QUERY,
    REGISTER_RUNNING,
    REGISTERED_RUNNING,
    copy_of_package,
    run,
    run_python,
)


def test_configure(tmp_path: Path) -> None:
    """A second session in the same JVM has the functions too."""
    script = """
for _ in range(2):
    spark = spark_pgoutput.configure(SparkSession.builder).getOrCreate()
    ask(spark)
    spark.stop()
"""
    output = run_python(PRELUDE + script, tmp_path, PYTHONPATH=copy_of_package(tmp_path))
    assert output == [ANSWER, ANSWER]


def test_register_running_session(tmp_path: Path) -> None:
    """The executor is another process, so it needs the JAR too."""
    output = run_python(PRELUDE + REGISTER_RUNNING, tmp_path, PYTHONPATH=copy_of_package(tmp_path))
    assert output == REGISTERED_RUNNING


def test_spark_submit_with_jar(tmp_path: Path) -> None:
    """The JAR is enough, and a call of configure does no harm."""
    script = """
spark = SparkSession.builder.getOrCreate()
ask(spark)
spark_pgoutput.configure(SparkSession.builder)
"""
    (tmp_path / "script.py").write_text(PRELUDE + script)
    command = "spark-submit --jars $(spark-pgoutput jar-path) script.py"
    assert run(["sh", "-c", command], tmp_path) == [ANSWER]


def test_spark_sql_with_jar(tmp_path: Path) -> None:
    command = 'spark-sql --jars $(spark-pgoutput jar-path) -e "$QUERY"'
    assert run(["sh", "-c", command], tmp_path, QUERY=QUERY) == [ANSWER]


def test_message_schema_is_what_decode_returns(spark: SparkSession) -> None:
    """Also the comments, and which fields can be NULL."""
    decoded = spark.sql("SELECT pgoutput_decode(X'45') AS d")
    assert spark_pgoutput.message_schema() == decoded.schema["d"].dataType
