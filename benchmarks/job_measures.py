"""Measure jobs of two versions of the package, one after the other.

Each round runs each measure once with each version, and the next round begins with the other one,
so that a slow hour of the machine affects both. Each run has a server, a target and a process of
its own. Compare the ratios: they depend less on the machine than the figures.
"""

from __future__ import annotations

import json
import logging
import math
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.jobs import (
    JARS,
    SLOT,
    Ended,
    Job,
    Version,
    Window,
    end,
    postmaster,
)
from benchmarks.load import SETTINGS, Table, Write, Writer, make, pgbench, transactions
from benchmarks.reader import Reader, commit_lag, commits_of, lag_of, lags_at
from benchmarks.scans import Look, Scan, Scans
from spark_pgoutput.demo.server import PostgresServer

Figures = dict[str, float]

_SAMPLE_SECONDS = 0.25
_DRAIN_SECONDS = 300.0
_CHANGES_OF_TRANSACTION = 100
_LOOKS = 10
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sizes:
    """How much is measured. What is smaller than by default shows only that a measure works.

    Attributes
    ----------
    minutes, settle : float
        How long a running job is measured, and how long it runs before.
    rows : int
        The rows of a large table.
    changes : int
        The changes that a job with `--once` catches up with.
    large : int
        The rows of the one large transaction, and of the tables of `keys`.
    tables : int
        No measure has more tables than that.
    rate : int
        Transactions a second.
    """

    minutes: float = 3.0
    settle: float = 60.0
    rows: int = 1_000_000
    changes: int = 1_000_000
    large: int = 10_000_000
    tables: int = 1_000
    rate: int = 1_000


@dataclass(frozen=True)
class Run:
    """A run of a measure: with a version, into a format, in a folder of its own."""

    version: Version
    kind: str
    folder: Path
    sizes: Sizes

    def job(self, server: PostgresServer, tables: Sequence[Table], name: str = "job") -> Job:
        """Make tables at a server, and a job for them."""
        make(server, tables)
        return Job(self.version, server, self.kind, self.folder / name)


def lag(run: Run) -> Figures:
    """Measure how old the newest change is that a reader sees, at many transactions a second."""
    tables = [
        *(Table(f"large{number}", run.sizes.rows) for number in range(3)),
        *(Table(f"small{number}", min(1000, run.sizes.rows)) for number in range(3)),
    ]
    names = [table.name for table in tables]
    with PostgresServer(SETTINGS) as server:
        job = run.job(server, tables)
        copy = job.copy()
        reader = Reader(run.kind, job.tables)
        with (
            job.running() as process,
            pgbench(server, tables, run.sizes.rate, run.folder) as load,
        ):
            started = time.time()
            reader.watch(names, _after(run.sizes.settle))
            begin, first = time.time(), transactions(server)
            window = Window(job=process, server=postmaster(server), pgbench=load)
            reader.watch(names, _after(60 * run.sizes.minutes))
            used, seconds = window.per_minute(), window.seconds()
            rate = (transactions(server) - first) / seconds
        steps = int(60 * run.sizes.minutes / _SAMPLE_SECONDS)
        times = [begin + number * _SAMPLE_SECONDS for number in range(steps)]
        # Before the first transaction of pgbench, there is nothing that the reader has missed.
        seen = {
            name: [look._replace(written=max(look.written, started)) for look in reader.seen[name]]
            for name in names
        }
        lags = {name: list(lags_at(seen[name], times)) for name in names}
        all_lags = sorted(lag for own in lags.values() for lag in own)
        commits = sum(
            begin <= look.time < times[-1] for own in reader.seen.values() for look in own
        )
        return {
            "lag, median, s": statistics.median(all_lags),
            "lag, 95th percentile, s": all_lags[int(len(all_lags) * 0.95)],
            **{
                f"lag of the {size} tables, median, s": statistics.median(
                    lag for name, own in lags.items() if name.startswith(size) for lag in own
                )
                for size in ("large", "small")
            },
            "versions that the reader saw, for each table and minute": (
                commits / len(tables) / run.sizes.minutes
            ),
            "transactions a second": rate,
            **used,
            **_taken("first copy before", copy),
        }


def thirty(run: Run) -> Figures:
    """Measure the lag of tables of different columns that all get changes at the same time."""
    count = min(30, run.sizes.tables)
    tables = [Table(f"t{number}", 1000, 9 + number) for number in range(count)]
    with PostgresServer(SETTINGS) as server:
        job = run.job(server, tables)
        copy = job.copy()
        lags, used = _lags_of_writes(run, job, tables, tables, changes=50, every=10.0)
        medians = [statistics.median(own) for own in lags.values()]
        overall = statistics.median(lag for own in lags.values() for lag in own)
        return {
            "lag, median, s": overall,
            "lag of the slowest table, median, s": max(medians),
            "slowest table / median": max(medians) / overall,
            **used,
            **_taken("first copy before", copy),
        }


