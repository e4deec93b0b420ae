"""What must work on each supported Spark.

`make test-sparks` runs this module on the newest release of each Spark version other than that of
`make test`. `make test` leaves out the tests with the marker `other_sparks`, because there other
modules test more.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import spark_pgoutput
from spark_pgoutput import changes
from spark_pgoutput import functions as PF
from support import lake
from support import messages as m
from support.checkpoint import EXPECTED, continue_from_file
from support.comparison import compare
from support.data_files import capture, golden
from support.optimizer import CHANGES_RULE, DECODE_RULE, without_rule
from support.orders import HISTORY, in_order
from support.processes import TESTS, connect_server_in_this_jvm, run
from support.servers import small_slot
from support.streams import Stream
from support.table_changes import assert_equal, of_capture, of_one_source

CAPTURE = "pg18-v4-stream_parallel-text-2pc"

TYPES = {
    "id INT": (23, "42", 42),
    "small SMALLINT": (21, m.Binary(m.number(-7, 2)), -7),
    "name STRING": (25, "Ada", "Ada"),
    "nothing STRING": (25, None, None),
    "price DECIMAL(6,2)": (1700, "12.50", Decimal("12.50")),
    "day DATE": (1082, m.Binary(m.number(8, 4)), date(2000, 1, 9)),
    "numbers ARRAY<INT>": (1007, "{1,NULL,3}", [1, None, 3]),
    "flag BOOLEAN": (16, "t", True),
}


@pytest.fixture(scope="module", autouse=True)
def messages(spark: SparkSession) -> None:
    # In partitions, because Spark's optimizer evaluates a query of local rows itself.
    frame = m.frame(spark, capture(CAPTURE)).repartition(2)
    frame.createOrReplaceTempView("captured_messages")


@pytest.mark.other_sparks
def test_an_aggregate_function_decodes_only_what_it_uses(spark: SparkSession) -> None:
    """Spark 4.2 has a `max_by` with a number of values."""
    rows = [(1, m.begin(7, 100)), (None, b"malformed")]
    frame = spark.createDataFrame(rows, "at INT, data BINARY").coalesce(1)
    frame.createOrReplaceTempView("partly_malformed")
    d = "pgoutput_decode(data)"
    calls = [f"first({d}.{{}})", f"max_by({d}.{{}}, at)"]
    if tuple(map(int, spark.version.split(".")[:2])) >= (4, 2):
        calls.append(f"max_by({d}.{{}}, at, 1)[0]")
    for call in calls:
        query = f"SELECT {call.format('type')}, {call.format('xid')} FROM partly_malformed"
        assert spark.sql(query).collect() == [("BEGIN", 7)], call


@pytest.mark.other_sparks
def test_functions_are_registered(spark: SparkSession) -> None:
    for name in ("pgoutput_decode", "pgoutput_row", "pgoutput_schema", "pg_lsn_format"):
        assert spark.catalog.functionExists(name)


@pytest.mark.other_sparks
def test_golden_messages_are_decoded(spark: SparkSession) -> None:
    rows = [(bytearray(message.data), message.in_stream) for message in golden()]
    frame = spark.createDataFrame(rows, "data BINARY, in_stream BOOLEAN").selectExpr(
        "*",
        "pgoutput_decode(data, in_stream) AS decoded",
        "pgoutput_error(data, in_stream) AS error",
    )
    assert compare(frame) == (len(rows), len(rows), [])


@pytest.mark.other_sparks
def test_typed_rows(spark: SparkSession) -> None:
    oids, cells, values = zip(*TYPES.values(), strict=True)
    frame = m.frame(spark, [m.insert(*cells)])
    row = PF.pgoutput_row(PF.pgoutput_decode("data")["new"], ", ".join(TYPES), list(oids))
    assert frame.select(row.alias("row")).collect() == [Row(row=values)]


@pytest.mark.other_sparks
@pytest.mark.parametrize(
    ("rule", "query"),
    [
        (
            DECODE_RULE,
            """SELECT seq, d.new.kinds, get(d.new.text, 0) AS id FROM (
                 SELECT seq, pgoutput_decode(data) AS d FROM captured_messages)
               WHERE d.type IN ('INSERT', 'UPDATE')""",
        ),
        (
            DECODE_RULE,
            """SELECT seq, r.id FROM (
                 SELECT seq, try_pgoutput_row(d.new, 'id INT, k STRING', array(23L, 25L)) AS r
                 FROM (SELECT seq, pgoutput_decode(data) AS d FROM captured_messages)
                 WHERE length(d.new.kinds) = 2)""",
        ),
        (
            CHANGES_RULE,
            """SELECT _table, _ordinal, row['id'] AS id
               FROM pgoutput_changes('captured_messages', 'seq') WHERE _change_type = 'delete'""",
        ),
    ],
)
def test_a_query_gives_the_same_without_the_rule(
    spark: SparkSession, rule: str, query: str
) -> None:
    found = spark.sql(query).collect()
    with without_rule(spark, rule):
        assert sorted(spark.sql(query).collect(), key=repr) == sorted(found, key=repr)
    assert len(found) > 30


@pytest.mark.other_sparks
def test_table_changes_of_a_capture(spark: SparkSession) -> None:
    found = of_one_source(changes(spark.table("captured_messages")))
    assert_equal(found, of_capture(CAPTURE))


@pytest.mark.other_sparks
def test_a_stream_gives_what_batch_gives(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.add_messages(HISTORY)
    found = stream.run(changes(stream.messages))
    assert in_order(found, "*") == in_order(changes(m.frame(spark, HISTORY)), "*")


@pytest.mark.other_sparks
def test_spark_connect_gives_what_classic_gives(spark: SparkSession, tmp_path: Path) -> None:
    asked = ("table_changes", "table_changes_in_a_stream", "optimizer_rule", "replication_slot")
    url = connect_server_in_this_jvm(spark)
    command = [sys.executable, "-m", "support.connect_client", url, *asked]
    with small_slot() as slot:
        *_, printed = run(command, tmp_path, PYTHONPATH=TESTS, SLOT=slot)
    answers = json.loads(printed)
    classic = in_order(changes(m.frame(spark, HISTORY), table="orders"), "*")
    assert answers["table_changes"] == [str(classic)]
    assert answers["table_changes_in_a_stream"][0] == str(classic)
    assert answers["optimizer_rule"] == ["True"]
    assert answers["replication_slot"] == ["10", "10"]


@pytest.mark.parametrize(
    "source", [None, pytest.param("'one'", marks=pytest.mark.exhaustive), "name"]
)
def test_a_stream_is_sorted_after_its_last_exchange(
    spark: SparkSession, tmp_path: Path, source: str | None
) -> None:
    """The sort is by position too. A sort by source alone mixes up the positions if it spills.

    The number of partitions is that of the checkpoint, whatever the setting is at a restart.
    """
    stream = Stream(spark, tmp_path)
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert partitions
    for batch, number in enumerate([partitions, "3"]):
        table = m.relation("public.t", m.column("id", 23))
        stream.add_messages(m.transaction(batch, 10 + batch, table, m.insert("1")), 10 * batch)
        messages = stream.messages.withColumn("source", F.expr(source or "NULL"))
        found = changes(messages, source="source" if source else None)
        writer = found.writeStream.format("noop").option(
            "checkpointLocation", str(tmp_path / "own")
        )
        spark.conf.set("spark.sql.shuffle.partitions", number)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        plan = query._jsq.explainInternal(False)
        assert len(re.findall(rf"Exchange hashpartitioning\(source#\d+, {partitions}\)", plan)) == 1
        assert plan.count("Exchange") == 1
        assert plan.count("Sort [") == len(re.findall(r"Sort \[source#.*?, position#", plan)) == 1


def test_a_query_continues_from_a_checkpoint_of_spark_4_0(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = continue_from_file(spark, tmp_path)
    assert in_order(found, "_commit_version", "_xid", "_table", "row") == EXPECTED


@pytest.mark.other_sparks
def test_a_slot_is_read(spark: SparkSession, tmp_path: Path) -> None:
    with small_slot() as slot:
        options = {**json.loads(slot), "table": "t"}
        expected = list(range(1, 11))
        batch = spark.read.format("pgoutput").options(**options).load()
        assert [row.id for row in batch.orderBy("_ordinal").collect()] == expected
        found = spark.readStream.format("pgoutput").options(**options).load()
        for _ in range(2):
            writer = found.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writer.trigger(availableNow=True).start(str(tmp_path / "output"))
            query.awaitTermination()
        written = spark.read.parquet(str(tmp_path / "output")).orderBy("_ordinal")
        assert [row.id for row in written.collect()] == expected

        def error(found: DataFrame, **more: str) -> str:
            folder = str(tmp_path / f"error {len(more)}")
            writer = found.writeStream.format("noop").options(checkpointLocation=folder, **more)
            with pytest.raises(PySparkException) as caught:
                writer.start().awaitTermination()
            return str(caught.value)

        assert "twice" in error(found.union(found))
        assert "not supported" in error(found, asyncProgressTrackingEnabled="true")


@pytest.mark.other_sparks
def test_the_catalog_of_a_target_is_asked_what_it_writes(spark: SparkSession) -> None:
    """The target does not name a catalog, so it is the current one."""
    other = "spark_catalog does not say which format it writes"
    answer = "shop has no table of a job" if lake.RUNS_HERE else other
    with pytest.raises(PySparkException, match=answer):
        spark_pgoutput.resync(spark, target="shop", all=True)
