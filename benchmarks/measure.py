"""Measure queries in rounds. Each round runs every query once."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

import spark_pgoutput
from benchmarks import alternatives, machine
from benchmarks.corpus import corpus, read_messages, repeated
from benchmarks.orders import orders, orders_file, shuffled_orders
from benchmarks.queries import (
    ALTERNATIVES,
    CHANGES,
    DECODING,
    FEW_MESSAGES,
    STREAMED,
    TABLE_CHANGES,
    Query,
)
from benchmarks.report import millions, plural
from benchmarks.results import Measurement, Results

_CHECKED_MESSAGES = 10_000
_FEWEST_ROUNDS = 5
_FEWEST_WARM_UP_ROUNDS = 2
_SLOW_ROUNDS = 3

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Effort:
    """The time to spend on measuring.

    Attributes
    ----------
    rounds : int, optional
        The repetitions of each query. The default is as many as `seconds` allows, and at least 5.
        Slow queries are measured 3 times at most.
    seconds : float
        The time for each number of rows.
    warm_up : float
        The seconds in which the queries run before they are measured, for at least 2 rounds.
    """

    rounds: int | None
    seconds: float
    warm_up: float


def measure(cores: int, sizes: Sequence[int], memory: str, effort: Effort) -> Results:
    """Measure everything on one number of cores, once for each process, which has one JVM.

    Parameters
    ----------
    cores : int
        The number of Spark's threads.
    sizes : sequence of int
        Numbers of rows. The plain decoding is measured on all of them, table changes in order on
        the two largest and in other ways on the lesser of these, the rest on the middle one.
    memory : str
        The memory of the JVM, such as ``8g``.
    effort : Effort
        The time to spend.

    Returns
    -------
    Results
        The results on this number of cores.
    """
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    sizes = sorted(sizes)
    middle = sizes[len(sizes) // 2]
    largest = sizes[-2:]
    for rows in largest:
        orders_file(rows)
    measurements = []
    with _spark(cores, memory) as spark:
        alternatives.register_pypgoutput(spark)
        base = corpus(spark, read_messages()).cache()
        alternatives.require_same_answers(base.limit(_CHECKED_MESSAGES))
        for rows in sizes:
            _log.info("%s, %s", millions(rows), plural(cores))
            with _cached(_tables(spark, base, rows, cores, rows == middle)):
                queries = [*DECODING, *([*STREAMED, *ALTERNATIVES] if rows == middle else [])]
                measurements += _measure(spark, queries, cores, rows, effort)
        for rows in largest:
            _log.info("Table changes: %s, %s", millions(rows), plural(cores))
            with _cached(_orders(spark, rows, cores, rows == largest[0])):
                queries = TABLE_CHANGES if rows == largest[0] else [CHANGES]
                measurements += _measure(spark, queries, cores, rows, effort)
        return Results(machine.describe(spark), measurements)


@contextmanager
def _spark(cores: int, memory: str) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # the workers need pypgoutput too
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .appName("spark-pgoutput's benchmarks")
        .config("spark.driver.memory", memory)
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    session = spark_pgoutput.configure(builder).getOrCreate()
    yield session
    session.stop()


def _tables(
    spark: SparkSession, base: DataFrame, rows: int, cores: int, everything: bool
) -> dict[str, DataFrame]:
    """Return the tables for the queries of messages, with one partition for each core."""
    all_rows = repeated(spark, base, rows, cores)
    tables = {"messages": all_rows.select("data")}
    if everything:
        few_rows = repeated(spark, base, min(rows, FEW_MESSAGES), cores)
        tables["streamed"] = all_rows.selectExpr("data_streamed AS data", "in_stream")
        tables["changes"] = alternatives.changes(all_rows)
        tables["few_messages"] = few_rows.select("data")
    return tables


def _orders(spark: SparkSession, rows: int, cores: int, everything: bool) -> dict[str, DataFrame]:
    """Return the tables for the queries of table changes, with one partition for each core."""
    tables = {"orders": orders(spark, rows, cores)}
    if everything:
        tables["shuffled_orders"] = shuffled_orders(spark, rows, cores)
    return tables


@contextmanager
def _cached(tables: Mapping[str, DataFrame]) -> Iterator[None]:
    """Cache tables, and give each its name as a view."""
    with ExitStack() as stack:
        for name, table in tables.items():
            cached = table.cache()
            stack.callback(cached.unpersist, blocking=True)
            cached.count()
            cached.createOrReplaceTempView(name)
        yield


def _measure(
    spark: SparkSession, queries: Sequence[Query], cores: int, rows: int, effort: Effort
) -> list[Measurement]:
    seconds = _rounds(spark, queries, effort)
    measurements = []
    for query in queries:
        own_rows = spark.table("few_messages").count() if "few_messages" in query.sql else rows
        taken, scan = seconds[query.sql], seconds[query.scan] if query.scan else []
        measurements.append(Measurement(query, cores, own_rows, taken, scan[: len(taken)]))
        _log.info("%7.0f ns  %s", measurements[-1].nanoseconds, query.name)
    return measurements


def _rounds(
    spark: SparkSession, queries: Sequence[Query], effort: Effort
) -> dict[str, list[float]]:
    """Run all queries in turn, so that a slow minute of the machine affects all. Return seconds."""
    scans = dict.fromkeys(query.scan for query in queries if query.scan)
    quick = [*scans, *(query.sql for query in queries if not query.slow)]
    slow = [query.sql for query in queries if query.slow]
    frames = {sql: spark.sql(sql) for sql in (*quick, *slow)}

    started = time.perf_counter()
    warm_up = 0
    while warm_up < _FEWEST_WARM_UP_ROUNDS or (
        effort.rounds is None and time.perf_counter() - started < effort.warm_up
    ):
        for sql in quick if warm_up else frames:
            _seconds(frames[sql])
        warm_up += 1

    seconds: dict[str, list[float]] = {sql: [] for sql in frames}
    started = time.perf_counter()
    rounds = 0
    while rounds < (effort.rounds or _FEWEST_ROUNDS) or (
        effort.rounds is None and time.perf_counter() - started < effort.seconds
    ):
        for sql in frames if rounds < _SLOW_ROUNDS else quick:
            seconds[sql].append(_seconds(frames[sql]))
        rounds += 1
    _log.info("%d rounds after %d to warm up", rounds, warm_up)
    return seconds


def _seconds(frame: DataFrame) -> float:
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started
