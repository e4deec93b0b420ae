"""The commands log nothing that a user cannot act on, unless the user has a logging file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_pgoutput.logging_file import logger_levels, use_logging_file

# Loggers that only another version of Spark has, or a JAR that `make test` does not need.
ELSEWHERE = ("SparkStringUtils", "org.apache.spark.sql.delta.", "org.apache.iceberg.", "fs.s3a")


def test_each_logger_is_that_of_a_class_or_a_package(spark: SparkSession) -> None:
    levels = logger_levels()
    assert set(levels.values()) <= {"error", "off"}
    jvm: Any = spark._jvm
    load = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader().loadClass
    for name in levels:
        if not any(part in name for part in ELSEWHERE):
            is_class = name.rpartition(".")[2][0].isupper()
            load(name if is_class else f"{name}.DataWritingSparkTask")


@pytest.mark.parametrize("file", ["log4j2.properties", "log4j2.xml", "log4j.properties", None])
def test_the_file_of_a_user_wins(tmp_path: Path, file: str | None) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.properties.template").write_text("")
    if file is not None:
        (tmp_path / "conf" / file).write_text("")
    environment: dict[str, str] = {}
    use_logging_file(environment, str(tmp_path))
    assert bool(environment) == (file is None)
    use_logging_file(environment, sys.prefix)
    assert list(environment) == ["LOG4J_CONFIGURATION_FILE"]
    assert Path(environment["LOG4J_CONFIGURATION_FILE"].removeprefix("file://")).is_file()


def test_a_variable_of_the_user_wins(tmp_path: Path) -> None:
    environment = {"LOG4J_CONFIGURATION_FILE": "mine.xml"}
    use_logging_file(environment, str(tmp_path))
    assert environment == {"LOG4J_CONFIGURATION_FILE": "mine.xml"}
