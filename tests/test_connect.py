"""Spark Connect: serves the functions, and gives what Classic gives, its errors included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput import changes
from support import messages as m
from support.orders import HISTORY, in_order
from support.processes import ANSWER, CONNECT, PRELUDE, connect_server, run_python
from support.streams import PROVIDER, ROCKS_DB

SERVER_WITHOUT_JAR = (
    "The Spark Connect server does not have spark-pgoutput's functions, and a client cannot add "
    "them. Start the server with --jars spark-pgoutput.jar and connect again; `spark-pgoutput "
    "jar-path` prints the path of this file."
)

# With pyspark-client, which has no JVM, PySpark says of itself what this makes it say.
CLIENTS = [
    pytest.param({}, id="pyspark"),
    pytest.param({"SPARK_SKIP_CONNECT_COMPAT_TESTS": "1"}, id="pyspark-client"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server that has the functions."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        PROVIDER: ROCKS_DB,
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    folder = tmp_path_factory.mktemp("server")
    with connect_server(folder, "--jars", spark_pgoutput.jar_path(), *options) as url:
        yield url


def client(url: str, script: str, folder: Path, **environment: str) -> list[str]:
    """What a script prints that has a session of the server, as `spark`."""
    return run_python(
        PRELUDE + CONNECT.format(url=url) + script,
        folder,
        PYTHONPATH=str(Path(__file__).parent),
        **environment,
    )


@pytest.mark.parametrize("environment", CLIENTS)
def test_functions(tmp_path: Path, url: str, environment: dict[str, str]) -> None:
    """In SQL and in Python; errors are told apart by their condition."""
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
    assert client(url, script, tmp_path, **environment) == [
        ANSWER,
        "STREAM_STOP None None 0/45 69 69",
        "True",
        "IllegalArgumentException PGOUTPUT_MALFORMED_MESSAGE 08P01",
    ]


def test_server_without_jar(tmp_path: Path) -> None:
    with connect_server(tmp_path) as url:
        script = CONNECT + 'attempt(spark_pgoutput.functions.pgoutput_decode, "m")'
        output = run_python(PRELUDE + script.format(url=url), tmp_path)
    assert output == [SERVER_WITHOUT_JAR] * 2


def test_typed_rows(tmp_path: Path, url: str) -> None:
    message = m.insert("42", m.Binary(m.number(7, 4))).hex()
    relation = m.relation("r.r", m.column("id", m.INT8, key=True)).hex()
    script = f"""
from spark_pgoutput import functions as PF
frame = spark.sql("SELECT pgoutput_decode(X'{message}').new AS t, "
    "pgoutput_decode(X'{relation}').relation AS r")
schema = spark_pgoutput.schema_of(frame.first().r)
print(schema.simpleString(), schema["id"].metadata)
print(*frame.select(
    PF.pgoutput_row("t", "a INT, b BIGINT", [20, 23]),
    PF.try_pgoutput_row("t", schema.add("b", "date"), [None, 1082]),
    PF.pgoutput_schema("r"),
).first())
"""
    assert client(url, script, tmp_path) == [
        "struct<id:bigint> {'comment': 'int8'}",
        "Row(a=42, b=7) Row(id=42, b=datetime.date(2000, 1, 8)) id BIGINT COMMENT 'int8'",
    ]


def test_table_changes(tmp_path: Path, url: str, spark: SparkSession) -> None:
    script = """
from spark_pgoutput import changes, open_transactions
from support import messages as m
from support.orders import HISTORY, ORDERS, in_order
history = m.frame(spark, HISTORY)
found = changes(history, table="orders")
print(in_order(found, "*"))
print(in_order(changes(history, source="seq", options={"incomplete": "skip"}), "*"))
print(in_order(changes(history, options={"after": 20, "mode": None}), "_xid"))
joined = found.join(found, ["_commit_version", "_ordinal"])
print(joined.count(), found.union(found).count(), len(spark.catalog.listTables()))
merged = changes(history, table="orders", options={"schemaEvolution": "merge"})
print(merged.columns == found.columns, open_transactions(history.where("seq < 2")).collect())
try:
    changes(m.frame(spark, m.transaction(1, 10, m.insert("1")))).collect()
except Exception as error:
    print(type(error).__name__, error.getCondition(), error.getSqlState())
"""
    history = m.frame(spark, HISTORY)
    assert client(url, script, tmp_path) == [
        repr(in_order(changes(history, table="orders"), "*")),
        "[]",
        "[(3,), (3,)]",
        "8 16 0",
        "True [Row(_xid=1, _gid=None, state='begun', first_position=0, changes=0)]",
        "IllegalArgumentException PGOUTPUT_UNKNOWN_RELATION 08P01",
    ]


def test_table_changes_in_a_stream(tmp_path: Path, url: str, spark: SparkSession) -> None:
    """Those of Classic in batch."""
    script = """
from pathlib import Path
from spark_pgoutput import changes
from support.orders import HISTORY, in_order
from support.streams import Stream, error_of
stream = Stream(spark, Path.cwd())
for start in range(0, len(HISTORY), 6):
    stream.add_messages(HISTORY[start : start + 6], start)
found = changes(stream.messages, tables="orders", schema="id BIGINT, note STRING")
print(in_order(stream.run(found), "*"))
stream.add_messages([b"E"])
print("PGOUTPUT_MESSAGE_ORDER" in error_of(stream, found))
"""
    expected = changes(m.frame(spark, HISTORY), table="orders")
    assert client(url, script, tmp_path) == [repr(in_order(expected, "*")), "True"]
