"""What users add to the tables of a job, and the properties that they give these tables."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.lake_job import LakeJob, Replicate, job_fixtures
from support.lake_judge import assert_equal, properties
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

# The three ways to apply changes: by a key, by all values of a row, and by appending rows.
TABLES = {table: table for table in ("keyed", "counted", "appended")}
Row = tuple[object, ...]

server = server_fixture(
    "CREATE TABLE keyed (id int PRIMARY KEY, v text); CREATE TABLE counted (id int, v text);"
    "CREATE TABLE appended (id int, v text); ALTER TABLE counted REPLICA IDENTITY FULL;"
    "INSERT INTO keyed VALUES (1, 'a'), (2, 'b'); INSERT INTO counted VALUES (1, 'a'), (2, 'b');"
    "INSERT INTO appended VALUES (1, 'a'), (2, 'b');"
    "CREATE PUBLICATION p FOR TABLE keyed, counted, appended"
)
job, replicate = job_fixtures("p")


def test_columns_and_properties_that_users_add_stay(
    job: LakeJob, server: Server, spark: SparkSession, replicate: Replicate
) -> None:
    def assert_rows(expected: dict[str, list[Row]]) -> None:
        """Check the columns of the server and the user's one, and that the property is there."""
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, TABLES)
        for table, rows in expected.items():
            found = spark.table(job.sql_name(table))
            assert sorted(tuple(row) for row in found.select("id", "v", "mine").collect()) == rows
            assert properties(spark, job, table)["team"] == "shop"

    assert replicate(once=True).exit_code == 0
    for table in map(job.sql_name, TABLES):
        spark.sql(f"ALTER TABLE {table} ADD COLUMN mine STRING")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'shop')")
        spark.sql(f"UPDATE {table} SET mine = 'kept'")
    server.execute(
        "UPDATE keyed SET v = 'x' WHERE id = 1; DELETE FROM counted WHERE id = 1;"
        "INSERT INTO keyed VALUES (3, 'c'); INSERT INTO counted VALUES (3, 'c');"
        "INSERT INTO appended VALUES (3, 'c')"
    )
    new = (3, "c", None)
    assert_rows(
        {
            "keyed": [(1, "x", "kept"), (2, "b", "kept"), new],
            "counted": [(2, "b", "kept"), new],
            "appended": [(1, "a", "kept"), (2, "b", "kept"), new],
        }
    )
    # An append to a table whose rows can be deleted.
    server.execute("INSERT INTO counted VALUES (4, 'd')")
    assert_rows({"counted": [(2, "b", "kept"), new, (4, "d", None)]})
    # A row that is inserted again, and one that gets another key, are new rows.
    server.execute(
        "BEGIN; DELETE FROM keyed WHERE id = 1; INSERT INTO keyed VALUES (1, 'y');"
        "UPDATE keyed SET v = 'z' WHERE id = 1; COMMIT;"
        "BEGIN; DELETE FROM keyed WHERE id = 3; UPDATE keyed SET id = 3 WHERE id = 2; COMMIT"
    )
    assert_rows({"keyed": [(1, "z", None), (3, "b", None)]})
    server.execute("TRUNCATE keyed, counted, appended")
    for table in TABLES:
        server.execute(f"INSERT INTO {table} VALUES (5, 'e')")
    assert_rows({table: [(5, "e", None)] for table in TABLES})
    # A TRUNCATE without later inserts overwrites the table with no rows.
    server.execute("TRUNCATE keyed, counted, appended")
    assert_rows({table: [] for table in TABLES})
    for table in TABLES:
        server.execute(f"INSERT INTO {table} VALUES (6, 'f')")
    spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["keyed", "counted", "appended"])
    assert_rows({table: [(6, "f", None)] for table in TABLES})


