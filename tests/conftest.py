"""A Spark session with the functions, and the captured messages in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession

import comparison
import reference
import spark_pgoutput
from data_files import captures, in_stream_flags


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers need pyarrow too
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("spark-pgoutput's tests")
        .config("spark.driver.memory", "2g")
        # So many small queries are over sooner without the optimizing compiler.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.log.level", "ERROR")
        # With any other limit Spark adds up the sizes of all buffers for every row that it hands to
        # Python, and a struct like ours has many of them.
        .config("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
    )
    session = spark_pgoutput.configure(builder).getOrCreate()
    for module in (reference, comparison):
        session.sparkContext.addPyFile(str(module.__file__))
    yield session
    session.stop()


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Expressions are evaluated without generated code, as Spark does where code does not compile
    or is too long."""
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


@pytest.fixture(scope="session")
def captures_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one Parquet file a capture: its name, and its messages with their numbers and
    whether they stand between Stream Start and Stream Stop."""
    folder = tmp_path_factory.mktemp("captures")
    for name, messages in captures().items():
        columns = {
            "capture": [name] * len(messages),
            "seq": list(range(len(messages))),
            "data": messages,
            "in_stream": in_stream_flags(messages),
        }
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


@pytest.fixture(scope="session")
def captured(spark: SparkSession, captures_path: Path) -> DataFrame:
    """Every captured message: capture, seq, data, in_stream."""
    return spark.read.parquet(str(captures_path))