def thousand(run: Run) -> Figures:
    """Measure the lag of a table beside many empty tables, and beside two."""
    figures: Figures = {}
    lags: dict[int, float] = {}
    many = run.sizes.tables
    for count in (many, 3):
        tables = [Table(f"t{number}", 0) for number in range(count)]
        with PostgresServer(SETTINGS) as server:
            job = run.job(server, tables, f"job{count}")
            copy = job.copy()
            own, used = _lags_of_writes(run, job, tables, tables[:1], changes=1, every=3.0)
            lags[count] = statistics.median(own["t0"])
            figures |= {
                f"lag beside {count} tables, median, s": lags[count],
                **{f"{name}, {count} tables": value for name, value in used.items()},
                **_taken(f"first copy of {count} tables", copy),
            }
        shutil.rmtree(job.folder, ignore_errors=True)
    return {f"lag with {many} tables / with 3": lags[many] / lags[3], **figures}


def two_hundred(run: Run) -> Figures:
    """Measure the lag of many tables that each get a change every second, and of one such table.

    The lag of a change ends with the commit of its table in the target.
    """
    figures: Figures = {}
    medians: dict[int, float] = {}
    many = min(200, run.sizes.tables)
    for count in (many, 1):
        tables = [Table(f"t{number}", 1000) for number in range(count)]
        with PostgresServer(SETTINGS) as server:
            job = run.job(server, tables, f"job{count}")
            copy = job.copy()

            def lag_of_write(write: Write, job: Job = job) -> float:
                commits = commits_of(run.kind, job.tables / write.table)
                return commit_lag(commits, write.lsn, write.committed)

            writes, used = _writes(run, job, tables, 1, 1.0, _wait, lag_of_write)
        lags: dict[str, list[float]] = {table.name: [] for table in tables}
        for name, own in lags.items():
            commits = commits_of(run.kind, job.tables / name)
            own += [
                commit_lag(commits, write.lsn, write.committed)
                for write in writes
                if write.table == name
            ]
        shutil.rmtree(job.folder, ignore_errors=True)
        slowest = max(statistics.median(own) for own in lags.values())
        medians[count] = statistics.median(lag for own in lags.values() for lag in own)
        rate = len(writes) / count / run.sizes.minutes / 60
        figures |= {
            f"lag of {count} tables, median, s": medians[count],
            f"slowest of {count} tables / median": slowest / medians[count],
            f"transactions a second in each of {count} tables": rate,
            **{f"{name}, {count} tables": value for name, value in used.items()},
            **_taken(f"first copy of {count} tables", copy),
        }
    return {
        f"lag of {many} tables / {many} times that of one": medians[many] / medians[1] / many,
        **figures,
    }


def keys(run: Run) -> Figures:
    """Measure the lag of 1,000 changes anywhere in a large table, by the type of its key.

    The lag is the time of a commit, and the wait of the job and the reader before and after it.
    """
    figures: Figures = {}
    for key in ("bigint", "uuid"):
        table = Table(f"{key}s", run.sizes.large, key=key)
        with PostgresServer(SETTINGS) as server:
            job = run.job(server, [table], key)
            copy = job.copy()
            lags, used = _lags_of_writes(run, job, [table], [table], changes=1000, every=5.0)
            own = sorted(lags[table.name])
            figures |= {
                f"lag, {key} keys, median, s": statistics.median(own),
                f"lag, {key} keys, 95th percentile, s": own[int(len(own) * 0.95)],
                **{f"{name}, {key} keys": value for name, value in used.items()},
                **_taken(f"first copy, {key} keys", copy),
            }
        shutil.rmtree(job.folder, ignore_errors=True)
    return figures


