"""Tables of a real server, kept equal in Delta and Iceberg."""

from __future__ import annotations

import itertools
import random
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake, lake_history
from support.background import background
from support.history_judge import assert_histories
from support.job_folder import job_state
from support.lake_both import assert_both
from support.lake_history import History
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_options import choose, with_history
from support.lake_points import (
    APPLYING,
    COPYING,
    copied,
    first_table_is_applied,
    kill,
    kill_at,
    kill_when,
    table_is_copied,
)
from support.postgres_binaries import VERSIONS
from support.processes import errors_of
from support.servers import Server, server_fixture

pytestmark = lake.needs_lake

HISTORIES = {"readings": "readings"}
MIRRORED = {name: target for name, target in lake_history.TABLES.items() if name not in HISTORIES}
MODES = dict.fromkeys(HISTORIES, "history")

server = server_fixture(lake_history.SETUP)


@pytest.mark.lake
def test_a_kill_in_the_copy_repeats_only_copies_that_were_under_way(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The job then runs in the session of the tests."""
    job = LakeJob(tmp_path, server, "delta", mode=MODES)
    with job.running() as process:
        kill_at(process, job, table_is_copied)
    done = copied(job)
    History(server, seed=1).run(60)
    with job.session(spark) as replicate:
        report = replicate(once=True).report()
    again = {line.split(":")[0] for line in report if line.startswith("Copied ")}
    names = {target: f"Copied public.{source}" for source, target in lake_history.TABLES.items()}
    assert again == {name for target, name in names.items() if target not in done}
    assert_equal(spark, job, MIRRORED)
    assert_histories(spark, job, HISTORIES)


@pytest.mark.lake
def test_tables_are_equal_after_a_kill_between_the_commits_of_two_tables(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The job then runs in the session of the tests, and `verify` compares the tables."""
    job = LakeJob(tmp_path, server, "iceberg", mode=MODES)
    with History(server, seed=1).running(), job.running() as process:
        kill_at(process, job, first_table_is_applied)
    job.use(spark)
    found = spark_pgoutput.verify(spark, once=True, **job.options).collect()  # type: ignore[arg-type]
    assert {row.target: row.result for row in found} == {
        **dict.fromkeys(MIRRORED.values(), "equal"),
        **dict.fromkeys(HISTORIES.values(), "skipped"),
    }
    assert_equal(spark, job, MIRRORED)
    assert_histories(spark, job, HISTORIES)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
@pytest.mark.parametrize("server", VERSIONS, indirect=True)
def test_job_is_killed_between_two_steps(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    history = History(server, seed=2)
    for points in (COPYING, APPLYING):
        for point in points:
            with history.running(), job.running() as process:
                kill_at(process, job, point)
        assert job.run_once() == 0
        assert_equal(spark, job)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_job_is_killed_while_columns_change(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The next process completes the change. The table is not copied again.

    If a change is over before the test sees it, the test makes another one of its kind.
    """
    job = LakeJob(tmp_path, server, target)
    # A TRUNCATE beside a change of columns is a reason for a copy.
    history = History(server, seed=3, truncated={})
    assert job.run_once() == 0
    columns = (f"new_{number}" for number in itertools.count())
    digits = itertools.count(9)
    column = ""

    def alter(kind: str, ended: threading.Event) -> None:
        nonlocal column
        done = None
        while not ended.wait(0.1):
            state = job_state(job.checkpoint)
            if state.definition("orders") != done and not state.is_altered("orders"):
                done = state.definition("orders")
                old, column = column, column if kind == "TYPE" else next(columns)
                change = {
                    "ADD": f"ADD {column} numeric(8, 2)",
                    "RENAME": f"RENAME {old} TO {column}",
                    "TYPE": f"ALTER {column} TYPE numeric({next(digits)}, 2)",
                }[kind]
                server.execute(f"ALTER TABLE orders {change}")
                server.execute("UPDATE orders SET status = status || '.' WHERE id < 5")

    for kind in ("ADD", "RENAME", "TYPE"):
        with history.running(), job.running() as process:
            job.wait_until_connected(process)
            with background(partial(alter, kind)):
                kill_when(process, job, lambda: job_state(job.checkpoint).is_altered("orders"))
        with job.session(spark) as replicate:
            report = replicate(once=True).report()
            assert not [line for line in report if line.startswith("Copying ")], report
    assert_equal(spark, job)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
@pytest.mark.parametrize("server", VERSIONS, indirect=True)
def test_job_is_killed_again_and_again(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """Between two kills, the job copies or applies for some seconds.

    Each target gets 20 kills, 4 of them on each version of the server. Each run has other options.
    """
    moments = random.Random(server.version)
    options = choose(moments, target, lake_history.TABLES)
    print(options)
    job = LakeJob(tmp_path, server, target, mode={}, tables=options)
    with History(server, seed=server.version).running():
        for _ in range(20 // len(VERSIONS)):
            with job.running() as process:
                job.wait_until_connected(process)
                time.sleep(moments.uniform(0, 8))
                assert process.poll() is None, "the job has ended"
                kill(process)
    assert job.run_once() == 0
    assert_equal(spark, job)
    assert_both(spark, job, {name: lake_history.TABLES[name] for name in with_history(options)})


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_the_log_of_a_job_has_no_errors(target: str, server: Server, tmp_path: Path) -> None:
    """By itself, Delta logs an error when a streaming query reads a table with deletion vectors."""
    job = LakeJob(tmp_path, server, target)
    history = History(server, seed=1)
    for _ in range(3):
        history.run(20)
        assert job.run_once() == 0
        assert " ERROR " not in errors_of(tmp_path)
