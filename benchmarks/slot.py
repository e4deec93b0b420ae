"""Measure how fast `format("pgoutput")` reads a replication slot.

All readers read the same rows of the same server in turn, so that a slow minute of the machine
affects all of them: `pg_recvlogical`, which only receives, this source in four forms, and
Debezium's engine. The limit is the server's walsender, which uses one core.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_pgoutput
from benchmarks.orders import TABLE
from spark_pgoutput.demo.server import PostgresServer

_SLOT, _PUBLICATION = "measured", "orders"
_SETTINGS = {"logical_decoding_work_mem": "64MB", "max_wal_size": "8GB", "shared_buffers": "256MB"}
_CHANGES_OF_A_TRANSACTION = 8.5  # 5 inserts, 3 updates, and a delete in every second one
_log = logging.getLogger(__name__)


class Slot:
    """A server with a slot that holds a number of changes.

    Parameters
    ----------
    server : PostgresServer
        A server that runs.
    """

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.sql = psycopg.connect(server.conninfo, autocommit=True)
        self.sql.execute(TABLE.encode())
        self._make_slot(_SLOT)

    def _make_slot(self, name: str) -> None:
        self.sql.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])

    def write(self, changes: int) -> None:
        """Write small transactions with so many changes, about."""
        self.sql.execute("CALL trade(0, %s)", [round(changes / _CHANGES_OF_A_TRANSACTION)])
        self.move_on()

    def write_one_transaction(self, rows: int) -> None:
        """Drop what the slot holds, and write one transaction of so many rows."""
        self.sql.execute("SELECT pg_drop_replication_slot(%s)", [_SLOT])
        self.sql.execute("TRUNCATE orders")
        self._make_slot(_SLOT)
        self.sql.execute(
            "INSERT INTO orders SELECT id, id %% 1000, 'new', id / 100.0, now(), now(), "
            "'order note ' || md5(id::text), id %% 3 = 0, sqrt(id) "
            "FROM generate_series(1, %s) AS id",
            [rows],
        )
        self.move_on()

    def move_on(self) -> None:
        """Write WAL after the changes, so that their end is passed at once."""
        self.end = self.sql.execute("SELECT pg_current_wal_flush_lsn()").fetchone()[0]  # type: ignore[index]
        for _ in range(3):
            self.sql.execute("SELECT txid_current()")
        self.sql.execute("CHECKPOINT")

    @contextmanager
    def copy(self) -> Iterator[str]:
        """Give a copy of the slot for a reader that moves it."""
        self.sql.execute("SELECT pg_copy_logical_replication_slot(%s, 'copied')", [_SLOT])
        yield "copied"
        holder = "FROM pg_replication_slots WHERE slot_name = 'copied' AND active"
        while self.sql.execute(f"SELECT pg_terminate_backend(active_pid) {holder}").fetchone():
            time.sleep(0.1)
        self.sql.execute("SELECT pg_drop_replication_slot('copied')")

    def options(self, **more: str) -> dict[str, str]:
        """Return the options of the source."""
        server = self.server
        account = {"url": server.jdbc_url, "user": server.user, "password": server.password}
        return {**account, "slot": _SLOT, "publication": _PUBLICATION, **more}

    def walsenders(self) -> list[psutil.Process]:
        """Return the server's walsenders."""
        pids = self.sql.execute("SELECT pid FROM pg_stat_replication").fetchall()
        return [psutil.Process(pid) for (pid,) in pids]


