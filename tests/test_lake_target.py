"""Tables of Delta and Iceberg: how they are made, and the mark that each commit writes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.lake import needs_iceberg, needs_lake
from support.lake_catalog import elements
from support.lake_target import LSN, LakeTarget, compact

pytestmark = needs_lake

# `make test` runs the third one.
TARGETS = [
    pytest.param("spark_catalog.shop", marks=pytest.mark.lake),
    pytest.param("folder", marks=pytest.mark.lake),
    pytest.param("ice.shop", marks=needs_iceberg),
    pytest.param("ice_jdbc.shop", marks=[needs_iceberg, pytest.mark.lake]),
]

NAMES = [
    "id",
    "a b",
    "a.b",
    "back`tick",
    "quo\"te's",
    "smile 😀",
    "semi;colon,(x)=y",
    "back\\slash",
]


@pytest.fixture(params=TARGETS)
def target(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> LakeTarget:
    name = request.param
    if name == "folder":
        name = str(tmp_path_factory.mktemp("lake folder") / "shop")
    return LakeTarget(spark, name)


@pytest.fixture
def table(target: LakeTarget, request: pytest.FixtureRequest) -> str:
    """Make a table with one row, whose mark is LSN + 1."""
    name = re.sub("[^a-z0-9]+", "_", request.node.name)
    target.create(name, "id INT, v STRING", ["id"])
    assert target.mark(name) is None
    target.append(name, "SELECT 1 AS id, 'a' AS v", None, LSN + 1)
    return name


def rows(target: LakeTarget, table: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in target.read(table).collect())


def condition(action: Callable[[], None]) -> str:
    with pytest.raises(PySparkException) as caught:
        action()
    return str(caught.value.getCondition())


def test_a_commit_writes_rows_and_mark_at_once(target: LakeTarget, table: str) -> None:
    assert target.mark(table) == LSN + 1
    target.merge(table, "SELECT * FROM VALUES (1, 'b'), (2, 'c') AS (id, v)", LSN + 1, LSN + 2)
    assert rows(target, table) == [(1, "b"), (2, "c")]
    assert target.mark(table) == LSN + 2
    # A MERGE that changes nothing moves the mark too.
    target.merge(table, "SELECT 1 AS id, 'x' AS v WHERE rand() > 5", LSN + 2, LSN + 3)
    assert target.mark(table) == LSN + 3
    target.overwrite(table, "SELECT 7 AS id, 'z' AS v", LSN + 3, LSN + 4)
    assert (rows(target, table), target.mark(table)) == ([(7, "z")], LSN + 4)


def test_the_session_of_a_micro_batch_makes_no_catalog(target: LakeTarget, table: str) -> None:
    """Nobody would close the connections of the catalog, and each micro-batch has new sessions."""
    session = target.spark._jsparkSession.cloneSession()
    assert target.target.read(session, table).count() == 1
    target.merge(table, "SELECT 1 AS id, 'b' AS v", LSN + 1, LSN + 2, session=session)
    assert rows(target, table) == [(1, "b")]
    made = session.sessionState().catalogManager().listCatalogs(target.jvm.scala.Option.empty())
    assert list(elements(made)) == ["spark_catalog"]


@pytest.mark.parametrize("later", [5, pytest.param(3, marks=pytest.mark.lake)])
def test_a_stale_driver_changes_nothing(target: LakeTarget, table: str, later: int) -> None:
    """It has read the mark LSN + 1. Then another driver has applied changes up to LSN + 4.

    Delta itself would commit the mark LSN + 5 of the stale driver, and silently skip LSN + 3.
    """
    target.merge(table, "SELECT 1 AS id, 'new' AS v", LSN + 1, LSN + 4)
    for write in (target.merge, target.append, target.overwrite):
        stale = condition(lambda: write(table, "SELECT 1 AS id, 'old' AS v", LSN + 1, LSN + later))  # noqa: B023
        assert stale == "PGOUTPUT_OTHER_JOB"
    assert (rows(target, table), target.mark(table)) == ([(1, "new")], LSN + 4)


@contextmanager
def during_a_merge(target: LakeTarget, table: str, folder: Path) -> Iterator[list[str]]:
    """Run the block while a MERGE from LSN + 1 to LSN + 5 runs, and give its error condition."""
    started, go_on = str(folder / "started"), str(folder / "go on")

    def wait(value: str) -> str:
        Path(started).touch()
        while not Path(go_on).exists():
            time.sleep(0.05)
        return value

    target.spark.udf.register("wait", wait)
    rows = "SELECT CAST(id AS INT) AS id, wait('old') AS v FROM range(1, 2)"
    found: list[str] = []

    def merge() -> None:
        found.append(condition(lambda: target.merge(table, rows, LSN + 1, LSN + 5)))

    thread = threading.Thread(target=merge)
    thread.start()
    while not Path(started).exists() and thread.is_alive():
        time.sleep(0.05)
    yield found
    Path(go_on).touch()
    thread.join()


@pytest.mark.lake
def test_a_driver_that_becomes_stale_in_its_merge_changes_nothing(
    target: LakeTarget, table: str, tmp_path: Path
) -> None:
    with during_a_merge(target, table, tmp_path) as found:
        target.merge(table, "SELECT 1 AS id, 'new' AS v", LSN + 1, LSN + 4)
    assert found == ["PGOUTPUT_OTHER_JOB"]
    assert (rows(target, table), target.mark(table)) == ([(1, "new")], LSN + 4)


@pytest.mark.lake
def test_a_commit_beside_a_compaction_can_be_tried_again(
    target: LakeTarget, table: str, tmp_path: Path
) -> None:
    # A second file, because Delta leaves a single one as it is.
    target.spark.sql(f"INSERT INTO {target.sql_name(table)} VALUES (2, 'c')")
    with during_a_merge(target, table, tmp_path) as found:
        compact(target, table)
    assert found == ["PGOUTPUT_COMMIT_CONFLICT"]
    assert (rows(target, table), target.mark(table)) == ([(1, "a"), (2, "c")], LSN + 1)
    target.merge(table, "SELECT 1 AS id, 'b' AS v", LSN + 1, LSN + 5)
    assert (rows(target, table), target.mark(table)) == ([(1, "b"), (2, "c")], LSN + 5)


@pytest.mark.lake
def test_maintenance_keeps_the_mark(target: LakeTarget, table: str) -> None:
    target.merge(table, "SELECT * FROM VALUES (1, 'b'), (2, 'c') AS (id, v)", LSN + 1, LSN + 2)
    for _ in range(2):
        compact(target, table, expire_before="2999-01-01")
        assert target.mark(table) == LSN + 2
    target.merge(table, "SELECT 1 AS id, 'd' AS v", LSN + 2, LSN + 3)
    assert (rows(target, table), target.mark(table)) == ([(1, "d"), (2, "c")], LSN + 3)


@pytest.mark.lake
def test_older_rows_do_not_have_the_newer_mark(target: LakeTarget, table: str) -> None:
    name = target.sql_name(table)
    delta = target.target.format() == "delta"
    if not delta:
        history = target.spark.sql(f"SELECT snapshot_id FROM {name}.history")
        first = history.collect()[0].snapshot_id
    target.merge(table, "SELECT 1 AS id, 'b' AS v", LSN + 1, LSN + 2)
    if delta:
        (version, *_), *_ = target.spark.sql(f"DESCRIBE HISTORY {name}").collect()
        target.spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {version - 1}")
        merge = "SELECT 1 AS id, 'c' AS v"
        assert condition(lambda: print(target.mark(table))) == "PGOUTPUT_MARK_LOST"
        stale = condition(lambda: target.merge(table, merge, LSN + 2, LSN + 3))
        assert stale == "PGOUTPUT_MARK_LOST"
    else:
        catalog, part = name.split(".", 1)
        target.spark.sql(
            f"CALL {catalog}.system.rollback_to_snapshot('{part.replace('`', '')}', {first})"
        )
        assert target.mark(table) == LSN + 1
        stale = condition(lambda: target.merge(table, "SELECT 1 AS id, 'c' AS v", LSN + 2, LSN + 3))
        assert stale == "PGOUTPUT_OTHER_JOB"
    assert rows(target, table) == [(1, "a")]


@pytest.mark.lake
def test_columns_and_tables_can_have_unusual_names(target: LakeTarget) -> None:
    name = "any" if target.target.nameProblem("a b.c`d'e\"f 😀").isDefined() else "a b.c`d'e\"f 😀"
    quoted = ["`" + column.replace("`", "``") + "`" for column in NAMES]
    schema = ", ".join(f"{column} INT" for column in quoted)
    target.create(name, schema, NAMES[:4], {"my.property": "it's \\ a value"})
    assert target.properties(name)["my.property"] == "it's \\ a value"
    assert_cheap_to_merge(target, name, key=NAMES[:4])
    assert name in target.tables()
    values = ", ".join(f"{i} AS {column}" for i, column in enumerate(quoted))
    target.append(name, f"SELECT {values}", None, LSN + 1)
    update = ", ".join(f"t.{column} = s.{column} + 1" for column in quoted)
    on = " AND ".join(f"t.{column} = s.{column}" for column in quoted)
    clauses = f"WHEN MATCHED THEN UPDATE SET {update}"
    target.merge(name, f"SELECT {values}", LSN + 1, LSN + 2, on, clauses)
    for change, column, to in [
        ("Add", "new `x`.y", "STRING"),
        ("Rename", "a b", "c d.e"),
        ("Widen", "back`tick", "BIGINT"),
    ]:
        for _ in range(2):  # a change that was already made is left out
            target.alter(name, change, column, to)
    found = target.read(name)
    assert found.columns == ["id", "c d.e", *NAMES[2:], "new `x`.y"]
    assert dict(found.dtypes)["back`tick"] == "bigint"
    assert [tuple(row) for row in found.collect()] == [(*range(1, len(NAMES) + 1), None)]


def assert_cheap_to_merge(target: LakeTarget, table: str, key: list[str]) -> None:
    """Check that a MERGE marks rows as deleted, and does not write their whole files again."""
    name = target.sql_name(table)
    found = {row.key: row.value for row in target.spark.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    if target.target.format() == "delta":
        assert found["delta.enableDeletionVectors"] == "true"
        assert found["delta.columnMapping.mode"] == "name"
        detail = target.spark.sql(f"DESCRIBE DETAIL {name}").first()
        assert detail
        assert [column.strip("`").replace("``", "`") for column in detail.clusteringColumns] == key
    else:
        modes = {found[f"write.{command}.mode"] for command in ("delete", "update", "merge")}
        assert modes == {"merge-on-read"}
        assert found["format-version"] == "2"


@pytest.mark.takes_long
@pytest.mark.parametrize(
    "left",
    [
        "_delta_log/.00000000000000000000.json.b36c.tmp",
        pytest.param("metadata/d4af.metadata.json", marks=needs_iceberg),
    ],
)
def test_a_table_is_made_where_making_one_was_interrupted(
    spark: SparkSession, tmp_path: Path, left: str
) -> None:
    """A Hadoop catalog of Iceberg lists a folder with any metadata file as a table."""
    target = LakeTarget(spark, str(tmp_path))
    if "delta" not in left:
        spark.conf.set("spark.sql.catalog.left", "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set("spark.sql.catalog.left.type", "hadoop")
        spark.conf.set("spark.sql.catalog.left.warehouse", str(tmp_path.parent))
        target = LakeTarget(spark, f"left.{tmp_path.name}")
    file = tmp_path / "t" / left
    file.parent.mkdir(parents=True)
    file.touch()
    assert not target.target.exists("t")
    assert target.tables() == []
    target.create("t", "id INT", ["id"])
    target.append("t", "SELECT 1 AS id", None, LSN)
    assert rows(target, "t") == [(1,)]


def test_a_table_gets_types_that_it_was_made_without(target: LakeTarget) -> None:
    target.create("made", "id INT", ["id"])
    target.append("made", "SELECT 1 AS id", None, LSN)
    time = "TIMESTAMP_NTZ '2024-01-02 03:04:05'"
    target.alter("made", "Add", "a", "ARRAY<TIMESTAMP_NTZ>")
    target.append("made", f"SELECT 2 AS id, array({time}) AS a", LSN, LSN + 1)
    target.alter("made", "Add", "v", "VARIANT")
    target.append("made", "SELECT 3 AS id, NULL AS a, parse_json('3') AS v", LSN + 1, LSN + 2)
    found = target.read("made").selectExpr("id", f"a[0] = {time}", "to_json(v)").collect()
    assert sorted(map(tuple, found)) == [(1, None, None), (2, True, None), (3, None, "3")]
    target.create("copied", "id INT", ["id"])
    target.append("copied", "SELECT 1 AS id", None, LSN)
    rows = f"SELECT 1 AS id, {time} AS t, parse_json('3') AS v"
    target.replace("copied", rows, 1, LSN + 1)
    assert target.read("copied").selectExpr(f"t = {time}", "to_json(v)").collect() == [(True, "3")]


@needs_iceberg
def test_an_impossible_target_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    def refusal(name: str, table_format: str | None = None) -> str:
        return condition(lambda: print(LakeTarget(spark, name, table_format)))

    assert refusal("ice") == "PGOUTPUT_REPLICATE_OPTION"
    assert refusal("spark_catalog.a", "iceberg") == "PGOUTPUT_TARGET_FORMAT"
    assert refusal(str(tmp_path), "iceberg") == "PGOUTPUT_REPLICATE_OPTION"
    assert refusal("ice.a", "parquet") == "PGOUTPUT_REPLICATE_OPTION"
    assert LakeTarget(spark, "spark_catalog.a").target.nameProblem("a b").isDefined()


@pytest.mark.lake
def test_each_type_is_kept(target: LakeTarget) -> None:
    types = {
        "b TINYINT": "1",
        "s SMALLINT": "2",
        "d DECIMAL(38,10)": "12.5",
        "n TIMESTAMP_NTZ": "TIMESTAMP_NTZ '2024-01-02 03:04:05.678901'",
        "t TIMESTAMP": "TIMESTAMP '2024-01-02 03:04:05.678901Z'",
        "x BINARY": "X'00FF'",
        "m MAP<STRING, STRING>": "map('a', CAST(NULL AS STRING))",
        "a ARRAY<SMALLINT>": "array(1S, NULL)",
        "r STRUCT<x: INT, `y z`: DATE>": "named_struct('x', 1, 'y z', DATE '2024-01-02')",
        "c VARCHAR(5)": "'abc'",
        "v VARIANT": """parse_json('{"k": [1, null]}')""",
    }
    target.create("types", ", ".join(types), ["s"])
    names = [column.split(" ")[0] for column in types]
    values = ", ".join(
        f"CAST({value} AS {column.split(' ', 1)[1].replace('VARCHAR(5)', 'STRING')}) AS {name}"
        for name, (column, value) in zip(names, types.items(), strict=True)
    )
    target.append("types", f"SELECT {values}", None, LSN + 1)
    target.merge("types", f"SELECT {values}", LSN + 1, LSN + 2, "t.s = s.s")
    (found,) = target.read("types").selectExpr(*names[:-1], "to_json(v)").collect()
    expected = target.spark.sql(f"SELECT {values}").selectExpr(*names[:-1], "to_json(v)").first()
    assert tuple(found) == tuple(expected or ())
