"""Tables that are altered in ways that no message shows, and that the job then copies again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake, lake_operations
from support.history_judge import assert_copies, assert_histories
from support.job_report import JobReport, generations, wait_until_live
from support.lake_job import LakeJob
from support.lake_judge import columns_of, differences, lake_rows, server_rows
from support.lake_operations import copied
from support.postgres_binaries import VERSIONS
from support.processes import TIMEOUT
from support.servers import Server, wait_until

pytestmark = [lake.needs_lake, pytest.mark.lake]

# Each table, and what happens to it.
KINDS = {
    "with_default": "ALTER TABLE with_default ADD COLUMN fresh int DEFAULT 7",
    "rewritten": "ALTER TABLE rewritten ALTER n TYPE int USING n * 2",
    "retyped": "ALTER TABLE retyped ALTER n TYPE text USING 'n' || n",
    "widened": "ALTER TABLE widened ALTER n TYPE bigint USING n * 2",
    "widened_later": (
        "ALTER TABLE widened_later ALTER n TYPE int USING n * 2;"
        "ALTER TABLE widened_later ALTER n TYPE bigint"
    ),
    "name_again": "ALTER TABLE name_again DROP n; ALTER TABLE name_again ADD n text",
    "rekeyed": (
        "ALTER TABLE rekeyed DROP CONSTRAINT rekeyed_pkey; ALTER TABLE rekeyed ADD PRIMARY KEY (n)"
    ),
    "identity": "ALTER TABLE identity REPLICA IDENTITY FULL",
    "identity_for_a_while": (
        "ALTER TABLE identity_for_a_while REPLICA IDENTITY FULL;"
        "UPDATE identity_for_a_while SET n = 7 WHERE id = 32;"
        "ALTER TABLE identity_for_a_while REPLICA IDENTITY DEFAULT"
    ),
    # The server sends no old row of a partition that has another replica identity than its root.
    "whole": (
        "CREATE TABLE whole_new PARTITION OF whole FOR VALUES FROM (100) TO (200);"
        "INSERT INTO whole VALUES (150, 1, 'x'); UPDATE whole SET n = 2 WHERE id = 150;"
        "ALTER TABLE whole_new REPLICA IDENTITY FULL"
    ),
    "toasted": (
        "CREATE TABLE toasted_new PARTITION OF toasted FOR VALUES FROM (100) TO (200);"
        "ALTER TABLE toasted_new ALTER v SET STORAGE EXTERNAL;"
        "INSERT INTO toasted VALUES (150, 1, repeat('x', 5000));"
        "UPDATE toasted SET id = 151 WHERE id = 150;"
        "ALTER TABLE toasted_new REPLICA IDENTITY FULL"
    ),
    "indexed": (
        "ALTER TABLE indexed_low REPLICA IDENTITY USING INDEX indexed_n;"
        "DELETE FROM indexed WHERE id = 32; ALTER TABLE indexed_low REPLICA IDENTITY FULL"
    ),
    "keyed": (
        "ALTER TABLE keyed_low REPLICA IDENTITY USING INDEX keyed_n;"
        "UPDATE keyed SET n = 7 WHERE id = 32; ALTER TABLE keyed_low REPLICA IDENTITY DEFAULT"
    ),
    "filtered": "ALTER PUBLICATION filtered SET TABLE filtered WHERE (id > 20)",
    "listed": "ALTER PUBLICATION listed SET TABLE listed (id, n)",
    "attached": "ALTER TABLE attached ATTACH PARTITION brought FOR VALUES FROM (100) TO (200)",
    "detached": "ALTER TABLE detached DETACH PARTITION detached_high",
    "emptied": "TRUNCATE emptied_high",
    "reattached": (
        "ALTER TABLE reattached DETACH PARTITION reattached_high;"
        "DELETE FROM reattached_high WHERE id > 60;"
        "ALTER TABLE reattached ATTACH PARTITION reattached_high FOR VALUES FROM (50) TO (100)"
    ),
    "multiplied": "ALTER TABLE multiplied ALTER m TYPE int USING m * 2",
    "renamed_back": (
        "ALTER TABLE renamed_back RENAME n TO o; UPDATE renamed_back SET o = 7 WHERE id = 32;"
        "INSERT INTO renamed_back VALUES (100, 8, 'x'); ALTER TABLE renamed_back RENAME o TO n"
    ),
}
# Other changes are found by a comparison of the catalog, and these by the messages.
REASONS = {
    **dict.fromkeys(("whole", "toasted"), "does not have all columns of the replica identity"),
    **dict.fromkeys(("keyed", "indexed"), "has NULL in a column of the table's replica identity"),
}
FULL = ("whole", "toasted", "indexed")
PUBLICATIONS = "shop,filtered,listed"
PARTITIONED = ("attached", "detached", "emptied", "reattached", *FULL, "keyed")
SETUP = "".join(
    f"CREATE TABLE {table} (id int NOT NULL, n int NOT NULL, v text, PRIMARY KEY (id))"
    + (" PARTITION BY RANGE (id)" if table in PARTITIONED else "")
    + ";"
    for table in KINDS
) + "".join(
    [
        *(
            f"CREATE TABLE {table}_low PARTITION OF {table} FOR VALUES FROM (0) TO (50);"
            f"CREATE TABLE {table}_high PARTITION OF {table} FOR VALUES FROM (50) TO (100);"
            for table in PARTITIONED
        ),
        "CREATE TABLE brought (id int NOT NULL PRIMARY KEY, n int NOT NULL, v text);",
        "INSERT INTO brought SELECT g, g, 'b' FROM generate_series(100, 120) g;",
        *(
            f"INSERT INTO {table} SELECT g, g + 1000, 's' FROM generate_series(1, 99) g;"
            for table in KINDS
        ),
        "ALTER TABLE multiplied ADD m int DEFAULT 5;",
        *(f"CREATE UNIQUE INDEX {table}_n ON {table}_low (n);" for table in ("keyed", "indexed")),
        *(
            f"ALTER TABLE {table}{part} REPLICA IDENTITY FULL;"
            for table in FULL
            for part in ("", "_low", "_high")
        ),
        "CREATE PUBLICATION filtered FOR TABLE filtered WHERE (id > 10);",
        "CREATE PUBLICATION listed FOR TABLE listed;",
        "CREATE PUBLICATION shop FOR TABLE ",
        ", ".join(table for table in KINDS if table not in ("filtered", "listed")),
        " WITH (publish_via_partition_root);",
    ]
)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_each_kind_of_change_copies_the_table_again(
    target: str, tmp_path: Path, spark: SparkSession
) -> None:
    with Server() as server:
        server.execute(SETUP)
        job = LakeJob(tmp_path, server, target)
        with job.session(spark) as replicate:
            assert replicate(once=True, publication=PUBLICATIONS).exit_code == 0
            for table, statement in KINDS.items():
                server.execute(f"UPDATE {table} SET v = 'before' WHERE id = 30")
                server.execute(statement)
                server.execute(f"UPDATE {table} SET v = 'after' WHERE id = 31")
            done = replicate(once=True, publication=PUBLICATIONS)
            assert done.exit_code == 0
            report = done.report()
        print("\n".join(report))
        copies = [line.split(":")[0] for line in report if line.startswith("Copied ")]
        assert sorted(copies) == sorted(f"Copied public.{table}" for table in KINDS)
        for table in KINDS:
            warnings = [line for line in report if f"WARNING: The table public.{table} is" in line]
            assert len(warnings) == 1, (table, warnings)
            assert "[PGOUTPUT_TABLE_CHANGED]" in warnings[0]
            assert REASONS.get(table, "") in warnings[0], warnings
            assert_equal(spark, job, table)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_table_that_was_dropped_and_made_again_is_copied(
    target: str, tmp_path: Path, spark: SparkSession
) -> None:
    def make_again(server: Server, table: str) -> None:
        lake_operations.write(server, "before")
        server.execute(
            f"DROP TABLE {table};"
            f"CREATE TABLE {table} (id bigint PRIMARY KEY, v text, extra int DEFAULT 5);"
            f"INSERT INTO {table} SELECT g, 'again' FROM generate_series(1, 20) g"
        )
        lake_operations.write(server, "after")

    with Server() as server:
        server.execute(lake_operations.SETUP)
        server.execute("DROP PUBLICATION shop; CREATE PUBLICATION shop FOR ALL TABLES")
        job = LakeJob(tmp_path, server, target, mode={"*": "mirror", "public.seats": "history"})

        def assert_all_equal() -> None:
            for table in ("orders", "readings"):
                assert_equal(spark, job, table)
            (changes,) = assert_histories(spark, job, {"seats": "seats"}).values()
            assert_copies(changes, copies)

        copies = 1
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
            for table in ("orders", "seats"):
                make_again(server, table)
            assert copied(replicate(once=True)) == 2
            lake_operations.write(server, "later")
            assert copied(replicate(once=True)) == 0
            copies = 2
            assert_all_equal()

            process = replicate()
            report = JobReport(process)
            wait_until_live(process)
            # A snapshot waits for this transaction, so a table is dropped while it is copied.
            with server.open_transaction():
                spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["orders"])
                wait_until(lambda: report.lines("Copying public.orders."), TIMEOUT)
                for table in ("orders", "seats"):
                    make_again(server, table)
            lake_operations.write(server, "during the copy")
            wait_until(lambda: not differences(spark, job, {"orders": "orders"}), TIMEOUT, 1)
            # The job can find the new tables one after the other.
            wait_until(lambda: report.lines("Copied public.seats: "), TIMEOUT)
            wait_until_live(process)
            process.stop()
            assert copied(replicate(once=True)) == 0
            copies = 3
            assert_all_equal()

            # The new table counts as another table, and not as a change of the old one.
            make_again(server, "orders")
            assert copied(replicate(once=True, onSchemaChange="error")) == 1
            assert_all_equal()

            # The target cannot have the new table, so it keeps the rows of the old one.
            kept = lake_rows(spark, job.sql_name("orders"), ["id", "v"])
            server.execute('DROP TABLE orders; CREATE TABLE orders (id int PRIMARY KEY, "ID" int)')
            assert replicate(once=True).exit_code == 3
            assert lake_rows(spark, job.sql_name("orders"), ["id", "v"]) == kept


def test_a_change_is_an_error_if_the_user_wants_that(tmp_path: Path, spark: SparkSession) -> None:
    with Server() as server:
        server.execute(
            "CREATE TABLE orders (id int PRIMARY KEY); CREATE PUBLICATION shop FOR TABLE orders"
        )
        job = LakeJob(tmp_path, server, "delta")
        with job.session(spark) as replicate:
            assert replicate(once=True, onSchemaChange="error").exit_code == 0
            server.execute("ALTER TABLE orders ADD v int DEFAULT 7; INSERT INTO orders VALUES (1)")
            failed = replicate(once=True, onSchemaChange="error")
            assert failed.exit_code == 3
            (reason,) = failed.failed()
            assert "[PGOUTPUT_TABLE_CHANGED]" in reason
            assert "spark-pgoutput resync --table 'public.orders'" in reason
            with pytest.raises(PySparkException, match="PGOUTPUT_TABLE_CHANGED"):
                replicate(once=True, onSchemaChange="error", onTableError="stop")
            assert replicate(once=True, onSchemaChange="copy").exit_code == 0
            assert_equal(spark, job, "orders")
            server.execute("ALTER TABLE orders ADD w int DEFAULT 8; INSERT INTO orders VALUES (2)")
            assert replicate(once=True, onSchemaChange="error").exit_code == 3
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["orders"])
            assert copied(replicate(once=True, onSchemaChange="error")) == 1
        assert_equal(spark, job, "orders")


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_new_column_is_not_the_old_one_that_the_target_keeps(
    target: str, tmp_path: Path, spark: SparkSession
) -> None:
    """After a new copy, only the target knows the column that the server has dropped."""
    with Server() as server:
        server.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, price numeric(10, 2));"
            "INSERT INTO orders VALUES (1, 1.25); CREATE PUBLICATION shop FOR TABLE orders"
        )
        job = LakeJob(tmp_path, server, target)
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
            server.execute("ALTER TABLE orders DROP price; INSERT INTO orders VALUES (2)")
            assert replicate(once=True).exit_code == 0
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables="public.orders")
            assert replicate(once=True).exit_code == 0
            server.execute("ALTER TABLE orders ADD price numeric(10, 4)")
            server.execute("INSERT INTO orders VALUES (3, 1.2345)")
            assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, "orders")


def assert_equal(spark: SparkSession, job: LakeJob, table: str) -> None:
    """Compare a table with what the publications send of it."""
    columns = columns_of(job.server, table)
    if table == "listed":
        columns.remove("v")
    condition = "id > 20" if table == "filtered" else "true"
    there = server_rows(job.server, table, columns, condition)
    here = lake_rows(spark, job.sql_name(table), columns)
    assert there == here, (table, there - here, here - there)


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_of_a_partition_follow_its_attaching_and_detaching(
    version: int, tmp_path: Path, spark: SparkSession
) -> None:
    """Before version 15, a session of the server remembers how it has published a partition."""
    with Server(version) as server:
        server.execute(
            "CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);"
            "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (100);"
            "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (100) TO (200);"
            "CREATE TABLE brought (id int PRIMARY KEY, v text);"
            "INSERT INTO parts VALUES (0, 'a'), (150, 'b'); INSERT INTO brought VALUES (250, 'c');"
            "CREATE PUBLICATION shop FOR TABLE parts WITH (publish_via_partition_root)"
        )
        job = LakeJob(tmp_path, server, "delta")

        def has(row: int) -> bool:
            return not spark.table(job.sql_name("parts")).where(f"id = {row}").isEmpty()

        with job.session(spark) as replicate:
            running = replicate()
            report = JobReport(running)
            wait_until_live(running)
            server.execute("UPDATE parts SET v = 'published'; INSERT INTO parts VALUES (1, 'd')")
            wait_until(lambda: has(1))
            server.execute(
                "UPDATE brought SET v = 'not published';"
                "ALTER TABLE parts ATTACH PARTITION brought FOR VALUES FROM (200) TO (300);"
                "ALTER TABLE parts DETACH PARTITION high; INSERT INTO parts VALUES (2, 'e')"
            )
            wait_until(lambda: len(report.lines("Copied public.parts: ")) == 2)
            server.execute("UPDATE parts SET v = 'published' WHERE id = 250")
            server.execute(
                "UPDATE high SET v = 'not published'; INSERT INTO high VALUES (151, 'f')"
            )
            server.execute("INSERT INTO parts VALUES (251, 'g'), (3, 'h')")
            wait_until(lambda: has(3))
            running.stop()
        assert_equal(spark, job, "parts")


def is_copied_again(report: JobReport, times: int) -> bool:
    return len(report.lines("Copied public.filtered: ")) == times + 1


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= 15])
def test_an_insert_that_a_row_filter_makes_without_a_value_needs_a_copy(
    version: int, tmp_path: Path, spark: SparkSession
) -> None:
    """An update moves a row into the filter, and the server does not send its TOASTed value."""
    with Server(version) as server:
        server.execute(
            "CREATE TABLE filtered (id int PRIMARY KEY, v text);"
            "ALTER TABLE filtered ALTER v SET STORAGE EXTERNAL;"
            "INSERT INTO filtered SELECT g, repeat('x', 4000) FROM generate_series(1, 30) g;"
            "CREATE PUBLICATION shop FOR TABLE filtered WHERE (id > 20)"
        )
        job = LakeJob(tmp_path, server, "delta")
        with job.session(spark) as replicate:
            running = replicate()
            report = JobReport(running)
            wait_until_live(running)
            # Each of these updates needs a copy of its own.
            for copies in range(1, 6):
                server.execute(f"UPDATE filtered SET id = id + 40 WHERE id = {copies}")
                wait_until(partial(is_copied_again, report, copies))
            running.stop()
            assert len(set(report.lines("moved a row into the row filter"))) == 5
            # The server then has all values of the old row, and takes those of the new row from it.
            server.execute("ALTER TABLE filtered REPLICA IDENTITY FULL")
            assert replicate(once=True).exit_code == 0
            copied = generations(job)
            server.execute("UPDATE filtered SET id = id + 40 WHERE id = 10")
            assert replicate(once=True).exit_code == 0
            assert generations(job) == copied
        assert_equal(spark, job, "filtered")


def test_an_alter_table_that_locks_a_row_filter_is_found(
    tmp_path: Path, spark: SparkSession
) -> None:
    """While an ALTER TABLE rewrites the table, the job cannot read its row filter."""
    with Server() as server:
        server.execute(
            "CREATE TABLE filtered (id int PRIMARY KEY, v int); CREATE TABLE other (id int);"
            "INSERT INTO filtered VALUES (21, 1), (22, 2);"
            "CREATE PUBLICATION shop FOR TABLE filtered WHERE (id > 20), other"
        )
        job = LakeJob(tmp_path, server, "delta")

        with job.session(spark) as replicate:
            running = replicate()
            report = JobReport(running)
            wait_until_live(running)
            with server.open_transaction() as transaction:
                transaction.execute("ALTER TABLE filtered ALTER v TYPE int USING v * 2")
                # The job looks at the catalog for the new table.
                server.execute("CREATE TABLE new (id int); ALTER PUBLICATION shop ADD TABLE new")
                server.execute("INSERT INTO new VALUES (1)")
                wait_until(partial(report.lines, "locked public.filtered"), TIMEOUT)
                transaction.execute("COMMIT")
            server.execute("INSERT INTO other VALUES (2)")
            # No client writes to the table. The job looks at the catalog again within a minute.
            wait_until(partial(is_copied_again, report, 1), 2 * TIMEOUT)
            running.stop()
        assert_equal(spark, job, "filtered")
