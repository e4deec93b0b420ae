"""A stream of a slot has every change once and in order, whatever is killed."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from support.pooler import proxy
from support.postgres_binaries import NEWEST, VERSIONS
from support.replication import ReplicationSession
from support.servers import Server, wait_until
from support.slot_history import SLOT, prepare
from support.slot_kills import (
    KILLS,
    end_reading_walsender,
    end_walsender,
    reading_walsender,
    walsender,
)
from support.slot_points import POINTS, Progress, kill_at
from support.slot_proof import SMALL_BATCHES, proven
from support.slot_stream import SlotStream

pytestmark = pytest.mark.slot

CLUSTER = "local-cluster[2,1,512]"
CLUSTER_SETTINGS = {"spark.executor.memory": "512m"}


@contextmanager
def taken_slot(server: Server) -> Iterator[int]:
    """Read the slot as another client as soon as it is free. Give the process of the walsender."""
    while True:
        try:
            session = ReplicationSession(
                server.conninfo, SLOT, {"proto_version": "1", "publication_names": "shop"}
            )
        except psycopg.OperationalError:
            continue
        with session:
            yield session.server_process
        return


@pytest.mark.parametrize("version", VERSIONS)
def test_driver_is_killed_again_and_again(tmp_path: Path, version: int) -> None:
    dice = random.Random(f"driver {version}")
    with proven(tmp_path, version, options=SMALL_BATCHES, seed="driver") as (_, stream):
        for _ in range(4):
            with stream.running() as process:
                process.wait_for_batches(dice.randint(1, 5))
                time.sleep(dice.random() / 2)
                process.kill()


@pytest.mark.parametrize("version", VERSIONS)
def test_driver_is_killed_between_two_steps(tmp_path: Path, version: int) -> None:
    with proven(tmp_path, version, options=SMALL_BATCHES, seed="steps") as (_, stream):
        for point in POINTS:
            with stream.running() as process:
                kill_at(process, stream, point)


@pytest.mark.parametrize("version", VERSIONS)
def test_server_ends_in_each_way(tmp_path: Path, version: int) -> None:
    """The query survives, or it fails and the next one goes on."""
    kills = [*KILLS, *KILLS]
    with proven(tmp_path, version, options=SMALL_BATCHES, seed="server") as (server, stream):
        while kills:
            with stream.running() as process:
                survives = True
                while kills and survives:
                    process.wait_for_batches(2)
                    kill = kills.pop()
                    kill(server)
                    survives = process.survives()
                    assert survives or kill is not end_walsender


@pytest.mark.parametrize("version", VERSIONS)
def test_session_is_ended_while_a_task_reads(tmp_path: Path, version: int) -> None:
    """The task goes on with another session, also if the server had more than a queue to send."""
    rows = "SELECT 9, i, repeat('x', 1000) FROM generate_series"
    options = {"maxBytesPerTrigger": "1m"}
    with (
        proven(tmp_path, version, options=options, seed="reading", pause=2) as (server, stream),
        stream.running(milliseconds_a_row=1) as process,
    ):
        process.wait_for_batches(1)
        for _ in range(5):
            server.execute(f"INSERT INTO journal {rows}(1, 3000) AS i")
            end_reading_walsender(server)
            process.wait_for_batches(1)
        server.execute(f"INSERT INTO journal {rows}(1, 30000) AS i")
        time.sleep(2)  # the queue is full
        end_reading_walsender(server)
        assert process.survives(2)


def test_messages_go_on_where_a_session_was_ended(spark: SparkSession, tmp_path: Path) -> None:
    """Each message has the same ordinal as if no session had ended."""
    with Server() as server:
        prepare(server)
        with server.connect() as writer, writer.transaction():
            for number in range(3):
                writer.execute(f"ALTER TABLE journal ADD c{number} int".encode())
                writer.execute(
                    b"INSERT INTO journal SELECT 9, i, repeat('x', 1000) "
                    b"FROM generate_series(1, 10000) AS i"
                )
        options = SlotStream(tmp_path, server).options
        expected = messages(spark, options)
        query = slow_query(spark, options, tmp_path)
        for _ in range(3):
            time.sleep(1)
            end_reading_walsender(server)
        assert query.isActive
        query.awaitTermination()
        assert written(spark, tmp_path) == expected


def test_a_session_that_reads_something_else_is_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The task must not go on with messages that do not follow those that it has returned."""
    is_ended = threading.Event()

    def answers(sent: bytes) -> bytes:
        return sent.replace(b"x" * 10, b"y" * 10) if is_ended.is_set() else sent

    with Server() as server, proxy(server.port, answers=answers) as port:
        prepare(server)
        rows = "SELECT 9, i, repeat('x', 1000) FROM generate_series(1, 30000) AS i"
        server.execute(f"INSERT INTO journal {rows}")
        options = SlotStream(tmp_path, server).options
        expected = messages(spark, options)
        through = options["url"].replace(f":{server.port}/", f":{port}/")
        query = slow_query(spark, {**options, "url": through}, tmp_path)
        time.sleep(3)  # the task has returned some messages
        is_ended.set()
        end_reading_walsender(server)
        with pytest.raises(StreamingQueryException, match="PGOUTPUT_CONNECTION"):
            query.awaitTermination()
        slow_query(spark, options, tmp_path).awaitTermination()
        assert written(spark, tmp_path) == expected


