"""Spark Connect serves the functions, and gives what Classic gives, its errors included."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput import changes
from support import messages as m
from support.orders import HISTORY, in_order
from support.processes import (
    ANSWER,
    CONNECT,
    PRELUDE,
    RUNNING_WITHOUT_JAR,
    TESTS,
    connect_server,
    connect_server_in_this_jvm,
    run,
    run_python,
)
from support.servers import small_slot

SERVER_WITHOUT_JAR = (
    "The Spark Connect server does not have spark-pgoutput's functions, and a client cannot add "
    "them. Start the server with --jars spark-pgoutput.jar and connect again; `spark-pgoutput "
    "jar-path` prints the path of this file."
)

# Makes PySpark behave as the package pyspark-client, which has no JVM.
ONLY_A_CLIENT = {"SPARK_SKIP_CONNECT_COMPAT_TESTS": "1"}

Answers = dict[str, list[str]]

pytestmark = pytest.mark.takes_long


@pytest.fixture(scope="module")
def answers(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Give the answers that one client got to all its questions."""
    url = connect_server_in_this_jvm(spark)
    command = [sys.executable, "-m", "support.connect_client", url]
    folder = tmp_path_factory.mktemp("client")
    with small_slot() as slot:
        *_, printed = run(command, folder, PYTHONPATH=TESTS, SLOT=slot, **ONLY_A_CLIENT)
    found: Answers = json.loads(printed)
    return found


def test_message_functions(answers: Answers) -> None:
    assert answers["message_functions"] == [
        "Row(type='STREAM_STOP', tried=None, error=None, format='0/45', parse=69, try_parse=69)",
        "True",
        "IllegalArgumentException PGOUTPUT_MALFORMED_MESSAGE 08P01",
    ]


def test_the_optimizer_narrows_a_decode(answers: Answers) -> None:
    assert answers["optimizer_rule"] == ["True"]


def test_typed_rows(answers: Answers) -> None:
    assert answers["typed_rows"] == [
        "struct<id:bigint>",
        "{'comment': 'int8'}",
        "Row(row=Row(a=42, b=7), tried=Row(id=42, b=datetime.date(2000, 1, 8)), "
        "schema=\"id BIGINT COMMENT 'int8'\")",
    ]


def test_table_changes(answers: Answers, spark: SparkSession) -> None:
    found = changes(m.frame(spark, HISTORY), table="orders")
    assert answers["table_changes"] == [str(in_order(found, "*"))]
    assert answers["more_table_changes"] == [
        "[]",
        "[(3,), (3,)]",
        "8",
        "16",
        "[]",
        "True",
        "[Row(_xid=1, _gid=None, state='begun', first_position=0, changes=0)]",
        "IllegalArgumentException PGOUTPUT_UNKNOWN_RELATION 08P01",
    ]


def test_table_changes_in_a_stream(answers: Answers, spark: SparkSession) -> None:
    batch = changes(m.frame(spark, HISTORY), table="orders")
    assert answers["table_changes_in_a_stream"] == [str(in_order(batch, "*")), "True"]


def test_replication_slot(answers: Answers) -> None:
    assert answers["replication_slot"] == ["10", "10"]


def test_replication_needs_a_driver_of_its_own(answers: Answers) -> None:
    (error,) = answers["replication"]
    assert "needs a Classic session" in error
    assert "Run the command spark-pgoutput replicate" in error


@pytest.mark.exhaustive
def test_a_server_without_the_jar_is_refused(tmp_path: Path) -> None:
    """After that, a builder of this process is refused too, because its JVM runs the server."""
    script = """
spark = SparkSession.builder.remote("local[1]").getOrCreate()
attempt(spark_pgoutput.register, spark)
attempt(spark_pgoutput.functions.pgoutput_decode, "m")
attempt(spark_pgoutput.configure, SparkSession.builder.remote("local[1]"))
"""
    # SPARK_TESTING makes the server choose a free port.
    output = run_python(PRELUDE + script, tmp_path, SPARK_TESTING="1")
    assert output == [SERVER_WITHOUT_JAR, SERVER_WITHOUT_JAR, RUNNING_WITHOUT_JAR]


@pytest.mark.exhaustive
def test_configure_gives_the_jar_to_a_server_in_this_process(tmp_path: Path) -> None:
    script = CONNECT.format(url="local[1]") + "ask(spark)"
    assert run_python(PRELUDE + script, tmp_path, SPARK_TESTING="1") == [ANSWER]


@pytest.mark.exhaustive
def test_a_server_that_was_started_with_the_jar_has_the_functions(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    with connect_server(tmp_path, "--jars", spark_pgoutput.jar_path()) as url:
        script = CONNECT.format(url=url) + "ask(spark)"
        assert run_python(PRELUDE + script, tmp_path / "client") == [ANSWER]
