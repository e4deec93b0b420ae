"""Messages of slots go through a broker of Kafka, and their changes come out once."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import spark_pgoutput
from support.documentation import DOCS, Reader, blocks, matches, statements
from support.kafka import Broker, broker, needs_kafka, send, sending
from support.processes import TIMEOUT, errors_of
from support.servers import Server, wait_until

pytestmark = [needs_kafka, pytest.mark.infra]

# Each table has a slot, whose messages go into a partition.
SLOTS = {"orders": 0, "customers": 1}

SCHEMA = "id INT, v STRING"

# So many that sending them takes longer than killing the sender.
ROWS = 100_000


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        for table in SLOTS:
            server.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)")
            server.execute(f"CREATE PUBLICATION {table} FOR TABLE {table}")
            server.create_slot(table)
        yield server


class Topic:
    """A topic that gets the messages of slots.

    Parameters
    ----------
    name : str
        The name of the topic.
    folder : Path
        The folder of the checkpoints and of what the streams write.
    """

    def __init__(
        self, name: str, spark: SparkSession, server: Server, kafka: Broker, folder: Path
    ) -> None:
        self._spark, self._server, self._kafka, self._name = spark, server, kafka, name
        self.folder = folder

    def sending(self, table: str) -> dict[str, Any]:
        """Return the arguments of `send` for the slot of a table."""
        return {
            "source": {**self._server.account, "slot": table, "publication": table},
            "address": self._kafka.address,
            "topic": self._name,
            "partition": SLOTS[table],
            "checkpoint": str(self.folder / f"{table}-checkpoint"),
        }

    def send(self, *tables: str) -> None:
        for table in tables:
            send(self._spark, **self.sending(table))

    def records(self, stream: bool = False) -> DataFrame:
        reader = self._spark.readStream if stream else self._spark.read
        options = {"kafka.bootstrap.servers": self._kafka.address, "subscribe": self._name}
        if stream:
            options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "50000"}
        return reader.format("kafka").options(**options).load()

    def read(self) -> DataFrame:
        """Read the changes of all records."""
        found = spark_pgoutput.changes(messages(self.records()), source="partition")
        return found.selectExpr("_table", "_change_type", "CAST(row['id'] AS INT) AS id")

    def stream(self) -> DataFrame:
        """Read the changes by a stream, which continues where the previous call ended."""
        found = spark_pgoutput.changes(
            messages(self.records(stream=True)),
            source="partition",
            tables=[f"public.{table}" for table in SLOTS],
            schema=SCHEMA,
        )
        query = (
            found.writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.folder / "changes"))
        )
        query.awaitTermination()
        written = self._spark.read.schema(found.schema).parquet(str(self.folder / "changes"))
        return written.select("_table", "_change_type", "id")


def messages(records: DataFrame) -> DataFrame:
    """Return the messages of records, as docs/kafka.md does."""
    return records.where("value IS NOT NULL").selectExpr(
        "partition", "offset AS seq", "value AS data"
    )


def rows(found: DataFrame) -> list[Row]:
    return sorted(found.collect())


def test_slots_in_partitions_of_a_topic_give_their_changes_once(
    spark: SparkSession, server: Server, kafka: Broker, tmp_path: Path
) -> None:
    topic = Topic("slots", spark, server, kafka, tmp_path)
    expected: list[tuple[str, str, int]] = []
    for first in (1, 11):
        for table in SLOTS:
            server.execute(f"INSERT INTO {table} VALUES ({first}, 'new'), ({first + 1}, 'new')")
            server.execute(f"UPDATE {table} SET v = 'old' WHERE id = {first}")
            server.execute(f"DELETE FROM {table} WHERE id = {first + 1}")
            changes = [("insert", 0), ("insert", 1), ("update_postimage", 0), ("delete", 1)]
            expected += [(f"public.{table}", kind, first + more) for kind, more in changes]
        topic.send(*SLOTS)
        assert rows(topic.stream()) == sorted(expected)
    assert rows(topic.read()) == sorted(expected)


def test_a_record_without_a_value_is_refused_unless_it_is_filtered(
    spark: SparkSession, server: Server, kafka: Broker, tmp_path: Path
) -> None:
    topic = Topic("tombstones", spark, server, kafka, tmp_path)
    server.execute("INSERT INTO orders VALUES (1, 'new')")
    topic.send("orders")
    tombstone = spark.sql("SELECT CAST(NULL AS BINARY) AS value, 0 AS partition")
    options = {"kafka.bootstrap.servers": kafka.address, "topic": "tombstones"}
    tombstone.write.format("kafka").options(**options).save()
    server.execute("INSERT INTO orders VALUES (2, 'new')")
    topic.send("orders")

    expected = [("public.orders", "insert", 1), ("public.orders", "insert", 2)]
    assert rows(topic.read()) == expected
    assert rows(topic.stream()) == expected
    unfiltered = topic.records().selectExpr("partition", "offset AS seq", "value AS data")
    with pytest.raises(PySparkException, match="NULL"):
        spark_pgoutput.changes(unfiltered, source="partition").collect()


def test_messages_that_are_sent_again_after_a_kill_count_once(
    spark: SparkSession, server: Server, kafka: Broker, tmp_path: Path
) -> None:
    topic = Topic("again", spark, server, kafka, tmp_path)
    server.execute(f"INSERT INTO orders SELECT g, 'new' FROM generate_series(1, {ROWS}) g")
    with sending(tmp_path / "sender", **topic.sending("orders")) as process:

        def is_begun() -> bool:
            assert process.poll() is None, errors_of(tmp_path / "sender")[-3000:]
            return kafka.size("again") > 0

        wait_until(is_begun, 3 * TIMEOUT, 0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    begun = topic.records().count()
    assert 0 < begun < ROWS
    partly = topic.stream().count()

    topic.send("orders")
    assert topic.records().count() > begun + ROWS
    assert partly == 0
    for found in (topic.read(), topic.stream()):
        (counts,) = found.selectExpr("count(*)", "count(DISTINCT id)", "max(id)").collect()
        assert tuple(counts) == (ROWS, ROWS, ROWS)


def test_code_for_kafka_prints_what_the_page_shows(
    spark: SparkSession, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [DOCS / "messages.md", DOCS / "kafka.md"]
    with Server() as server:
        monkeypatch.setenv("PGPASSWORD", server.password)
        replacements = {
            "localhost:5432/shop": f"{server.host}:{server.port}/{server.database}",
            "localhost:9092": kafka.address,
            "/data/": f"{tmp_path}/",
        }

        def execute(code: str) -> None:
            for statement in statements(code):
                server.execute(statement)

        reader = Reader(spark, replacements, execute)
        ran = 0
        for block in itertools.chain.from_iterable(map(blocks, pages)):
            if block.language == "postgresql" or "kafka" in block.text:
                printed = reader.run(block)
                assert matches(block.output or "", printed), f"{block.place}: {printed}"
                ran += "kafka" in block.text
    assert ran == 3