class WalsenderCores:
    """The part of a core that the walsender uses while a reader reads."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._done = threading.Event()
        self._samples: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            try:
                for process in self._slot.walsenders():
                    used = process.cpu_times()
                    self._samples.append((time.monotonic(), used.user + used.system))
            except psutil.Error:
                continue

    def __enter__(self) -> WalsenderCores:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def cores(self) -> float:
        """The seconds of CPU for each second."""
        (begin, used), (end, used_at_end) = self._samples[0], self._samples[-1]
        return (used_at_end - used) / (end - begin) if end > begin else 0.0


def _receive(slot: Slot) -> None:
    with slot.copy() as name:
        command = [str(slot.server.bin / "pg_recvlogical"), "--dbname", slot.server.conninfo]
        command += ["--slot", name, "--start", "--endpos", slot.end, "--no-loop"]
        command += ["--option", "proto_version=1", "--option", f"publication_names={_PUBLICATION}"]
        subprocess.run([*command, "--file", "/dev/null"], check=True, capture_output=True)


def _debezium(slot: Slot, changes: int) -> float:
    """Return the seconds from the first change to the last, without the start of the engine."""
    with slot.copy() as name, tempfile.TemporaryDirectory() as folder:
        server = slot.server
        properties = {
            "name": "engine",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "topic.prefix": "measured",
            "database.hostname": server.host,
            "database.port": server.port,
            "database.user": server.user,
            "database.password": server.password,
            "database.dbname": server.database,
            "plugin.name": "pgoutput",
            "slot.name": name,
            "publication.name": _PUBLICATION,
            "publication.autocreate.mode": "disabled",
            "snapshot.mode": "no_data",
            "tombstones.on.delete": "false",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(Path(folder) / "history"),
        }
        command = [sys.executable, str(Path(__file__).with_name("debezium_engine.py"))]
        engine = subprocess.run(
            [*command, str(changes)],
            input=json.dumps(properties),
            text=True,
            check=True,
            capture_output=True,
            cwd=folder,  # it writes a log into its folder
        )
        return float(engine.stdout.splitlines()[-1])


def _source(spark: SparkSession, slot: Slot, **more: str) -> None:
    found = spark.read.format("pgoutput").options(**slot.options(**more)).load()
    found.write.format("noop").mode("overwrite").save()


def compare(spark: SparkSession, changes: int, rounds: int, debezium: bool) -> Iterator[str]:
    """Read the same changes by each reader in turn, and yield a line for each reader."""
    with PostgresServer(_SETTINGS) as server:
        slot = Slot(server)
        slot.write(changes)
        options = slot.options()
        typed = spark.read.format("pgoutput").options(**options, table="orders").load()
        changes = typed.count()
        readers: dict[str, Callable[[], float | None]] = {
            "pg_recvlogical": lambda: _receive(slot),
            "messages": lambda: _source(spark, slot, output="messages"),
            "row": lambda: _source(spark, slot),
            "typed columns": lambda: _source(spark, slot, table="orders"),
            "typed, binary": lambda: _source(spark, slot, table="orders", binary="true"),
        }
        if debezium:
            readers["Debezium's engine"] = lambda: _debezium(slot, changes)
        seconds: dict[str, list[float]] = {name: [] for name in readers}
        cores: dict[str, list[float]] = {name: [] for name in readers}
        for number in range(-1, rounds):
            for name, read in readers.items():
                with WalsenderCores(slot) as walsender:
                    begin = time.monotonic()
                    taken = read() or time.monotonic() - begin
                _log.info("round %d, %s: %.2f s", number + 1, name, taken)
                if number >= 0:
                    seconds[name].append(taken)
                    cores[name].append(walsender.cores)
        yield f"{changes} changes, {rounds} rounds"
        for name, all_seconds in seconds.items():
            median = statistics.median(all_seconds)
            ratio = statistics.median(
                limit / own
                for limit, own in zip(seconds["pg_recvlogical"], all_seconds, strict=True)
            )
            yield (
                f"{name:18} {changes / median:9,.0f} changes/s, {ratio:5.2f} of pg_recvlogical, "
                f"walsender {statistics.median(cores[name]):.2f} cores"
            )


def latency(spark: SparkSession, commits: int) -> Iterator[str]:
    """Measure the time from a commit to the sink, and what a batch without rows takes."""
    with PostgresServer(_SETTINGS) as server, tempfile.TemporaryDirectory() as folder:
        slot = Slot(server)
        arrived: dict[int, float] = {}

        def sink(batch: DataFrame, _: int) -> None:
            for row in batch.select(F.col("id")).collect():
                arrived[row.id] = time.time()

        found = spark.readStream.format("pgoutput").options(**slot.options(table="orders")).load()
        writer = found.writeStream.foreachBatch(sink).trigger(processingTime="1 second")
        query = writer.option("checkpointLocation", folder).start()
        committed: dict[int, float] = {}

        def commit(number: int) -> None:
            slot.sql.execute("INSERT INTO orders (id) VALUES (%s)", [number])
            committed[number] = time.time()

        commit(0)
        while not arrived:  # the first micro-batch waits for Spark to load its classes
            time.sleep(0.1)
        for number in range(1, commits):
            commit(number)
            time.sleep(0.37)
        while len(arrived) < commits:
            time.sleep(0.1)
        waits = [arrived[number] - at for number, at in committed.items()][3:]
        yield f"from COMMIT to the sink, trigger 1 s: median {statistics.median(waits):.2f} s"
        query.stop()
        before = len(_task_milliseconds(spark))
        query = found.writeStream.format("noop").option("checkpointLocation", folder).start()
        slot.sql.execute("CREATE TABLE unpublished (n int)")
        for number in range(commits):
            slot.sql.execute("INSERT INTO unpublished VALUES (%s)", [number])
            time.sleep(0.5)
        durations = [p.durationMs for p in query.recentProgress if p.numInputRows == 0]
        query.stop()
        empty = [d for d in durations if "addBatch" in d][3:]

        tasks = _task_milliseconds(spark)[before + 3 :]

        def median(step: str) -> float:
            return statistics.median(d.get(step, 0) for d in empty)

        yield (
            f"{len(empty)} batches without rows: latestOffset {median('latestOffset'):.0f} "
            f"ms, task {statistics.median(tasks):.0f} ms, addBatch {median('addBatch'):.0f} ms, "
            f"the whole trigger {median('triggerExecution'):.0f} ms (medians)"
        )


def _task_milliseconds(spark: SparkSession) -> list[int]:
    """Return how long the task of each stage with one task has run, in the order of the stages."""
    gateway = spark.sparkContext._gateway
    assert gateway
    no_quantiles = gateway.new_array(gateway.jvm.double, 0)
    no_statuses = gateway.jvm.java.util.ArrayList()
    store = spark.sparkContext._jsc.sc().statusStore()
    stages = store.stageList(no_statuses, False, False, no_quantiles, no_statuses)
    found = [stages.apply(index) for index in range(stages.size())]
    return [
        stage.executorRunTime()
        for stage in sorted(found, key=lambda stage: int(stage.stageId()))
        if stage.numTasks() == 1
    ]


def heap(spark: SparkSession, sizes: tuple[int, int]) -> Iterator[str]:
    """Measure the heap after a collection while one large transaction is read."""
    assert spark._jvm
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    with PostgresServer(_SETTINGS) as server:
        slot = Slot(server)
        for rows in sizes:
            slot.write_one_transaction(rows)
            found: list[int] = []
            done = threading.Event()

            def watch(found: list[int] = found, done: threading.Event = done) -> None:
                while not done.wait(0.5):
                    runtime.gc()
                    found.append(runtime.totalMemory() - runtime.freeMemory())

            watcher = threading.Thread(target=watch)
            watcher.start()
            begin = time.monotonic()
            _source(spark, slot, table="orders")
            taken = time.monotonic() - begin
            done.set()
            watcher.join()
            yield (
                f"one transaction of {rows} rows: {taken:.1f} s, heap after a collection: "
                f"greatest {max(found) / 2**20:.0f} MiB, median "
                f"{statistics.median(found) / 2**20:.0f} MiB of {runtime.maxMemory() / 2**20:.0f}"
            )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.slot")
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-debezium", action="store_true", help="leave out Debezium's engine")
    parser.add_argument("--large", type=int, default=10_000_000, help="rows of a transaction")
    parser.add_argument("--only", choices=["compare", "latency", "heap"])
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    builder = SparkSession.builder.master("local[1]").appName("spark-pgoutput's benchmarks")
    for name, value in {
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(name, value)
    spark = spark_pgoutput.configure(builder).getOrCreate()
    parts: dict[str, Callable[[], Iterator[str]]] = {
        "compare": lambda: compare(spark, given.changes, given.rounds, not given.no_debezium),
        "latency": lambda: latency(spark, 40),
        "heap": lambda: heap(spark, (given.large // 10, given.large)),
    }
    for name, part in parts.items():
        if given.only in (None, name):
            for line in part():
                print(line, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