def hour(run: Run) -> Figures:
    """Measure the CPU of a job for three tables, and the files and scans of one of them.

    By default, the tables get a hundred transactions a second. Let it run for an hour, after which
    the tables have had a commit a second for so long. The looks are at ten random moments of the
    last third of the time.
    """
    tables = [Table(f"large{number}", run.sizes.rows) for number in range(3)]
    seconds = 60 * run.sizes.minutes
    draw = random.Random(44)
    moments = sorted(seconds * draw.uniform(2 / 3, 1) for _ in range(_LOOKS))
    with PostgresServer(SETTINGS) as server:
        fresh = run.job(server, tables, "fresh")
        fresh.copy()
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [SLOT])
        job = Job(run.version, server, run.kind, run.folder / "job")
        copy = job.copy()
        scans = Scans(job, fresh, tables[0].name)
        looks: list[Look] = []
        with (
            job.running() as process,
            pgbench(server, tables, run.sizes.rate // 10, run.folder) as load,
        ):
            first = transactions(server)
            window = Window(job=process, server=postmaster(server), pgbench=load)
            for moment in moments:
                time.sleep(max(0.0, moment - window.seconds()))
                looks.append(scans.look())
                _log.info("after %d s: %s", window.seconds(), looks[-1])
            time.sleep(max(0.0, seconds - window.seconds()))
            used, rate = window.per_minute(), (transactions(server) - first) / window.seconds()
            # The log of a table does not have all commits of an hour any more.
            commits = commits_of(run.kind, job.tables / tables[0].name)
            newest = sum(commit.time > time.time() - 60 for commit in commits)
        scans.close()
        return {
            "files, greatest number": max(look.files for look in looks),
            **_scans("Spark", [look.spark for look in looks]),
            **_scans("DuckDB", [look.duckdb for look in looks]),
            "transactions a second": rate,
            "commits of a table in the last minute": float(newest),
            **used,
            **_taken("first copy before", copy),
        }


def _scans(reader: str, scans: Sequence[Scan]) -> Figures:
    return {
        f"scan by {reader} / of a fresh copy, median": statistics.median(s.ratio for s in scans),
        f"scan by {reader}, median, s": statistics.median(s.table for s in scans),
    }


def first_copies(run: Run) -> Figures:
    """Measure the first copy of small tables in a session that has run a job before."""
    tables = [Table(f"t{number}", 100) for number in range(min(25, run.sizes.tables))]
    with PostgresServer(SETTINGS) as server:
        job = run.job(server, tables)
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute("CREATE PUBLICATION one FOR TABLE t0")
        session = {"spark.jars": JARS, "spark.log.level": "ERROR", **job.settings}
        account = {**job.options, "password": server.password}
        first = {
            **account,
            **{"slot": "one", "publication": "one", "target": f"{job.target}_one"},
            "checkpoint": str(job.folder / "one"),
        }
        script = str(Path(__file__).with_name("warm_session.py"))
        with (job.folder / "output.txt").open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, script, json.dumps(session)],
                cwd=job.folder,
                env=run.version.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        try:
            _answer(process, job, "ready")
            _ask(process, job, first)
            window = Window(job=process.pid, server=postmaster(server))
            seconds = _ask(process, job, account)
            used = window.cpu()
        finally:
            end(process)
        return {
            "seconds": seconds,
            **{f"CPU of {name}, s": value for name, value in used.items()},
        }


def catch_up(run: Run) -> Figures:
    """Measure a job with `--once` that applies many changes anywhere in a table.

    A transaction has 100 changes: half updates, a quarter inserts and a quarter deletes.
    """
    table = Table("orders", run.sizes.rows)
    quarter = _CHANGES_OF_TRANSACTION // 4
    transaction = "; ".join(
        (
            table.update(
                "id IN (SELECT ceil(random() * {rows})::bigint FROM generate_series(1, {half}))"
            ),
            "DELETE FROM orders WHERE id BETWEEN n * {step} + 1 AND n * {step} + {quarter}",
            table.insert(
                "generate_series({rows} + n * {quarter} + 1, {rows} + (n + 1) * {quarter}) AS id"
            ),
        )
    )
    count = run.sizes.changes // _CHANGES_OF_TRANSACTION
    given = {
        "rows": run.sizes.rows,
        "half": 2 * quarter,
        "quarter": quarter,
        "step": run.sizes.rows // count,
    }
    with PostgresServer(SETTINGS) as server:
        job = run.job(server, [table])
        copy = job.copy()
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            connection.execute("SELECT setseed(0.5)")
            body = f"{transaction.format(**given)}; COMMIT;"
            connection.execute(
                f"DO $$ BEGIN FOR n IN 0 .. {count - 1} LOOP {body} END LOOP; END $$".encode()
            )
        window = Window(server=postmaster(server))
        caught_up = job.once()
        used = window.cpu()
        _check(job, caught_up)
        return {
            **_taken("catch-up", caught_up),
            "CPU of the server, s": used["server"],
            **_taken("first copy before", copy),
        }


def idle(run: Run) -> Figures:
    """Measure the CPU of a job while nothing is written."""
    tables = [Table(f"t{number}", 10) for number in range(min(100, run.sizes.tables))]
    with PostgresServer(SETTINGS) as server:
        job = run.job(server, tables)
        copy = job.copy()
        with job.running() as process:
            time.sleep(run.sizes.settle)
            window = Window(job=process, server=postmaster(server))
            time.sleep(60 * run.sizes.minutes)
            used = window.per_minute()
        return {**used, **_taken("first copy before", copy)}


