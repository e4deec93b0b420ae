"""One transaction that is much larger than the memory of an executor."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import lake
from support.lake_job import LakeJob
from support.processes import errors_of
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

ROWS = 10_000_000
LIMIT = 3600  # seconds that the job may take for one of the transactions

server = server_fixture(
    "CREATE TABLE big (id bigint PRIMARY KEY, a int, b text, c timestamptz);"
    "CREATE PUBLICATION big FOR TABLE big",
    scope="module",
)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_transaction_of_10_million_rows_is_applied(
    server: Server, tmp_path: Path, spark: SparkSession, target: str
) -> None:
    job = LakeJob(tmp_path, server, target, slot=target, publication="big")
    server.execute("TRUNCATE big")
    memory = {"spark.driver.memory": "1g", "spark.executor.memory": "1g"}
    settings = {**memory, "spark.sql.shuffle.partitions": "8"}
    changes = (
        "",
        f"INSERT INTO big SELECT n, n % 7, md5(n::text), now() FROM generate_series(1, {ROWS}) n",
        "UPDATE big SET a = a + 1, id = -id WHERE id % 2 = 0",
    )
    for change in changes:
        server.execute(change or "SELECT")
        with job.running("--once", settings=settings, master="local-cluster[1,2,1024]") as process:
            output, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, output + errors_of(tmp_path)[-5000:]
    job.use(spark)
    sums = "count(*), sum(id), sum(a), min(b), max(b), count(DISTINCT c)"
    found = spark.sql(f"SELECT {sums} FROM {job.sql_name('big')}").first()
    assert [*map(str, found or ())] == [*map(str, server.execute(f"SELECT {sums} FROM big")[0])]
    # The server keeps the WAL of both transactions for the slot.
    server.drop_slot(job.slot)
