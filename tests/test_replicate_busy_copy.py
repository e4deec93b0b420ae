"""The copy of a table that changes at the same time."""

from __future__ import annotations

import random
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from support import lake
from support.background import background
from support.job_report import wait_while_running
from support.job_tables import JobTables
from support.lake_job import LakeJob
from support.processes import TIMEOUT
from support.servers import Server, server_fixture, wait_until

pytestmark = lake.needs_lake

server = server_fixture(
    "CREATE TABLE t (id int PRIMARY KEY, v int, note text); CREATE PUBLICATION p FOR TABLE t"
)

# The same in the SQL of PostgreSQL and Spark. It changes if a row is lost or is there twice.
SUM = (
    "SELECT count(*), sum(id), sum(v), "
    "sum(CAST(id + 1 AS bigint) * (v % 1000 + 1) % 1000003), count(note) FROM "
)


def writing(server: Server, rows: int, rate: int, seed: int) -> AbstractContextManager[None]:
    """Change rows of the table in each way until the end of the block."""

    def write(ended: threading.Event) -> None:
        moments = random.Random(seed)
        size = max(1, rate // 20)  # of a transaction
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            due = time.monotonic()
            while not ended.is_set():
                low = moments.randrange(rows)
                high = low + size
                kind = moments.randrange(4)
                between = f"WHERE id BETWEEN {low} AND {high - 1}"
                statements = {
                    0: f"UPDATE t SET v = v + 1 {between}",
                    1: f"DELETE FROM t {between}",
                    2: f"INSERT INTO t SELECT g, {low}, 'new' FROM generate_series({low}, {high}) g"
                    " ON CONFLICT (id) DO UPDATE SET v = excluded.v, note = NULL",
                    3: f"UPDATE t SET id = id + {2 * rows} {between} AND id + {2 * rows} NOT IN "
                    f"(SELECT id FROM t WHERE id BETWEEN {low + 2 * rows} AND {high + 2 * rows})",
                }
                connection.execute(statements[kind].encode())
                due = max(due + 0.05, time.monotonic() - 1)
                ended.wait(max(0.0, due - time.monotonic()))

    return background(write)


@pytest.mark.lake
@pytest.mark.parametrize(("rows", "rate"), [(20_000, 200), (2_000_000, 2_000)])
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_copy_and_the_changes_beside_it_make_the_table(
    target: str, rows: int, rate: int, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(f"INSERT INTO t SELECT g, g % 1000, 'first' FROM generate_series(1, {rows}) g")
    job = LakeJob(tmp_path, server, target, publication="p")
    job.use(spark)
    with job.session(spark) as replicate:
        with writing(server, rows, rate, seed=1):
            running = replicate()
            tables = JobTables(running)
            tables.wait("live", "t")
            # Some of the changes are applied after the copy, and not in it.
            last = tables.rows()["t"].last_change
            wait_until(lambda: tables.rows()["t"].last_change != last, TIMEOUT, 0.1)
        wanted = server.execute(SUM + "t")[0]

        def is_equal() -> bool:
            return tuple(spark.sql(SUM + job.sql_name("t")).collect()[0]) == wanted

        wait_while_running(running, is_equal, TIMEOUT, 0.2)
        assert running.failed() == []
