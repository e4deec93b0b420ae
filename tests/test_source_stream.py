"""A stream of a slot has every change once and in order, also if it or the server is killed.

These are the short tests. `make test-slot` runs the long ones on all versions of PostgreSQL.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.postgres_binaries import VERSIONS
from support.slot_kills import end_walsender
from support.slot_proof import SMALL_BATCHES, proven


def test_a_stream_of_the_oldest_server_has_each_change(tmp_path: Path, spark: SparkSession) -> None:
    with proven(tmp_path, VERSIONS[0], seed="oldest", last=spark):
        time.sleep(3)


@pytest.mark.takes_long
def test_driver_and_walsender_are_killed(tmp_path: Path, spark: SparkSession) -> None:
    """The stream then goes on in the session of the tests."""
    small = proven(tmp_path, options=SMALL_BATCHES, seed="two kills", last=spark)
    with small as (server, stream):
        with stream.running() as process:
            process.wait_for_batches(3)
            end_walsender(server)
            process.wait_for_batches(3)
            process.kill()
        time.sleep(1)
