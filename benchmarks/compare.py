"""Compare the speed of two JARs, to see if a new one is slower than an old one.

Three Spark processes run side by side: two with the old JAR and one with the new JAR. They run each
query in turn, so that a slow minute of the machine affects all of them. The ratio of the two
processes with the old JAR shows how much of a difference is noise.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.corpus import corpus, read_messages, repeated
from benchmarks.orders import orders, orders_file
from benchmarks.queries import CHANGES, DECODING, IN_STREAM_GIVEN, IN_STREAM_LEFT_OUT, Query

QUERIES = [*DECODING, IN_STREAM_GIVEN, IN_STREAM_LEFT_OUT, CHANGES]

_log = logging.getLogger(__name__)
_frames: dict[str, DataFrame] = {}


@dataclass
class Comparison:
    """The times of one query in all rounds, in seconds.

    Attributes
    ----------
    query : Query
        The query.
    old, new, again : list of float
        The times with the old JAR, with the new JAR, and in the second process with the old JAR.
    """

    query: Query
    old: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)

    def ratio(self) -> float:
        """Return the median of new/old of each round, for both processes with the old JAR."""
        return statistics.median(
            new / statistics.mean(olds)
            for new, *olds in zip(self.new, self.old, self.again, strict=True)
        )

    def noise(self) -> float:
        """Return how far the median of old/old is from 1."""
        return abs(statistics.median(map(_divide, self.again, self.old)) - 1)


def _divide(a: float, b: float) -> float:
    return a / b


def compare(old: Path, new: Path, rows: int, rounds: int, warm_up: int) -> list[Comparison]:
    """Run all queries in turn with both JARs.

    Parameters
    ----------
    old, new : Path
        The JARs.
    rows : int
        The number of messages.
    rounds, warm_up : int
        How often each query is measured, and how often it runs before.

    Returns
    -------
    list of Comparison
        The times of each query.
    """
    orders_file(rows)
    comparisons = [Comparison(query) for query in QUERIES]
    spawn = get_context("spawn")
    processes = [
        ProcessPoolExecutor(1, spawn, initializer=_start, initargs=(jar, rows))
        for jar in (old, new, old)
    ]
    try:
        for number in range(-warm_up, rounds):
            for comparison in comparisons:
                turns = range(len(processes))
                # Each round begins with another process, so that none always follows the same one.
                seconds = {
                    turn: processes[turn].submit(_seconds, comparison.query.sql).result()
                    for turn in sorted(turns, key=lambda turn: (turn + number) % len(turns))
                }
                if number >= 0:
                    comparison.old.append(seconds[0])
                    comparison.new.append(seconds[1])
                    comparison.again.append(seconds[2])
            _log.info("round %d", number + 1)
    finally:
        for process in processes:
            process.shutdown()
    return comparisons


def _start(jar: Path, rows: int) -> None:
    """Start Spark with one thread in this process, and cache the tables of the queries."""
    spark = (
        SparkSession.builder.master("local[1]")
        .appName("spark-pgoutput's benchmarks")
        .config("spark.jars", str(jar))
        .config("spark.driver.memory", "4g")
        .config("spark.log.level", "ERROR")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    messages = repeated(spark, corpus(spark, read_messages()), rows, 1)
    tables = {
        "messages": messages.select("data"),
        "streamed": messages.selectExpr("data_streamed AS data", "in_stream"),
        "orders": orders(spark, rows, 1),
    }
    for name, table in tables.items():
        table.cache().count()
        table.createOrReplaceTempView(name)
    _frames.update({query.sql: spark.sql(query.sql) for query in QUERIES})


def _seconds(sql: str) -> float:
    started = time.perf_counter()
    _frames[sql].write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare two JARs and print a table.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments of the command line. The default is those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("old", type=Path, help="the old JAR")
    parser.add_argument("new", type=Path, help="the new JAR")
    parser.add_argument("--rows", type=int, default=500_000, help="messages; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=9, help="default: %(default)s")
    parser.add_argument("--warm-up", type=int, default=6, help="rounds; default: %(default)s")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    results = compare(options.old, options.new, options.rows, options.rounds, options.warm_up)
    print("| Query | old, ms | new, ms | new / old | noise (old / old) |")
    print("|---|---:|---:|---:|---:|")
    for result in results:
        old, new = (1000 * statistics.median(times) for times in (result.old, result.new))
        print(
            f"| {result.query.name} | {old:.0f} | {new:.0f} "
            f"| {result.ratio():.3f} | ±{result.noise():.3f} |"
        )


if __name__ == "__main__":
    main()