def large(run: Run) -> Figures:
    """Let a job with a heap of 1 GB apply one transaction with many rows."""
    table = Table("orders", 0)
    memory = ("--conf", "spark.driver.memory=1g")
    with PostgresServer(SETTINGS) as server:
        job = run.job(server, [table])
        job.copy()
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            ids = f"generate_series(1, {run.sizes.large}) AS id"
            connection.execute(table.insert(ids).encode())
        window = Window(server=postmaster(server))
        ended = job.once(*memory)
        used = window.cpu()
        applied = ended.status == 0 and Reader(run.kind, job.tables).count("orders")
        passes = applied == run.sizes.large
        if not passes:
            _log.warning("status %s, %s rows\n%s", ended.status, applied, job.output())
        return {
            "passes (1 = yes)": float(passes),
            "greatest resident memory, MiB": ended.peak,
            **_taken("transaction", ended),
            "CPU of the server, s": used["server"],
        }


def _taken(what: str, ended: Ended) -> Figures:
    return {f"{what}, s": ended.seconds, f"{what}, CPU of the job, s": ended.cpu}


def _after(seconds: float) -> Callable[[], bool]:
    """Return a function that says whether so many seconds are over."""
    deadline = time.monotonic() + seconds
    return lambda: time.monotonic() >= deadline


def _lags_of_writes(
    run: Run,
    job: Job,
    tables: Sequence[Table],
    written: Sequence[Table],
    changes: int,
    every: float,
) -> tuple[dict[str, list[float]], Figures]:
    """Write into tables, and return the lags of each one and the CPU of a minute.

    What the reader has not seen five minutes after the last write counts with this time.
    """
    names = [table.name for table in written]
    reader = Reader(run.kind, job.tables)

    def lag_of_write(write: Write) -> float:
        return lag_of(reader.seen.get(write.table, ()), write.written, write.committed)

    def watch(until: Callable[[], bool]) -> None:
        reader.watch(names, until)

    counted, used = _writes(run, job, written, changes, every, watch, lag_of_write)
    last = time.time()
    lags: dict[str, list[float]] = {name: [] for name in names}
    for write in counted:
        lags[write.table].append(min(lag_of_write(write), last - write.committed))
    return lags, used


def _writes(
    run: Run,
    job: Job,
    tables: Sequence[Table],
    changes: int,
    every: float,
    watch: Callable[[Callable[[], bool]], None],
    lag: Callable[[Write], float],
) -> tuple[list[Write], Figures]:
    """Write into tables while the job runs, and return the writes and the CPU of a minute.

    Parameters
    ----------
    run : Run
        It says how long the writes are measured.
    job : Job
        The job, which has copied the tables.
    tables : sequence of Table
        The tables.
    changes, every : int, float
        As of `Writer`.
    watch : callable
        Waits until a condition is true.
    lag : callable
        Returns the lag of a write; infinity if the target lacks it. The job ends when the target
        has the last write of each table, or five minutes after it.
    """
    with job.running() as process:
        writer = Writer(job.server, tables, changes, every)
        writer.start()
        try:
            watch(_after(run.sizes.settle))
            begin = time.time()
            window = Window(job=process, server=postmaster(job.server))
            watch(_after(60 * run.sizes.minutes))
            used = window.per_minute()
        finally:
            writer.stop()
        counted = [write for write in writer.writes if write.committed >= begin]
        late = _after(_DRAIN_SECONDS)
        watch(lambda: late() or all(lag(write) < math.inf for write in counted[-len(tables) :]))
    return counted, used


def _wait(until: Callable[[], bool]) -> None:
    while not until():
        time.sleep(_SAMPLE_SECONDS)


def _check(job: Job, ended: Ended) -> None:
    if ended.status != 0:
        raise RuntimeError(f"The job ended with {ended.status}.\n{job.output()}")


def _answer(process: subprocess.Popen[bytes], job: Job, expected: str = "") -> str:
    assert process.stdout
    answer = process.stdout.readline().decode().strip()
    if not answer or (expected and answer != expected):
        raise RuntimeError(f"The session answers '{answer}'.\n{job.output()}")
    return answer


def _ask(process: subprocess.Popen[bytes], job: Job, options: Mapping[str, str]) -> float:
    """Run a job in the session, and return its seconds."""
    assert process.stdin
    process.stdin.write(json.dumps(options).encode() + b"\n")
    process.stdin.flush()
    return float(_answer(process, job))


MEASURES: Mapping[str, Callable[[Run], Figures]] = {
    "lag": lag,
    "thirty": thirty,
    "first-copies": first_copies,
    "catch-up": catch_up,
    "idle": idle,
    "large": large,
    "keys": keys,
    "hour": hour,
    "two-hundred": two_hundred,
    "thousand": thousand,
}
# These take long, and run only if they are asked for.
LONG = ("large", "keys", "hour", "two-hundred", "thousand")
