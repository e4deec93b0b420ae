"""Jobs that keep tables equal for a long time, while everything happens to them.

One job writes Delta and another one Iceberg, both from the same server. The seed of `make soak`
chooses what happens. It does not choose the moments, which differ from run to run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

import spark_pgoutput
from support import lake, lake_history, lake_judge, lake_reshaped
from support.history_judge import assert_histories
from support.job_folder import job_state
from support.lake_both import assert_both
from support.lake_history import History
from support.lake_job import LakeJob
from support.lake_options import choose, with_history
from support.lake_points import first_table_is_applied, kill, kill_at
from support.lake_reshaped import Reshapes
from support.lake_schema_changes import ALTERED, SchemaChanges
from support.lake_target import LakeTarget, is_compacted
from support.postgres_binaries import VERSIONS
from support.processes import TIMEOUT
from support.servers import Server, wait_until
from support.slot_kills import kill_postmaster, restart, restart_immediately

pytestmark = [lake.needs_lake, pytest.mark.soak]

# The table with the mode `history`. No schema change touches it.
HISTORY = "events"

# The other tables are never truncated, so that each verification can compare some.
TRUNCATED = dict.fromkeys(["orders", "readings", "orders, readings", HISTORY], 0.01)

PUBLICATIONS = f"{lake_history.PUBLICATION},{lake_reshaped.PUBLICATION}"

# Compactions keep snapshots of this age, because a verification needs the files of the version that
# it reads.
KEPT = timedelta(minutes=10)


def test_tables_stay_equal(
    tmp_path: Path, spark: SparkSession, pytestconfig: pytest.Config
) -> None:
    seed = pytestconfig.getoption("--seed")
    ends = time.monotonic() + pytestconfig.getoption("--soak")
    dice = random.Random(seed)
    version = dice.choice(VERSIONS)
    print(f"\nseed {seed}, PostgreSQL {version}", flush=True)
    with Server(version) as server:
        server.execute(lake_history.SETUP)
        server.execute(lake_reshaped.SETUP)
        schema = SchemaChanges(server, dice, [*ALTERED, *lake_reshaped.ALTERED])
        jobs = [SoakedJob(tmp_path, server, target, spark, dice) for target in lake.TARGETS]
        soak = Soak(jobs, schema, server, dice)
        history = History(server, dice.randrange(1000), TRUNCATED, others=lake_reshaped.write)
        for job in jobs:
            assert job.job.run_once() == 0
        with ExitStack() as stack:
            for job in jobs:
                stack.callback(job.kill)
            with history.running():
                while time.monotonic() < ends:
                    soak.do_something()
            print(", ".join(f"{name}: {count}" for name, count in sorted(soak.done.items())))
            for job in jobs:
                job.assert_equal(soak.tables)


class SoakedJob:
    """A job in a process that is killed and starts again."""

    def __init__(
        self, folder: Path, server: Server, target: str, spark: SparkSession, dice: random.Random
    ) -> None:
        (folder / target).mkdir()
        tables = (*lake_history.TABLES, *lake_reshaped.TABLES)
        options = choose(dice, target, (table for table in tables if table != HISTORY))
        print(target, options)
        self.name = target
        self.job = LakeJob(
            folder / target,
            server,
            target,
            slot=f"lake_{target}",
            publication=PUBLICATIONS,
            mode={HISTORY: "history"},
            tables=options,
        )
        self.spark = spark
        self._running = ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self._epoch = 0
        #: How many tables were equal and how many were skipped, in all verifications.
        self.results: Counter[str] = Counter()
        self.job.use(spark)

    @property
    def process(self) -> subprocess.Popen[str]:
        """The process. It starts if there is none. One that has ended by itself is an error."""
        if self._process is None:
            self._epoch = job_state(self.job.checkpoint).epoch
            self._process = self._running.enter_context(self.job.running())
            self.job.wait_until_connected(self._process)
        assert self._process.poll() is None, self.job.ending(self._process)
        return self._process

    def wait_until_started(self) -> None:
        """Wait until the process has taken its epoch."""
        wait_until(
            lambda: self.process and job_state(self.job.checkpoint).epoch > self._epoch, TIMEOUT
        )

    def ended(self) -> None:
        """Forget the process, which something has killed."""
        self._process = None
        self._running.close()

    def kill(self) -> None:
        """Kill the process if there is one."""
        if self._process is not None:
            if self._process.poll() is None:
                kill(self._process)
            self.ended()

    def stop(self) -> None:
        """Let the process end in order."""
        process = self.process
        os.kill(process.pid, signal.SIGTERM)
        output, _ = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 128 + signal.SIGTERM, output
        self.ended()

    def verified(self, **options: object) -> list[Row]:
        """Compare the tables with those of the server, and check that nothing differs."""
        given: dict[str, object] = {"checkpoint": self.job.checkpoint, "tell": print, **options}
        found = spark_pgoutput.verify(self.spark, **given).collect()  # type: ignore[arg-type]
        results = Counter(row.result for row in found)
        assert results.keys() <= {"equal", "skipped"}, found
        self.results += results
        return found

    def assert_equal(self, tables: Mapping[str, str]) -> None:
        """Let the job catch up, and compare everything, by its own means and by psycopg."""
        self.kill()
        assert not self.results or self.results["equal"] > 0, self.results
        assert self.job.run_once(timeout=4 * TIMEOUT) == 0
        found = self.verified(once=True, **self.job.options)
        assert {(row.target, row.result) for row in found} == {
            (table, "skipped" if table == HISTORY else "equal") for table in tables.values()
        }, found
        mirrors = {source: table for source, table in tables.items() if table != HISTORY}
        lake_judge.assert_equal(self.spark, self.job, mirrors)
        both = with_history(self.job.table_options)
        assert_both(self.spark, self.job, {source: tables[source] for source in both})
        assert_histories(self.spark, self.job, {HISTORY: HISTORY})


class Soak:
    """Does things to jobs, their server and their tables, and counts them.

    Parameters
    ----------
    jobs : sequence of SoakedJob
        The jobs.
    schema : SchemaChanges
        Changes the tables at the server.
    dice : random.Random
        Chooses what is done.
    """

    def __init__(
        self, jobs: Sequence[SoakedJob], schema: SchemaChanges, server: Server, dice: random.Random
    ) -> None:
        self._jobs, self._schema, self._server, self._dice = jobs, schema, server, dice
        self._reshapes = Reshapes(server, dice)
        #: How often each thing was done.
        self.done: Counter[str] = Counter()
        self._begun = time.monotonic()
        self._things: dict[Callable[[SoakedJob], object], int] = {
            self.kill: 3,
            self.kill_between_tables: 2,
            self.stop: 1,
            self.run_once: 1,
            self.end_server: 2,
            self.end_session: 1,
            self.change_schema: 5,
            self.reshape: 5,
            self.resync: 2,
            self.kill_in_resync: 2,
            self.resync_all: 1,
            self.verify: 3,
            self.kill_in_verify: 1,
            self.compact: 4,
            self.look: 1,
        }

    @property
    def tables(self) -> dict[str, str]:
        """The tables of the target, by those of the server."""
        return {**self._schema.tables, **lake_reshaped.TABLES}

    def do_something(self) -> None:
        """Do one thing to one job, while both run."""
        for job in self._jobs:
            assert job.process
        self._sleep(10)
        (thing,) = self._dice.choices(list(self._things), list(self._things.values()))
        job = self._dice.choice(self._jobs)
        text = thing(job)
        self.done[f"{thing.__name__} {job.name}"] += 1
        seconds = time.monotonic() - self._begun
        print(f"{seconds:6.0f} s: {thing.__name__} {job.name} {text or ''}", flush=True)

    def kill(self, job: SoakedJob) -> None:
        """Kill the job at any moment."""
        job.kill()

    def kill_between_tables(self, job: SoakedJob) -> None:
        """Kill the job when it has written changes to some of the tables."""
        kill_at(job.process, job.job, first_table_is_applied)
        job.ended()

    def stop(self, job: SoakedJob) -> None:
        """Let the job end in order."""
        job.stop()

    def run_once(self, job: SoakedJob) -> None:
        """Let the job catch up, and copy what waits for a copy, while the clients write."""
        job.kill()
        assert job.job.run_once(timeout=4 * TIMEOUT) == 0

    def end_server(self, _: SoakedJob) -> str:
        """Let the server end, in one way or another, and start again.

        Without a server, a job that has started waits, and one that starts ends.
        """
        for job in self._jobs:
            job.wait_until_started()
        how = self._dice.choice([restart, restart_immediately, kill_postmaster])
        how(self._server)
        return how.__name__

    def end_session(self, job: SoakedJob) -> None:
        """End the session that reads the slot."""
        self._server.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots "
            f"WHERE slot_name = '{job.job.slot}' AND active"
        )

    def change_schema(self, _: SoakedJob) -> str:
        """Change the tables at the server."""
        return self._schema.make_one()

    def reshape(self, _: SoakedJob) -> str:
        """Change keys, partitions and the publication at the server."""
        return self._reshapes.make_some()

    def resync(self, job: SoakedJob) -> str:
        """Ask for a new copy of a table."""
        table = self._dice.choice(list(self.tables))
        return str(spark_pgoutput.resync(job.spark, checkpoint=job.job.checkpoint, tables=[table]))

    def kill_in_resync(self, job: SoakedJob) -> str:
        """Ask for a new copy of a table, and kill the job some time later."""
        asked = self.resync(job)
        self._sleep(20)
        job.kill()
        return asked

    def resync_all(self, job: SoakedJob) -> None:
        """Ask for new copies of all tables, with a new slot and a new checkpoint."""
        spark_pgoutput.resync(job.spark, checkpoint=job.job.checkpoint, all=True)

    def verify(self, job: SoakedJob) -> str:
        """Let the job compare its tables with those of the server while the clients write."""
        return results(job.verified(timeout=4 * TIMEOUT))

    def kill_in_verify(self, job: SoakedJob) -> str:
        """Kill the job while it compares its tables. It answers after its next start."""
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(job.verified, timeout=4 * TIMEOUT)
            self._sleep(20)
            job.kill()
            assert job.process
            return results(answer.result())

    def compact(self, job: SoakedJob) -> str:
        """Compact a table, and remove what older readers no longer need."""
        target = LakeTarget(job.spark, job.job.target)
        table = self._dice.choice(list(self.tables.values()))
        before = datetime.now(timezone.utc) - KEPT
        done = is_compacted(target, table, expire_before=f"{before:%Y-%m-%d %H:%M:%S}")
        return table if done else f"{table}, in vain"

    def look(self, job: SoakedJob) -> str:
        """Read the states of the job's tables, and check that none has failed."""
        tables = spark_pgoutput.applied(job.spark, job.job.checkpoint).collect()
        failed = [f"{row.table}: {row.reason}" for row in tables if row.state == "failed"]
        assert not failed, failed
        return str(dict(Counter(row.state for row in tables)))

    def _sleep(self, most: float) -> None:
        time.sleep(self._dice.uniform(0, most))


def results(found: Sequence[Row]) -> str:
    """Return how many tables were equal, and why others were skipped."""
    reasons = [f"{row.table}: {row.reason}" for row in found if row.result == "skipped"]
    return f"{len(found) - len(reasons)} tables are equal {' '.join(reasons)}"