def test_a_lost_session_that_the_server_still_serves_is_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Only the client hears of the end of the connection, and the server sets it no time limit."""
    breaks, is_over = threading.Event(), threading.Event()

    def answers(sent: bytes) -> bytes:
        if breaks.is_set() and b"x" * 10 in sent:
            breaks.clear()
            raise ConnectionError
        return sent

    with (
        Server(settings={"wal_sender_timeout": "0"}) as server,
        proxy(server.port, answers=answers, gone=is_over.wait) as port,
    ):
        prepare(server)
        rows = "SELECT 9, i, repeat('x', 1000) FROM generate_series(1, 60000) AS i"
        server.execute(f"INSERT INTO journal {rows}")
        options = SlotStream(tmp_path, server).options
        expected = messages(spark, options)
        through = options["url"].replace(f":{server.port}/", f":{port}/")
        query = slow_query(spark, {**options, "url": through}, tmp_path)
        try:
            lost = reading_walsender(server)
            breaks.set()
            wait_until(lambda: walsender(server) != lost, timeout=60)
            assert not breaks.is_set()
            assert query.awaitTermination(60)
            assert written(spark, tmp_path) == expected
        finally:
            is_over.set()
            query.stop()


def test_a_message_takes_longer_than_the_timeout_of_the_server(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The client cannot answer the server before the message is whole."""

    def slowly(sent: bytes) -> bytes:
        if b"x" * 1000 in sent:
            time.sleep(0.01)
        return sent

    settings = {"wal_sender_timeout": "1s"}
    with Server(settings=settings) as server, proxy(server.port, answers=slowly) as port:
        prepare(server)
        server.execute("INSERT INTO journal VALUES (9, 1, repeat('x', 25000000))")
        options = SlotStream(tmp_path, server).options
        expected = messages(spark, options)
        options["url"] = options["url"].replace(f":{server.port}/", f":{port}/")
        assert messages(spark, options) == expected
        query = slow_query(spark, options, tmp_path)
        assert query.awaitTermination(120)
        assert written(spark, tmp_path) == expected


def messages(spark: SparkSession, options: Mapping[str, str]) -> list[Row]:
    """Return the messages that a batch read gives."""
    reader = spark.read.format("pgoutput").options(**options, output="messages")
    return reader.load().collect()


def slow_query(spark: SparkSession, options: Mapping[str, str], folder: Path) -> StreamingQuery:
    """Start a stream of messages, which takes seconds for some thousands of them."""
    sleep = "java_method('java.lang.Thread', 'sleep', IF(ordinal % 1000 = 0, 200L, 0L))"
    reader = spark.readStream.format("pgoutput").options(**options, output="messages")
    writer = reader.load().where(f"{sleep} IS NOT NULL").writeStream
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(availableNow=True).start(str(folder / "messages"))


def written(spark: SparkSession, folder: Path) -> list[Row]:
    """Return the messages that the queries of `slow_query` have written."""
    return spark.read.parquet(str(folder / "messages")).orderBy("lsn", "ordinal").collect()


