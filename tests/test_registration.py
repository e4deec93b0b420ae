"""Every way to give the functions to a Spark session, each in a process of its own."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from processes import (
    ANSWER,
    CONNECT,
    PRELUDE,
    QUERY,
    REGISTER_RUNNING,
    REGISTERED_RUNNING,
    TIMEOUT,
    copy_of_package,
    errors_of,
    free_port,
    run,
    run_python,
    started,
)

SERVER_WITHOUT_JAR = (
    "The Spark Connect server does not have spark-pgoutput's functions, and a client cannot add "
    "them: start the server with `--jars spark-pgoutput.jar` (the file that `spark-pgoutput "
    "jar-path` names) and connect again"
)


def test_configure(tmp_path: Path) -> None:
    """And once more after the session was stopped, in the JVM that runs on."""
    script = """
for _ in range(2):
    spark = spark_pgoutput.configure(SparkSession.builder).getOrCreate()
    ask(spark)
    spark.stop()
"""
    output = run_python(PRELUDE + script, tmp_path, PYTHONPATH=copy_of_package(tmp_path))
    assert output == [ANSWER, ANSWER]


def test_register_running_session(tmp_path: Path) -> None:
    """Whose executor needs the JAR too."""
    output = run_python(PRELUDE + REGISTER_RUNNING, tmp_path, PYTHONPATH=copy_of_package(tmp_path))
    assert output == REGISTERED_RUNNING


def test_spark_submit_with_jar(tmp_path: Path) -> None:
    """Is enough, and configure may be called all the same."""
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


@contextmanager
def connect_server(folder: Path, *options: str) -> Iterator[str]:
    """The URL of a Spark Connect server that was started with these options."""
    port = free_port()
    command = [
        *("spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *options,
    ]
    with started(command, folder) as server:
        deadline = time.monotonic() + TIMEOUT
        while not accepts_connections(port):
            assert server.poll() is None, errors_of(folder)
            assert time.monotonic() < deadline, "the server does not start"
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"


def accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server that has the functions."""
    folder = tmp_path_factory.mktemp("server")
    with connect_server(folder, "--jars", spark_pgoutput.jar_path()) as url:
        yield url


# With pyspark-client, which has no JVM, PySpark says of itself what this makes it say.
CLIENTS = [
    pytest.param({}, id="pyspark"),
    pytest.param({"SPARK_SKIP_CONNECT_COMPAT_TESTS": "1"}, id="pyspark-client"),
]


@pytest.mark.parametrize("environment", CLIENTS)
def test_connect_server_with_jar(
    tmp_path: Path, connect_url: str, environment: dict[str, str]
) -> None:
    """Serves SQL and the Python functions, and its errors are told apart by their condition."""
    script = """
from pyspark.sql import functions as F
from spark_pgoutput import functions as PF
ask(spark)
frame = spark.sql("SELECT X'45' AS m, X'4500' AS malformed, 69L AS number, '0/45' AS lsn")
print(*frame.select(
    PF.pgoutput_decode("m", True, {"mode": "PERMISSIVE"})["type"],
    PF.try_pgoutput_decode("malformed"),
    PF.pgoutput_error("m", F.lit(False)),
    PF.pg_lsn_format("number"),
    PF.pg_lsn_parse("lsn"),
    PF.try_pg_lsn_parse(F.col("lsn")),
).first())
decoded = frame.select(PF.pgoutput_decode("m").alias("d"), PF.pgoutput_decode("malformed"))
print(decoded.schema["d"].dataType == spark_pgoutput.message_schema())
try:
    decoded.collect()
except Exception as error:
    print(type(error).__name__, error.getCondition(), error.getSqlState())
"""
    output = run_python(PRELUDE + CONNECT.format(url=connect_url) + script, tmp_path, **environment)
    assert output == [
        ANSWER,
        "STREAM_STOP None None 0/45 69 69",
        "True",
        "IllegalArgumentException PGOUTPUT_MALFORMED_MESSAGE 08P01",
    ]


def test_connect_server_without_jar(tmp_path: Path) -> None:
    with connect_server(tmp_path) as url:
        output = run_python(PRELUDE + CONNECT.format(url=url), tmp_path)
    assert output == [SERVER_WITHOUT_JAR]


def test_message_schema_is_what_decode_returns(spark: SparkSession) -> None:
    """With the comments and what can be NULL."""
    decoded = spark.sql("SELECT pgoutput_decode(X'45') AS d")
    assert spark_pgoutput.message_schema() == decoded.schema["d"].dataType
