"""Measure how fast `replicate` copies tables, and how fast it applies changes.

Server, lake and Spark are on one machine. Each round runs each part once, so that a slow minute of
the machine affects all of them. The unit is the second of CPU, of Spark's JVM and of the server's
processes apart. A job runs for years, so the JVM compiles its code in rounds that do not count.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from benchmarks.cost import Cost
from benchmarks.lake import Lake, session
from spark_pgoutput.demo.server import PostgresServer

_SETTINGS = {"max_wal_size": "8GB", "shared_buffers": "512MB", "max_connections": "50"}
_WARM_COPIES, _WARM_APPLIES, _WARM_SECONDS = 2, 10, 120
_log = logging.getLogger(__name__)


def _psql(lake: Lake) -> float:
    """Copy the table to nowhere with psql, and return its CPU."""
    psql = [str(lake.server.bin / "psql"), lake.server.conninfo, "--quiet", "--command"]
    with subprocess.Popen(
        [*psql, "COPY orders TO STDOUT"], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        _, status, usage = _wait(process.pid)
        assert status == 0
        return usage


def _wait(pid: int) -> tuple[int, int, float]:
    import os

    found, status, usage = os.wait4(pid, 0)
    return found, status, usage.ru_utime + usage.ru_stime


def copies(lake: Lake, rounds: int) -> Iterator[str]:
    """Compare the first copy with psql's COPY and with Spark's JDBC source."""
    lake.fill("orders")

    def replicated(target: str) -> None:
        lake.job(target)().awaitTermination()

    def jdbc() -> None:
        path = str(lake.folder / "jdbc")
        shutil.rmtree(path, ignore_errors=True)
        table = lake.spark.read.format("jdbc").options(
            url=lake.server.jdbc_url,
            dbtable="orders",
            user=lake.server.user,
            password=lake.server.password,
            driver="io.sparkpgoutput.shaded.postgresql.Driver",
            partitionColumn="id",
            lowerBound="1",
            upperBound=str(lake.rows),
            numPartitions="8",
            fetchsize="10000",
        )
        table.load().write.format("delta").save(path)

    parts: dict[str, Callable[[], float | None]] = {
        "psql COPY": lambda: _psql(lake),
        "replicate into Delta": lambda: replicated("delta"),
        "replicate into Iceberg": lambda: replicated("ice"),
        "Spark's JDBC source into Delta": jdbc,
    }
    costs: dict[str, list[Cost]] = {name: [] for name in parts}
    for number in range(-_WARM_COPIES, rounds):
        for name, run in parts.items():
            cost = lake.meter.measure(run)
            lake.drop_slots()
            _log.info("round %d, %s: %s", number + 1, name, cost)
            if number >= 0:
                costs[name].append(cost)
    limit = [cost.cpu for cost in costs["psql COPY"]]
    for name, own in costs.items():
        ratio = statistics.median(best / cost.cpu for best, cost in zip(limit, own, strict=True))
        yield (
            f"copy, {name:31} {lake.rows / _median(own, 'cpu'):9,.0f} rows per CPU second, "
            f"{lake.rows / _median(own, 'seconds'):9,.0f} rows/s, {ratio:.2f} of psql"
        )


def applies(lake: Lake, rounds: int, changes: int) -> Iterator[str]:
    """Measure the apply of changes anywhere in a table, half of them updates."""
    lake.fill("orders")
    jobs = {target: lake.job(target) for target in ("delta", "ice")}
    for start in jobs.values():
        start().awaitTermination()
    costs: dict[str, list[Cost]] = {target: [] for target in jobs}
    for number in range(-_WARM_APPLIES, rounds):
        first = lake.rows + 1 + (number + _WARM_APPLIES) * changes
        quarter = (changes if number >= -1 else changes // 10) // 4
        # Half updates, a quarter inserts and a quarter deletes. The table keeps its size.
        lake.sql.execute(
            f"UPDATE orders SET price = price + 1, status = 'changed' WHERE id IN (SELECT id "
            f"FROM orders ORDER BY md5(id::text || '{number}') LIMIT {2 * quarter})".encode()
        )
        lake.sql.execute(
            f"DELETE FROM orders WHERE id IN (SELECT id FROM orders "
            f"ORDER BY md5('{number}' || id::text) LIMIT {quarter})".encode()
        )
        lake.insert("orders", first, first + quarter - 1)
        for target, start in jobs.items():
            cost = lake.meter.measure(lambda start=start: start().awaitTermination() and None)  # type: ignore[misc]
            _log.info("round %d, %s: %s", number + 1, target, cost)
            if number >= 0:
                costs[target].append(cost)
    for target, own in costs.items():
        yield (
            f"apply, {target:5} {changes / _median(own, 'spark'):9,.0f} changes per CPU second of "
            f"Spark, {changes / _median(own, 'seconds'):9,.0f} changes/s, server "
            f"{_median(own, 'server'):.1f} s of CPU"
        )


def lag(lake: Lake, seconds: int, rate: int) -> Iterator[str]:
    """Measure the time from a commit to the lake's commit, for three tables.

    The first commits do not count.
    """
    tables = ("one", "two", "three")
    lake.fill(*tables)
    start = lake.job("delta")
    start().awaitTermination()
    job = start(once=False)
    while job.query is None:
        time.sleep(0.1)
    committed: list[float] = []
    applied: list[tuple[float, float]] = []  # the last commit of a micro-batch, and its end
    commits = (_WARM_SECONDS + seconds) * rate
    writer = threading.Thread(
        target=_write, args=(lake.server.conninfo, tables, commits, rate, committed)
    )
    writer.start()
    while writer.is_alive() or not applied or applied[-1][0] < committed[-1] - 0.1:
        time.sleep(0.1)
        now = time.time()
        told = [line.split("lag ")[1].split(" ")[0] for line in job.report() if "lag " in line]
        applied += [(now - float(lag), now) for lag in told]
    job.stop()
    counted = committed[_WARM_SECONDS * rate :]
    applied = [batch for batch in applied if batch[0] >= counted[0]]
    lags = sorted(_lags(counted, applied))
    yield (
        f"lag at {rate} transactions a second: {len(applied)} micro-batches, median "
        f"{statistics.median(lags):.1f} s, p95 {lags[int(len(lags) * 0.95)]:.1f} s"
    )


def _lags(committed: list[float], applied: list[tuple[float, float]]) -> Iterator[float]:
    """Return the time from each commit to the end of its micro-batch."""
    batches = iter(applied)
    last, end = next(batches)
    for commit in committed:
        while commit > last + 0.05:
            following = next(batches, None)
            if following is None:
                return
            last, end = following
        yield end - commit


def _write(
    conninfo: str, tables: tuple[str, ...], commits: int, rate: int, committed: list[float]
) -> None:
    """Change a row in each transaction, so many a second."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        begin = time.monotonic()
        for number in range(commits):
            ahead = begin + number / rate - time.monotonic()
            if ahead > 0.01:
                time.sleep(ahead)
            table = tables[number % len(tables)]
            id_ = number * 7919 % 1_000_000 + 1
            connection.execute(f"UPDATE {table} SET price = price + 1 WHERE id = {id_}".encode())
            committed.append(time.time())


def _median(costs: list[Cost], what: str) -> float:
    return float(statistics.median(getattr(cost, what) for cost in costs))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.replicate")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=300, help="how long the lag is measured")
    parser.add_argument("--rate", type=int, default=1000, help="transactions a second")
    parser.add_argument("--only", choices=["copies", "applies", "lag"])
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    parts: dict[str, Callable[[Lake], Iterator[str]]] = {
        "copies": lambda lake: copies(lake, given.rounds),
        "applies": lambda lake: applies(lake, given.rounds, given.changes),
        "lag": lambda lake: lag(lake, given.seconds, given.rate),
    }
    with tempfile.TemporaryDirectory() as folder:
        spark = session(Path(folder))
        for name, part in parts.items():
            if given.only in (None, name):
                with PostgresServer(_SETTINGS) as server:
                    for line in part(Lake(spark, server, Path(folder) / name, given.rows)):
                        print(line, flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