def test_another_client_takes_the_slot(tmp_path: Path) -> None:
    """The task waits a minute for the slot."""
    settings = {"wal_sender_timeout": "0"}  # the other client is silent for more than a minute
    with (
        proven(tmp_path, settings=settings, seed="taken", pause=2) as (server, stream),
        stream.running(milliseconds_a_row=1) as process,
    ):
        process.wait_for_batches(1)
        server.execute("INSERT INTO journal SELECT 9, i FROM generate_series(1, 20000) AS i")
        end_reading_walsender(server)
        began = time.monotonic()
        with taken_slot(server) as pid:
            outcome = process.outcome()
        assert "PGOUTPUT_SLOT_IN_USE" in outcome
        assert str(pid) in outcome
        assert time.monotonic() - began > 55


@pytest.mark.parametrize("version", [VERSIONS[0], NEWEST])
def test_executor_is_killed(tmp_path: Path, version: int) -> None:
    with (
        proven(tmp_path, version, options=SMALL_BATCHES, seed="executor") as (_, stream),
        stream.running(master=CLUSTER, settings=CLUSTER_SETTINGS) as process,
    ):
        for _ in range(3):
            process.wait_for_batches(3)
            for executor in process.executors():
                executor.kill()
                process.wait_for_batches(2)


@pytest.mark.parametrize("version", VERSIONS)
def test_client_is_suspended(tmp_path: Path, version: int) -> None:
    """The server ends the session of the client, which then goes on where it was."""
    settings = {"wal_sender_timeout": "1s"}
    with (
        proven(tmp_path, version, settings=settings, seed="suspended") as (_, stream),
        stream.running() as process,
    ):
        process.wait_for_batches(3)
        process.suspend()
        time.sleep(4)
        process.resume()
        assert process.survives()


@pytest.mark.parametrize("version", [VERSIONS[0], NEWEST])
def test_sink_is_slower_than_the_timeout_of_the_server(tmp_path: Path, version: int) -> None:
    """The source keeps the connection alive while the sink sleeps in the middle of a batch."""
    settings = {"wal_sender_timeout": "1s"}
    with (
        proven(tmp_path, version, settings=settings, seed="slow") as (server, stream),
        stream.running(milliseconds_a_row=20) as process,
    ):
        process.wait_until(lambda: Progress(stream, process).planned >= 0)
        first = walsender(server)
        for _ in range(20):
            time.sleep(0.5)
            assert walsender(server) == first
        assert process.survives(batches=0)


@pytest.mark.parametrize("version", VERSIONS)
def test_fast_shutdown_does_not_wait_for_a_sleeping_sink(tmp_path: Path, version: int) -> None:
    with proven(tmp_path, version, seed="shutdown") as (server, stream):
        with stream.running(milliseconds_a_row=1000) as process:
            process.wait_until(lambda: Progress(stream, process).planned >= 0)
            insert = "INSERT INTO journal SELECT 9, i, repeat('x', 1000) FROM generate_series"
            server.execute(f"{insert}(1, 50000) AS i")
            time.sleep(1)
            began = time.monotonic()
            server.stop_fast()
            assert time.monotonic() - began < 40  # the session asks every 20 seconds
        server.start_again()


def test_speculative_tasks_change_nothing(tmp_path: Path) -> None:
    settings = {
        **CLUSTER_SETTINGS,
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.task.duration.threshold": "500ms",
    }
    with (
        proven(tmp_path, options=SMALL_BATCHES, seed="speculation") as (_, stream),
        stream.running(master=CLUSTER, settings=settings, milliseconds_a_row=20) as process,
    ):
        process.wait_for_batches(4)


@pytest.mark.parametrize("version", [VERSIONS[0], NEWEST])
def test_batches_end_in_the_middle_of_records(tmp_path: Path, version: int) -> None:
    options = {"maxBytesPerTrigger": "300", "idleInterval": "10ms"}
    with (
        proven(tmp_path, version, options=options, seed="split", pause=0.5) as (_, stream),
        stream.running() as process,
    ):
        process.wait_for_batches(60)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_older_checkpoint_is_refused(tmp_path: Path, version: int) -> None:
    """The slot has moved past it, so changes that follow the checkpoint are lost."""
    older = tmp_path / "older"
    with proven(tmp_path, version, seed="yesterday") as (_, stream):
        time.sleep(1)
        assert stream.run() == "ended"
        shutil.copytree(stream.checkpoint, older)
        early = stream.batches()
        time.sleep(1)
        assert stream.run() == "ended"
        late = stream.batches()
        newest, stream.checkpoint = stream.checkpoint, older
        assert "PGOUTPUT_SLOT_MOVED" in stream.run()
        assert stream.batches() == late != early
        stream.checkpoint = newest
