"""Spark in processes of its own, as users start it, and scripts for it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import spark_pgoutput
from support.class_archive import SHORT_LIVED_JVM

TIMEOUT = 300.0

TESTS = str(Path(__file__).parents[1])

ERRORS = "errors.txt"

# spark-sql takes long to set up Hive, which these tests do not need.
SPARK_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.executor.memory": "512m",
    "spark.sql.catalogImplementation": "in-memory",
}

# All functions. The arguments are not constant, so that Spark's executors evaluate them.
QUERY = """
SELECT concat_ws(' ', pgoutput_decode(m).type, try_pgoutput_decode(m).type,
  coalesce(pgoutput_error(m), 'no error'), pg_lsn_format(id), pg_lsn_parse(lsn),
  try_pg_lsn_parse(lsn))
FROM (SELECT id, unhex(CAST(id AS STRING)) AS m, concat('0/', id) AS lsn FROM range(45, 46))
""".replace("\n", " ")
ANSWER = "STREAM_STOP STREAM_STOP no error 0/2D 69 69"

PRELUDE = f"""
import spark_pgoutput
from pyspark.sql import SparkSession

def ask(spark):
    plan = spark.sql("EXPLAIN " + {QUERY!r}).first()[0]
    assert "[type]" in plan, plan  # the optimizer's rule is there too
    print(spark.sql({QUERY!r}).first()[0])

def attempt(action, *arguments):
    try:
        action(*arguments)
    except RuntimeError as error:
        print(error)
"""

RUNNING_WITHOUT_JAR = (
    "Spark's JVM already runs, and its class path no longer changes. Call "
    "spark_pgoutput.register(spark) with the session instead, or start Spark with spark-submit "
    "--jars $(spark-pgoutput jar-path)."
)
NOT_REGISTERED = (
    "This Spark session does not have spark-pgoutput's functions. Call "
    "spark_pgoutput.register(spark) with it. To give them to a session from its start, build it "
    "with spark_pgoutput.configure(SparkSession.builder), or start Spark with --jars "
    "$(spark-pgoutput jar-path)."
)
# Spark-submit started the JVM, and then the script acts as if PySpark had started it. It does what
# the error of configure says to do. The executor is a process of its own.
REGISTER_RUNNING = """
import os
attempt(spark_pgoutput.configure, SparkSession.builder)
del os.environ["PYSPARK_GATEWAY_PORT"]
spark = SparkSession.builder.master("local-cluster[1,1,512]").getOrCreate()
attempt(spark_pgoutput.functions.pgoutput_decode, "m")
attempt(spark_pgoutput.changes, spark.range(1))
attempt(spark_pgoutput.configure, SparkSession.builder)
for _ in range(2):
    spark_pgoutput.register(spark)
    ask(spark)
other = spark.newSession()
attempt(spark_pgoutput.changes, other.range(1))
spark_pgoutput.functions.pgoutput_decode("m")  # a Column that `spark` can use
spark_pgoutput.register(other)
ask(other)
"""
REGISTERED_RUNNING = [
    RUNNING_WITHOUT_JAR,
    *(NOT_REGISTERED, NOT_REGISTERED, RUNNING_WITHOUT_JAR),
    *(ANSWER, ANSWER, NOT_REGISTERED, ANSWER),
]

CONNECT = """
spark = spark_pgoutput.configure(SparkSession.builder.remote({url!r})).getOrCreate()
attempt(spark_pgoutput.register, spark)
"""


def run(command: Sequence[str], folder: Path, **environment: str) -> list[str]:
    """Return the lines that a process prints. The process must succeed."""
    with started(command, folder, **environment) as process:
        output, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, f"{output}\n{errors_of(folder)}"
        return output.splitlines()


def run_python(script: str, folder: Path, **environment: str) -> list[str]:
    return run([sys.executable, "-c", script], folder, **environment)


@contextmanager
def started(
    command: Sequence[str], folder: Path, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """Start a process in a folder. At the end, stop it and the processes that it started."""
    inherited = _environment()
    if "PYTHONPATH" in inherited and "PYTHONPATH" in environment:
        paths = environment["PYTHONPATH"], inherited["PYTHONPATH"]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    with (folder / ERRORS).open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**inherited, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _stop(process)


@contextmanager
def connect_server(folder: Path, *options: str) -> Iterator[str]:
    """Start a Spark Connect server with these options, and give its URL."""
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


def connect_server_in_this_jvm(spark: SparkSession) -> str:
    """Let a Classic session's JVM also serve Spark Connect, and return the URL of the server."""
    jvm: Any = spark._jvm
    service = getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    service = getattr(service, "MODULE$")
    if not service.started():
        service.start(spark._jsc.sc())
    return f"sc://127.0.0.1:{service.localPort()}"


def accepts_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def errors_of(folder: Path) -> str:
    """Return what the last process in the folder wrote to its standard error."""
    return (folder / ERRORS).read_text()


def _environment() -> dict[str, str]:
    """Return the variables of an activated virtual environment, without those of this Spark."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    programs = Path(sys.executable).parent
    return {
        **inherited,
        "PATH": f"{programs}{os.pathsep}{inherited['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        # These are not in a file, because its folder would be in the class path of the JVM, which
        # then would not use the archive.
        "JDK_JAVA_OPTIONS": " ".join(
            [SHORT_LIVED_JVM, *(f"-D{name}={value}" for name, value in SPARK_DEFAULTS.items())]
        ),
    }


def _stop(process: subprocess.Popen[str]) -> None:
    """Ask the process to end, so that Spark removes its temporary files, and then kill it."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            break
        try:
            process.communicate(timeout=30)
            break
        except subprocess.TimeoutExpired:
            continue


def copy_of_package(folder: Path) -> str:
    """Copy the package to a folder with an unusual name, and return a PYTHONPATH for it."""
    odd = folder / "it's 100% odd"
    package = Path(spark_pgoutput.__file__).parent
    shutil.copytree(package, odd / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    return str(odd)


def free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind(("127.0.0.1", 0))
        port: int = candidate.getsockname()[1]
        return port
