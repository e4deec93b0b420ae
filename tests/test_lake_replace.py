"""Tables of Delta and Iceberg whose rows a new copy replaces in one commit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.lake import needs_lake
from support.lake_target import LSN, LakeTarget

pytestmark = [needs_lake, pytest.mark.lake]


@pytest.fixture(params=["spark_catalog.replaced", "folder", "ice.replaced", "ice_jdbc.replaced"])
def target(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> LakeTarget:
    name = request.param
    return LakeTarget(spark, str(tmp_path / "replaced") if name == "folder" else name)


def test_a_new_copy_replaces_rows_and_columns_in_one_commit(
    target: LakeTarget, spark: SparkSession
) -> None:
    target.create("again", "id INT, `a.b` INT, gone STRING, `Case` INT", ["id"])
    target.append("again", "SELECT 1 AS id, 2 AS `a.b`, 'x' AS gone, 3 AS `Case`", None, LSN + 1)
    assert target.generation("again") == 0
    versions = history(target, spark, "again")
    target.replace(
        "again",
        "SELECT 'k' AS id, 'text' AS `a.b`, DATE'2020-01-01' AS `new one`, 4 AS `case`",
        generation=1,
        lsn=LSN + 1,
    )
    (row,) = target.read("again").collect()
    assert row.asDict() == {
        "id": "k",
        "a.b": "text",
        "new one": row["new one"],
        "case": 4,
        "gone": None,
    }
    assert str(row["new one"]) == "2020-01-01"
    assert target.generation("again") == 1
    assert len(history(target, spark, "again") - versions) == 1
    # A second copy can follow, with fewer columns.
    target.replace("again", "SELECT 'k' AS id, 'v' AS `a.b`", generation=2, lsn=LSN + 2)
    assert [row["a.b"] for row in target.read("again").collect()] == ["v"]
    target.drop("again")
    assert "again" not in target.tables()
    target.drop("again")


@pytest.mark.parametrize("generation", [0, 1])
def test_a_process_that_slept_during_a_new_copy_changes_nothing(
    target: LakeTarget, generation: int
) -> None:
    target.create("slept", "id INT", ["id"])
    target.append("slept", "SELECT 1 AS id", None, LSN + 1)
    target.replace("slept", "SELECT 2 AS id", generation=1, lsn=LSN + 1)
    if generation == 0:
        target.replace("slept", "SELECT 2 AS id", generation=2, lsn=LSN + 1)
    writes: list[Callable[[], None]] = [
        lambda: target.append("slept", "SELECT 3 AS id", LSN + 1, LSN + 2),
        lambda: target.merge("slept", "SELECT 4 AS id", LSN + 1, LSN + 2),
        lambda: target.replace("slept", "SELECT 5 AS id", generation=1, lsn=LSN + 3),
    ]
    for write in writes:
        with pytest.raises(PySparkException) as caught:
            write()
        assert caught.value.getCondition() == "PGOUTPUT_OTHER_JOB"
    assert [row["id"] for row in target.read("slept").collect()] == [2]
    target.drop("slept")


def history(target: LakeTarget, spark: SparkSession, table: str) -> set[object]:
    """Return the commits that changed rows or columns."""
    name = target.sql_name(table)
    if target.target.format() == "iceberg":
        return {row.snapshot_id for row in spark.sql(f"SELECT * FROM {name}.snapshots").collect()}
    commits = spark.sql(f"DESCRIBE HISTORY {name}").collect()
    return {row.version for row in commits if row.operation != "CLUSTER BY"}