def test_properties_that_users_give_win(job: LakeJob, server: Server, spark: SparkSession) -> None:
    """The tables are also equal without the properties that make MERGE cheap."""
    if job.target.endswith(".shop"):
        given = {"write.merge.mode": "copy-on-write", "team": "it's \\ mine"}
        kept = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
    else:
        given = {"delta.enableDeletionVectors": "false", "team": "it's \\ mine"}
        kept = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    arguments = [part for item in given.items() for part in ("--property", "=".join(item))]
    assert job.run_once(*arguments) == 0
    server.execute("CREATE TABLE later (id int PRIMARY KEY); ALTER PUBLICATION p ADD TABLE later")
    server.execute("UPDATE keyed SET v = 'x' WHERE id = 1; DELETE FROM counted WHERE id = 1")
    tables = {**TABLES, "later": "later"}
    with job.session(spark) as replicate:
        assert replicate(once=True, properties=given).exit_code == 0
    assert_equal(spark, job, tables)
    for table in tables:
        found = properties(spark, job, table)
        assert {name: found.get(name) for name in (*given, *kept)} == {**given, **kept}, table


@pytest.mark.parametrize("mode", ["mirror", "history"])
def test_a_column_that_cannot_change_is_copied_again(
    mode: str, server: Server, spark: SparkSession, tmp_path: Path
) -> None:
    """Delta neither widens nor renames columns without two properties that a job sets."""
    server.execute(
        "CREATE TABLE priced (id int PRIMARY KEY, n numeric(6,2), v text);"
        "INSERT INTO priced VALUES (1, 1.50, 'a'), (2, 2.50, 'b');"
        "CREATE PUBLICATION q FOR TABLE priced"
    )
    off = {"delta.enableTypeWidening": "false"}
    if mode == "mirror":  # A history renames the columns whose type changes.
        off["delta.columnMapping.mode"] = "none"
    job = LakeJob(tmp_path, server, "delta", publication="q", mode=mode)
    new = Decimal("1234567890.12")
    with job.session(spark) as replicate:
        assert replicate(once=True, properties=off).exit_code == 0
        server.execute(
            "ALTER TABLE priced ALTER n TYPE numeric(12,2);"
            f"UPDATE priced SET n = {new} WHERE id = 1"
        )
        assert replicate(once=True).exit_code == 0
        server.execute("ALTER TABLE priced RENAME v TO w; INSERT INTO priced VALUES (3, 3.50, 'c')")
        assert replicate(once=True).exit_code == 0
    found = spark.table(job.sql_name("priced"))
    assert dict(found.dtypes)["n"] == "decimal(12,2)"
    if mode == "mirror":
        assert_equal(spark, job, {"priced": "priced"})
    else:
        # The values from before the second copy stay.
        rows = found.where("_change_type <> 'truncate'").select("id", "n", "n_before_2").collect()
        assert Counter(map(tuple, rows)) == {
            (1, None, Decimal("1.50")): 1,
            (2, None, Decimal("2.50")): 1,
            (1, new, None): 1,
            (2, Decimal("2.50"), None): 1,
            (3, Decimal("3.50"), None): 1,
        }


def test_a_history_whose_columns_have_fixed_names_says_how_to_let_them_change(
    server: Server, spark: SparkSession, tmp_path: Path
) -> None:
    server.execute(
        "CREATE TABLE rated (id int PRIMARY KEY, stars int); INSERT INTO rated VALUES (1, 5);"
        "CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1);"
        "CREATE PUBLICATION r FOR TABLE rated, other"
    )
    job = LakeJob(tmp_path, server, "delta", publication="r", mode={"rated": "history"})
    with job.session(spark) as replicate:
        fixed = {"delta.columnMapping.mode": "none"}
        assert replicate(once=True, properties=fixed).exit_code == 0
        server.execute("ALTER TABLE rated ALTER stars TYPE text; INSERT INTO other VALUES (2)")
        stopped = replicate(once=True)
        assert stopped.exit_code == 3
        (failed,) = stopped.failed()
        assert "Delta cannot rename the column 'stars'" in failed
        assert spark.table(job.sql_name("other")).count() == 2

        statement = failed[failed.index("ALTER TABLE ") :].split(", and start")[0]
        spark.sql(statement)
        assert replicate(once=True).exit_code == 0
    rows = spark.table(job.sql_name("rated")).where("_change_type = 'snapshot'")
    old = next(name for name in rows.columns if name.startswith("stars_before_"))
    assert Counter(map(tuple, rows.select("stars", old).collect())) == {
        (None, 5): 1,
        ("5", None): 1,
    }
