"""A Spark session with the functions, and the captured messages in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.class_archive import SHORT_LIVED_JVM
from support.data_files import Captured, capture, in_stream_flags
from support.infrastructure import ObjectStore, RestCatalog, object_store, rest_catalog
from support.lake_catalog import LakeCatalog
from support.servers import Server
from support.source import SourceClient, source_client
from support.streams import PROVIDER, ROCKS_DB

FILE_SYSTEMS = "io.sparkpgoutput.lake.target"

SETTINGS = {
    "spark.driver.memory": "2g",
    # The young generation has room for the objects that a test needs only for a moment.
    "spark.driver.extraJavaOptions": f"{SHORT_LIVED_JVM} -Xmn700m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent),  # Python workers import `support`
    "spark.python.daemon.module": "support.python_daemon",
    # With any other limit Spark adds up the sizes of all buffers for every row that it hands to
    # Python, and a struct like ours has many of them.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    PROVIDER: ROCKS_DB,
    # Hadoop's own local file system starts two processes for each file of a checkpoint.
    "fs.file.impl": f"{FILE_SYSTEMS}.NioLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
    "fs.AbstractFileSystem.file.impl": f"{FILE_SYSTEMS}.NioLocalFs",
    # Some tests start a Spark Connect server in this JVM. It listens on any free port.
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="also run slow tests: all captures in each query, and ten times the mutations",
    )
    parser.addoption("--demo", action="store_true", help="also check what the demo prints")
    parser.addoption("--slot", action="store_true", help="also kill streams of all servers")
    parser.addoption("--lake", action="store_true", help="also kill jobs that keep tables equal")
    parser.addoption("--infra", action="store_true", help="also run jobs on services")
    parser.addoption("--store", action="store_true", help="also run jobs in S3 and a REST catalog")
    parser.addoption("--soak", type=int, default=0, help="kill streams for so many seconds")
    parser.addoption("--seed", default="1", help="the seed of --soak")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    long_tests = {
        "exhaustive": "test-all",
        "demo": "test-python PYTEST_OPTIONS=--demo",
        "slot": "test-slot",
        "lake": "test-lake",
        "infra": "test-infra",
        "store": "test-infra",
        "soak": "soak",
    }
    for mark, target in long_tests.items():
        if not config.getoption(f"--{mark}"):
            skipped = pytest.mark.skip(reason=f"takes long: make {target}")
            for item in items:
                if item.get_closest_marker(mark):
                    item.add_marker(skipped)


@pytest.fixture(scope="session")
def exhaustive(pytestconfig: pytest.Config) -> bool:
    """Return whether the run has the option --exhaustive."""
    return bool(pytestconfig.getoption("--exhaustive"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Give the one session of this process, because a session takes seconds to start.

    It has Delta and Iceberg if they run on this Spark.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Python workers need pyarrow too
    builder = SparkSession.builder.master("local[2]").appName("spark-pgoutput's tests")
    # The session lacks Iceberg's extension, which refuses functions that are written in SQL.
    formats = lake.settings(tmp_path_factory.mktemp("lake"), lake.DELTA) if lake.RUNS_HERE else {}
    for name, value in {**SETTINGS, **formats}.items():
        builder = builder.config(name, value)
    session = spark_pgoutput.configure(builder).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Evaluate expressions without generated code, as Spark does if code is too long."""
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
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """Give an object store."""
    with object_store(tmp_path_factory.mktemp("store")) as store:
        yield store


@pytest.fixture(scope="session")
def rest(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """Give a REST catalog of Iceberg, whose tables are in the store."""
    with rest_catalog(tmp_path_factory.mktemp("rest"), store) as catalog:
        yield catalog


@pytest.fixture(scope="module")
def client(spark: SparkSession, server: Server) -> Iterator[SourceClient]:
    """Give connections to the server of a module, for modules whose tests share one."""
    with source_client(spark, server) as client:
        yield client


@pytest.fixture(scope="module")
def catalog(client: SourceClient) -> LakeCatalog:
    """Give the tables of the server of a module, as a job sees them."""
    return LakeCatalog(client)


@pytest.fixture(scope="session")
def capture_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give a function that writes a capture to a Parquet file when it is first asked for it.

    A row has the capture's name, the message's number, the message, and whether it is between
    Stream Start and Stream Stop.
    """
    folder = tmp_path_factory.mktemp("captures")

    @cache
    def written(name: str) -> Path:
        messages = capture(name)
        columns = {
            "capture": [name] * len(messages),
            "seq": list(range(len(messages))),
            "data": messages,
            "in_stream": in_stream_flags(messages),
        }
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
        return folder / f"{name}.parquet"

    return written


@pytest.fixture(scope="session")
def captured(spark: SparkSession, capture_file: Callable[[str], Path]) -> Captured:
    """Give a function that returns the messages of captures: capture, seq, data, in_stream."""
    return lambda names: spark.read.parquet(*(str(capture_file(name)) for name in names))


@pytest.fixture(
    scope="module",
    params=[
        ("pg14", "pg18"),
        pytest.param(("pg15", "pg16", "pg17"), marks=pytest.mark.exhaustive),
    ],
    ids="-".join,
)
def versions(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Give versions of PostgreSQL. Only `make test-all` uses the captures of all versions."""
    found: tuple[str, ...] = request.param
    return found
