"""Measure how fast `replicate` copies tables, and how fast it applies changes.

Server, lake and Spark are on one machine. Each round runs each part once, so that a slow minute of
the machine affects all of them. The unit is the second of CPU, of Spark's JVM and of the server's
processes apart. A job runs for years, so the JVM compiles its code in rounds that do not count.

With --old, it compares jobs of an old version with those of this folder, in processes of their own.
See `benchmarks.job_measures`.
"""

from __future__ import annotations

import argparse
import logging
import math
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from benchmarks.cost import Cost
from benchmarks.job_measures import LONG, MEASURES, Figures, Run, Sizes
from benchmarks.jobs import FORMATS, Version
from benchmarks.lake import Lake, session
from spark_pgoutput.demo.server import PostgresServer

_SETTINGS = {"max_wal_size": "8GB", "shared_buffers": "512MB", "max_connections": "50"}
_WARM_COPIES, _WARM_APPLIES = 2, 10
_BASELINES = ("copies", "applies")
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
    """Compare the first copy with psql's COPY, with Spark's JDBC source, and with Spark's writers.

    What a copy cannot avoid is to read the rows, as COPY does, and to write them, as Spark does
    with rows of its cache. The last lines compare the copy with the sum of both.
    """
    lake.fill("orders")

    def jdbc() -> DataFrame:
        # Spark sees that two tables are the same only if they are one object, so none but `cached`
        # is read from the cache.
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
        return table.load()

    cached = jdbc().persist(StorageLevel.MEMORY_AND_DISK)
    cached.count()

    def replicated(target: str) -> None:
        lake.job(target)().awaitTermination()

    def written(rows: DataFrame, target: str) -> None:
        path = lake.folder / "written"
        shutil.rmtree(path, ignore_errors=True)
        if target == "delta":
            rows.write.format("delta").save(str(path))
        else:
            rows.writeTo("ice.written").using("iceberg").createOrReplace()

    parts: dict[str, Callable[[], float | None]] = {
        "psql COPY": lambda: _psql(lake),
        "replicate into Delta": lambda: replicated("delta"),
        "replicate into Iceberg": lambda: replicated("ice"),
        "Spark's JDBC source into Delta": lambda: written(jdbc(), "delta"),
        "Spark's cache into Delta": lambda: written(cached, "delta"),
        "Spark's cache into Iceberg": lambda: written(cached, "ice"),
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
            f"copy, {name:31} {lake.rows / _median_cost(own, 'cpu'):9,.0f} rows per CPU second, "
            f"{lake.rows / _median_cost(own, 'seconds'):9,.0f} rows/s, {ratio:.2f} of psql"
        )
    for target in ("Delta", "Iceberg"):
        measured = (costs[f"Spark's cache into {target}"], costs[f"replicate into {target}"])
        ratio = statistics.median(
            (read.cpu + write.cpu) / copy.cpu
            for read, write, copy in zip(costs["psql COPY"], *measured, strict=True)
        )
        yield f"copy, replicate into {target}: {ratio:.2f} of the speed of COPY and Spark's writer"


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
            f"apply, {target:5} {changes / _median_cost(own, 'spark'):9,.0f} changes per CPU "
            f"second of Spark, {changes / _median_cost(own, 'seconds'):9,.0f} changes/s, server "
            f"{_median_cost(own, 'server'):.1f} s of CPU"
        )


def _median_cost(costs: list[Cost], what: str) -> float:
    return float(statistics.median(getattr(cost, what) for cost in costs))


def _baselines(names: Sequence[str], sizes: Sizes, rounds: int, folder: Path) -> Iterator[str]:
    """Measure the parts that run in a session of this process."""
    parts: dict[str, Callable[[Lake], Iterator[str]]] = {
        "copies": lambda lake: copies(lake, rounds),
        "applies": lambda lake: applies(lake, rounds, sizes.changes),
    }
    spark = session(folder)
    for name in names:
        with PostgresServer(_SETTINGS) as server:
            yield from parts[name](Lake(spark, server, folder / name, sizes.rows))
    spark.stop()


