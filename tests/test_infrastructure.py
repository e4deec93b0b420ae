"""Jobs on object stores and catalogs as users have them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.infrastructure import (
    SETUP,
    ObjectStore,
    RestCatalog,
    StoredJob,
    needs_infrastructure,
)
from support.job_tables import wait_until_equal
from support.lake_judge import assert_equal
from support.servers import Server, server_fixture

pytestmark = [needs_infrastructure, pytest.mark.store]

server = server_fixture(SETUP)


def test_jobs_keep_tables_equal_in_s3(
    server: Server, store: ObjectStore, rest: RestCatalog, tmp_path: Path, spark: SparkSession
) -> None:
    """One job writes Delta by s3a, and one Iceberg by a REST catalog. The checkpoints use s3a."""
    delta = StoredJob(tmp_path, server, "delta", store, rest, slot="delta")
    iceberg = StoredJob(tmp_path, server, "iceberg", store, rest, slot="iceberg")
    with delta.session(spark) as start_delta, iceberg.session(spark) as start_iceberg:
        running = {delta: start_delta(), iceberg: start_iceberg()}
        for job in running:
            wait_until_equal(spark, job, running[job], ["good"])
        server.execute(
            "UPDATE good SET v = 'b' WHERE id < 10; DELETE FROM good WHERE id > 900;"
            "INSERT INTO good VALUES (0, 'c')"
        )
        for job in running:
            wait_until_equal(spark, job, running[job], ["good"])
    # After a restart, the jobs go on with the state in the store.
    server.execute("DELETE FROM good WHERE id % 2 = 0")
    for job in running:
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, {"good": "good"})
        assert any(key.startswith("checkpoint/state/") for key in store.keys(job.bucket))
    assert all(commit.is_conditional for commit in delta.commits("good"))
    assert len(delta.commits("good")) >= 3
