"""What a user sees of `format("pgoutput")`: rows, plans, settings of a stream, and errors."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_pgoutput import changes
from support.lsn import parsed_lsn
from support.optimizer import without_rule
from support.secrets import MARKER, texts_of_files
from support.servers import Server, server_fixture, wait_until

SLOT, PUBLICATION = "2_lakes", "shop"
IGNORE = {"schemaEvolution": "ignore"}
CHANGES = ["_change_type", "id", "note", "_commit_version", "_ordinal"]

DEFINITIONS = (
    "CREATE TABLE orders (id int PRIMARY KEY, note text); CREATE TABLE other (id int);"
    f"CREATE PUBLICATION {PUBLICATION} FOR TABLE orders;"
    f"CREATE ROLE reader LOGIN REPLICATION PASSWORD '{MARKER}'"
)

server = server_fixture(DEFINITIONS, scope="module")


@pytest.fixture
def slot(spark: SparkSession, server: Server) -> Iterator[str]:
    server.execute("TRUNCATE orders")
    server.create_slot(SLOT)
    yield SLOT
    for query in spark.streams.active:  # a query of a failed test would keep the slot
        query.stop()
    server.drop_slot(SLOT)


def options(server: Server, **more: str) -> dict[str, str]:
    url = f"{server.jdbc_url}?loginTimeout=20&sslpassword={MARKER}"
    account = {"user": "reader", "password": MARKER}
    return {"url": url, **account, "slot": SLOT, "publication": PUBLICATION, **more}


def batch(spark: SparkSession, server: Server, **more: str) -> DataFrame:
    return spark.read.format("pgoutput").options(**options(server, **more)).load()


def stream(spark: SparkSession, server: Server, **more: str) -> DataFrame:
    return spark.readStream.format("pgoutput").options(**options(server, **more)).load()


def started(found: DataFrame, folder: Path, available_now: bool = False) -> StreamingQuery:
    writer = found.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    if available_now:
        writer = writer.trigger(availableNow=True)
    return writer.start(str(folder / "output"))


def written(spark: SparkSession, folder: Path) -> list[Row]:
    return (
        spark.read.parquet(str(folder / "output")).orderBy("_commit_version", "_ordinal").collect()
    )


def walsender(server: Server) -> int | None:
    pid: int | None = server.value(
        f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
    )
    return pid


def insert(server: Server, *ids: int) -> None:
    for number in ids:
        server.execute(f"INSERT INTO orders (id, note) VALUES ({number}, 'note {number}')")


def error_of(query: StreamingQuery) -> str:
    with pytest.raises(PySparkException) as caught:
        query.awaitTermination(60)
    return str(caught.value)


def test_batch_stream_and_archive_give_the_same(
    spark: SparkSession, server: Server, slot: str, tmp_path: Path
) -> None:
    insert(server, 1, 2, 3)
    server.execute("UPDATE orders SET note = 'changed' WHERE id < 3")
    server.execute("DELETE FROM orders WHERE id = 1; TRUNCATE orders")
    before = server.confirmed(SLOT)
    typed = batch(spark, server, table="orders").orderBy("_commit_version", "_ordinal")
    rows = typed.collect()
    assert [row._change_type for row in rows] == [
        *["insert"] * 3,
        *["update_postimage"] * 2,
        "delete",
        "truncate",
    ]
    assert [row.id for row in rows] == [1, 2, 3, 1, 2, 1, None]

    # As a map of texts, and from an archive of the messages.
    maps = batch(spark, server).select(
        "_change_type",
        F.col("row.id").cast("int").alias("id"),
        F.col("row.note").alias("note"),
        "_commit_version",
        "_ordinal",
    )
    assert sorted(maps.collect()) == sorted(typed.select(CHANGES).collect())
    messages = batch(spark, server, output="messages")
    archive = messages.selectExpr("row_number() OVER (ORDER BY lsn, ordinal) AS seq", "data")
    schema = "id INT, note STRING"
    again = changes(archive, tables="orders", schema=schema).select(CHANGES)
    assert sorted(again.collect()) == sorted(typed.select(CHANGES).collect())
    assert server.confirmed(SLOT) == before  # a batch read leaves the slot as it is

    # In a stream whose batches end in the middle of records, and that stops and starts again.
    small = stream(spark, server, table="orders", maxBytesPerTrigger="2k")
    query = started(small, tmp_path)
    wait_until(lambda: len(query.recentProgress) > 1)
    query.stop()
    query = started(small, tmp_path, available_now=True)
    query.awaitTermination()
    assert written(spark, tmp_path) == rows
    # The stream confirms to the server all that is committed, and ends the session.
    done = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    *_, end = (tmp_path / "checkpoint" / "offsets" / str(done)).read_text().splitlines()
    assert server.confirmed(SLOT) == parsed_lsn(json.loads(end)["lsn"])
    assert walsender(server) is None


def test_a_stream_that_runs_once_reads_what_sessions_have_committed_without_a_wait(
    spark: SparkSession, server: Server, slot: str, tmp_path: Path
) -> None:
    """The flushed end of the WAL is at a page boundary, which can be inside of a record."""
    page = int(server.value("SELECT current_setting('wal_block_size')"))
    server.configure(wal_writer_delay="5s", wal_writer_flush_after="1")
    try:
        with server.connect() as connection:
            connection.execute("SET synchronous_commit = off")
            numbers = itertools.count(1)

            def ends_at_a_page() -> bool:
                for number in itertools.islice(numbers, 20):  # more than a page
                    connection.execute("INSERT INTO orders VALUES (%s, repeat('x', 500))", [number])
                return server.wal_end() % page == 0

            wait_until(ends_at_a_page)
            inserted = next(numbers) - 1
        writer = stream(spark, server, table="orders").writeStream.trigger(once=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.start(str(tmp_path / "output")).awaitTermination()
    finally:
        server.configure(wal_writer_delay="200ms", wal_writer_flush_after="1MB")
    assert [row.id for row in written(spark, tmp_path)] == [*range(1, inserted + 1)]


def test_each_action_reads_what_the_slot_has_at_that_time(
    spark: SparkSession, server: Server, slot: str
) -> None:
    """Spark plans a DataFrame once, for all actions on it."""
    insert(server, 1)
    found = batch(spark, server, table="orders")
    assert [row.id for row in found.collect()] == [1]
    insert(server, 2)
    assert sorted(row.id for row in found.collect()) == [1, 2]
    server.execute(f"SELECT pg_replication_slot_advance('{SLOT}', pg_current_wal_lsn())")
    insert(server, 3)
    assert [row.id for row in found.collect()] == [3]


def test_a_column_with_the_name_of_one_that_all_changes_have_is_an_error(
    spark: SparkSession, server: Server, slot: str
) -> None:
    server.execute('ALTER TABLE orders ADD "_XID" bigint')
    try:
        for read in (batch, stream):
            with pytest.raises(PySparkException, match=r"public\.orders has a column '_XID'"):
                read(spark, server, table="orders")
        assert "row" in batch(spark, server, tables="orders").columns
    finally:
        server.execute('ALTER TABLE orders DROP "_XID"')


def test_the_session_stays_open_from_batch_to_batch(
    spark: SparkSession, server: Server, slot: str, tmp_path: Path
) -> None:
    query = started(stream(spark, server, idleInterval="50ms"), tmp_path)
    insert(server, 1)
    wait_until(lambda: walsender(server) is not None)
    session = walsender(server)
    before = server.confirmed(SLOT)
    for number in range(2, 6):
        insert(server, number)
        time.sleep(0.2)
    # A batch read beside the stream gives what the stream has not confirmed yet.
    unconfirmed = [row.id for row in batch(spark, server).select("row.id").collect()]
    assert unconfirmed == ["1", "2", "3", "4", "5"][5 - len(unconfirmed) :]
    wait_until(lambda: len(written(spark, tmp_path)) == 5)
    # WAL that has no published change moves the slot too.
    server.execute("INSERT INTO other SELECT generate_series(1, 1000)")
    unpublished = int(server.value("SELECT pg_current_wal_lsn() - '0/0'"))

    def moves(least: int) -> bool:
        server.execute("INSERT INTO other VALUES (1)")
        return server.confirmed(SLOT) >= least

    wait_until(lambda: moves(before + 1))
    wait_until(lambda: moves(unpublished))
    assert walsender(server) == session
    assert query.lastProgress
    metrics = query.lastProgress["sources"][0]["metrics"]
    assert metrics.keys() >= {
        "bytesBehindLatest",
        "secondsBehindLatest",
        "confirmedFlushLsn",
        "restartLsn",
        "retainedWalBytes",
        "walStatus",
    }
    begin = time.monotonic()
    query.stop()
    assert time.monotonic() - begin < 10
    wait_until(lambda: walsender(server) is None)  # the server may end it a moment later


def test_a_batch_read_converts_only_the_columns_that_a_query_needs(
    spark: SparkSession, server: Server, slot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    insert(server, 100_000)
    wrong = batch(spark, server, tables="orders", schema="id SMALLINT, note STRING")
    assert wrong.select("note", "_change_type").collect() == [
        Row(note="note 100000", _change_type="insert")
    ]
    with pytest.raises(PySparkException, match="PGOUTPUT_INVALID_VALUE"):
        wrong.select("id").collect()
    assert batch(spark, server, output="messages").select("ordinal").count() == 4
    wrong.explain("extended")
    explained = capsys.readouterr().out
    assert "BatchScan" in explained
    assert MARKER not in explained


def test_a_stream_converts_only_the_columns_that_a_query_needs(
    spark: SparkSession, server: Server, slot: str, tmp_path: Path
) -> None:
    insert(server, 1, 100_000)
    wrong = stream(spark, server, tables="orders", schema="id SMALLINT, note STRING")
    needed = wrong.where("_change_type = 'insert'").select("note", "_commit_version", "_ordinal")
    query = started(needed, tmp_path / "narrow", available_now=True)
    query.awaitTermination()
    assert [row.note for row in written(spark, tmp_path / "narrow")] == ["note 1", "note 100000"]
    assert sum(progress.numInputRows for progress in query.recentProgress) == 2
    insert(server, 100_001)  # what was read is confirmed
    assert "PGOUTPUT_INVALID_VALUE" in error_of(started(wrong, tmp_path / "all"))
    with without_rule(spark, "io.sparkpgoutput.source.sql.PruneSlotStream"):
        assert "PGOUTPUT_INVALID_VALUE" in error_of(started(needed, tmp_path / "without"))


def test_a_query_reads_two_servers_whose_slots_have_the_same_name(
    spark: SparkSession, server: Server, slot: str, tmp_path: Path
) -> None:
    def shard(of: Server) -> DataFrame:
        return stream(spark, of, url=f"jdbc:postgresql:///postgres?host=127.0.0.1&port={of.port}")

    with Server() as other:
        other.execute(DEFINITIONS)
        other.create_slot(SLOT)
        insert(server, 1)
        insert(other, 2)
        query = started(shard(server).union(shard(other)), tmp_path, available_now=True)
        assert query.awaitTermination(60)
        assert sorted(row.row["id"] for row in written(spark, tmp_path)) == ["1", "2"]


def test_what_a_slot_cannot_do_is_an_error(
    spark: SparkSession, server: Server, slot: str, tmp_path: Path
) -> None:
    found = stream(spark, server)
    twice = started(found.union(found), tmp_path / "union")
    assert "foreachBatch" in error_of(twice)
    loaded_twice = found.join(stream(spark, server).alias("other"), "_xid")
    assert "PGOUTPUT_SLOT_IN_USE" in error_of(started(loaded_twice, tmp_path / "join"))

    writer = found.writeStream.format("noop").option("asyncProgressTrackingEnabled", True)
    query = writer.option("checkpointLocation", str(tmp_path / "asynchronous")).start()
    assert "Asynchronous progress tracking is not supported" in error_of(query)

    with pytest.raises(PySparkException, match="does not support user-specified schema"):
        spark.read.schema("id INT").format("pgoutput").options(**options(server)).load()


def test_a_checkpoint_keeps_the_columns(
    spark: SparkSession, server: Server, slot: str, tmp_path: Path
) -> None:
    insert(server, 1)
    started(stream(spark, server, table="orders"), tmp_path, available_now=True).awaitTermination()
    try:
        server.execute("ALTER TABLE orders ADD price int")
        changed = started(stream(spark, server, table="orders"), tmp_path, available_now=True)
        error = error_of(changed)
        assert "PGOUTPUT_SCHEMA_CHANGED" in error
        assert "set 'schemaEvolution' to 'ignore'" in error
        assert "price" in error
        # The way out that the error proposes.
        kept = stream(spark, server, tables="orders", schema="id INT, note STRING", **IGNORE)
        insert(server, 2)
        started(kept, tmp_path, available_now=True).awaitTermination()
        assert [row.id for row in written(spark, tmp_path)] == [1, 2]
    finally:
        server.execute("ALTER TABLE orders DROP price")


def test_no_password_shows(
    spark: SparkSession,
    server: Server,
    slot: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    insert(server, 1)
    query = started(stream(spark, server), tmp_path, available_now=True)
    query.awaitTermination()
    shown = [query._jsq.explainInternal(True), str(query.recentProgress), batch(spark, server)]
    shown += texts_of_files(tmp_path).values()
    for wrong in ({"slot": "missing"}, {"publication": "missing"}, {"password": MARKER + "!"}):
        with pytest.raises(PySparkException) as caught:
            batch(spark, server, **wrong).collect()
        shown.append(str(caught.value))
    with pytest.raises(IllegalArgumentException) as refused:
        batch(spark, server, unknown=MARKER[:3])
    shown.append(str(refused.value))
    output = capfd.readouterr()
    assert MARKER not in "".join(map(str, [*shown, output.out, output.err]))