def compare(
    names: Sequence[str],
    versions: Sequence[Version],
    kinds: Sequence[str],
    sizes: Sizes,
    rounds: int,
    folder: Path,
) -> Iterator[str]:
    """Run measures, and give the table of each one in Markdown.

    Parameters
    ----------
    names : sequence of str
        The measures.
    versions : sequence of Version
        The versions, of which the last one is the new one.
    kinds : sequence of str
        The formats.
    sizes : Sizes
        How much is measured.
    rounds : int
        How often each version runs each measure.
    folder : Path
        Where everything is that a run needs, until its end.
    """
    for name in names:
        found: dict[str, dict[str, list[Figures]]] = {
            kind: {version.name: [] for version in versions} for kind in kinds
        }
        for number in range(rounds):
            for kind in kinds:
                for version in versions if number % 2 == 0 else versions[::-1]:
                    where = folder / f"{name}-{number}-{kind}-{version.name}"
                    where.mkdir()
                    try:
                        figures = MEASURES[name](Run(version, kind, where, sizes))
                    except Exception:
                        _log.exception("%s, %s, %s failed", name, kind, version.name)
                    else:
                        found[kind][version.name].append(figures)
                        text = ", ".join(f"{what}: {_text(own)}" for what, own in figures.items())
                        _log.info(
                            "%s, round %d, %s, %s: %s", name, number + 1, kind, version.name, text
                        )
                    finally:
                        shutil.rmtree(where, ignore_errors=True)
        yield markdown(name, found)


def markdown(name: str, found: Mapping[str, Mapping[str, Sequence[Figures]]]) -> str:
    """Return the table of a measure.

    Parameters
    ----------
    name : str
        The measure.
    found : mapping
        The figures of each round, by format and version.
    """
    versions = list(dict.fromkeys(version for own in found.values() for version in own))
    ratio = ["/".join(versions[::-1])] if len(versions) == 2 else []
    head = [name, "format", *versions, *ratio]
    lines = [_row(head), "|---|---|" + "---:|" * (len(head) - 2)]
    for kind, own in found.items():
        for what in dict.fromkeys(what for rounds in own.values() for f in rounds for what in f):
            medians = [_median_figure(own[version], what) for version in versions]
            texts = [_text(value) for value in medians]
            if ratio:
                old, new = medians
                texts.append(_text(new / old if old else math.nan))
            lines.append(_row([what, kind, *texts]))
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _median_figure(rounds: Sequence[Figures], what: str) -> float:
    values = [figures[what] for figures in rounds if what in figures]
    return statistics.median(values) if values else math.nan


def _text(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main() -> None:
    """Print the figures."""
    sizes = Sizes()
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.replicate")
    parser.add_argument("--old", type=Path, help="the wheel of an old version")
    parser.add_argument("--new", type=Path, help="a wheel in place of what is in this folder")
    parser.add_argument(
        "--only",
        choices=[*_BASELINES, *MEASURES],
        action="append",
        help="one part; can be repeated. By default, copies and applies, or with --old all others "
        f"but {' and '.join(LONG)}",
    )
    parser.add_argument("--format", choices=FORMATS, help="by default, one after the other")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--minutes", type=float, default=sizes.minutes, help="how long a running job is measured"
    )
    parser.add_argument(
        "--settle", type=float, default=sizes.settle, help="seconds that it runs before"
    )
    parser.add_argument("--rows", type=int, default=sizes.rows, help="of a large table")
    parser.add_argument("--changes", type=int, default=sizes.changes)
    parser.add_argument(
        "--large", type=int, default=sizes.large, help="rows of the large transaction"
    )
    parser.add_argument(
        "--tables", type=int, default=sizes.tables, help="the greatest number of tables"
    )
    parser.add_argument("--rate", type=int, default=sizes.rate, help="transactions a second")
    given = parser.parse_args()
    # So that the processes end that this one has started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.WARNING)
    measures = [name for name in MEASURES if name not in LONG]
    names: Sequence[str] = given.only or (measures if given.old else _BASELINES)
    sizes = Sizes(**{field: getattr(given, field) for field in vars(sizes)})
    with tempfile.TemporaryDirectory(prefix="spark-pgoutput-benchmarks-") as name:
        folder = Path(name)
        baselines = [name for name in names if name in _BASELINES]
        for line in _baselines(baselines, sizes, given.rounds, folder) if baselines else ():
            print(line, flush=True)
        versions = [Version.of_wheel("old", given.old, folder)] if given.old else []
        if given.new:
            versions.append(Version.of_wheel("new", given.new, folder))
        else:
            versions.append(Version.of_checkout("new", folder))
        kinds = [given.format] if given.format else FORMATS
        compared = [name for name in names if name in MEASURES]
        for table in compare(compared, versions, kinds, sizes, given.rounds, folder):
            print(table, flush=True)


if __name__ == "__main__":
    main()
