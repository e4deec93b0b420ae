"""Tables that are made, dropped and renamed while a job runs, or between its runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support import lake
from support.job_report import JobReport, generations, states
from support.job_tables import PATIENCE, JobTables, look
from support.lake_job import LakeJob
from support.lake_judge import lake_rows
from support.servers import Server, server_fixture, wait_until

pytestmark = lake.needs_lake

# The partitions of `days` are published by their own names.
PLAIN = ("good", "stage", "t", "t_new", "plain", "s1.t", "s1.other")
TABLES = (*PLAIN, "day_1", "day_2")
SETUP = f"""
CREATE SCHEMA s1;
CREATE TABLE days (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE day_1 PARTITION OF days FOR VALUES FROM (0) TO (10);
CREATE TABLE day_2 PARTITION OF days FOR VALUES FROM (10) TO (20);
{"".join(f"CREATE TABLE {name} (id int PRIMARY KEY, v text);" for name in PLAIN)}
{"".join(f"INSERT INTO {name} VALUES (1, '{name}');" for name in PLAIN)}
INSERT INTO days VALUES (1, 'one'), (11, 'eleven');
CREATE PUBLICATION p FOR ALL TABLES;
"""

server = server_fixture(SETUP)

Rows = Counter[tuple[object, ...]]


def at_server(server: Server, table: str) -> Rows:
    return Counter(server.execute(f"TABLE {table}"))


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_tables_come_and_go_and_take_the_names_of_others(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target, publication="p")
    job.use(spark)

    def in_lake(name: str) -> Rows:
        try:
            return lake_rows(spark, job.sql_name(name), spark.table(job.sql_name(name)).columns)
        except PySparkException:  # the table is not there yet, or is being replaced
            return Counter()

    def wait_for(expected: dict[str, str]) -> None:
        """Wait until each table of the target has the rows of its table at the server."""
        wanted = {name: at_server(server, table) for name, table in expected.items()}

        def are_equal() -> bool:
            for name in [name for name, rows in wanted.items() if in_lake(name) == rows]:
                del wanted[name]
            return not wanted

        try:
            wait_until(are_equal, PATIENCE, 0.2)
        except AssertionError:
            print({name: (in_lake(name), rows) for name, rows in wanted.items()})
            raise

    def is_stage_again() -> bool:
        """Return whether `stage` is the new table. Columns that only the target has stay."""
        stage = job.sql_name("stage")
        rows = at_server(server, "stage")
        columns = ["other", "id"]
        return {*columns} <= {*spark.table(stage).columns} and (
            lake_rows(spark, stage, columns) == rows
        )

    with job.session(spark) as replicate:
        running = replicate()
        tables = JobTables(running)
        wait_for({name.replace(".", "_"): name for name in TABLES})
        tables.wait("live", "t", "s1.other")
        before = generations(job)

        # The last rows of tables that are dropped are applied, too.
        server.execute("INSERT INTO stage VALUES (2, 'last'); INSERT INTO days VALUES (2, 'last')")
        left = {"stage": at_server(server, "stage"), "day_1": at_server(server, "day_1")}
        server.execute(
            "DROP TABLE stage; DROP TABLE day_1;"
            "CREATE TABLE day_3 PARTITION OF days FOR VALUES FROM (20) TO (30);"
            "INSERT INTO days VALUES (12, 'twelve'), (21, 'new')"
        )
        server.execute(
            "BEGIN; INSERT INTO t VALUES (2, 'before'); ALTER TABLE t RENAME TO t_old;"
            "ALTER TABLE t_new RENAME TO t; INSERT INTO t VALUES (3, 'after');"
            "INSERT INTO t_old VALUES (4, 'after'); COMMIT"
        )
        server.execute(
            "BEGIN; ALTER SCHEMA s1 RENAME TO s2; CREATE SCHEMA s1;"
            "CREATE TABLE s1.t (LIKE s2.t INCLUDING ALL); INSERT INTO s1.t VALUES (9, 'new');"
            "INSERT INTO s2.t VALUES (8, 'old'); INSERT INTO s2.other VALUES (8, 'old'); COMMIT"
        )
        server.execute(
            "ALTER TABLE plain RENAME TO plainer; INSERT INTO plainer VALUES (5, 'five')"
        )
        look(server)
        renamed = {
            **{"t": "t", "t_old": "t_old", "s1_t": "s1.t", "s2_t": "s2.t"},
            **{"plain": "plainer", "s1_other": "s2.other"},
            **{"good": "good", "day_2": "day_2", "day_3": "day_3"},
        }
        wait_for(renamed)
        tables.wait("dropped", "stage", "day_1")
        tables.wait("live", "t", "t_old", "s1.t", "s2.t", "plainer", "s2.other", "day_3")
        assert {name: in_lake(name) for name in left} == left
        now = generations(job)
        kept_names = ("good", "day_2", "plain", "s1_other")
        assert {n: now[n] for n in kept_names} == {n: before[n] for n in kept_names}

        # Another table gets the name of the dropped one.
        server.execute(
            "CREATE TABLE stage (other date, id int PRIMARY KEY);"
            "INSERT INTO stage VALUES ('2026-01-31', 7); INSERT INTO good VALUES (2, 'b')"
        )
        wait_for(renamed)
        wait_until(is_stage_again, PATIENCE, 0.2)
        assert running.failed() == []
        running.stop()

        # Names move between the runs, too.
        server.execute(
            "BEGIN; ALTER TABLE t RENAME TO x; ALTER TABLE t_old RENAME TO t;"
            "ALTER TABLE x RENAME TO t_old; INSERT INTO t_old VALUES (6, 'six'); COMMIT;"
            "DROP TABLE day_2; INSERT INTO plainer VALUES (6, 'six')"
        )
        assert replicate(once=True).exit_code == 0
        del renamed["day_2"]
        wait_for(renamed)
        wait_until(is_stage_again, PATIENCE, 0.2)


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_the_last_rows_of_a_dropped_table_are_not_applied_without_a_column(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The table gets a column and is dropped before the job can look at it."""
    server.execute(
        "CREATE TABLE short (id int PRIMARY KEY); INSERT INTO short VALUES (1);"
        "CREATE PUBLICATION short FOR TABLE short"
    )
    job = LakeJob(tmp_path, server, target, publication="short")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        server.execute(
            "BEGIN; INSERT INTO short VALUES (2); ALTER TABLE short ADD c text;"
            "INSERT INTO short VALUES (3, 'c'); DROP TABLE short; COMMIT"
        )
        last = replicate(once=True)
        assert JobReport(last).lines("its last changes have the column 'c'")
        assert states(last) == {"short": "dropped"}
        assert [tuple(row) for row in spark.table(job.sql_name("short")).collect()] == [(1,)]


@pytest.mark.lake
@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_table_whose_new_name_cannot_be_in_the_target_keeps_its_name(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        "CREATE TABLE slim (id int PRIMARY KEY); INSERT INTO slim VALUES (1);"
        "CREATE PUBLICATION slim FOR TABLE slim"
    )
    job = LakeJob(tmp_path, server, target, publication="slim")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        for step in (
            'ALTER TABLE slim RENAME TO "sl/im"; INSERT INTO "sl/im" VALUES (2)',
            # This needs a copy.
            'ALTER TABLE "sl/im" REPLICA IDENTITY FULL; INSERT INTO "sl/im" VALUES (3)',
            'ALTER PUBLICATION slim DROP TABLE "sl/im"; ALTER PUBLICATION slim ADD TABLE "sl/im"',
        ):
            server.execute(step)
            done = replicate(once=True)
            assert (done.exit_code, done.failed()) == (0, [])
            assert lake_rows(spark, job.sql_name("slim"), ["id"]) == at_server(server, '"sl/im"')
        # Another table gets the name.
        server.execute(
            "CREATE TABLE slim (id int PRIMARY KEY); INSERT INTO slim VALUES (9);"
            "ALTER PUBLICATION slim ADD TABLE slim"
        )
        for _ in range(2):
            (reason,) = replicate(once=True).failed()
            assert reason.startswith("public.sl/im: ")
        assert "names.public.sl/im=sl_im" in reason
        assert lake_rows(spark, job.sql_name("slim"), ["id"]) == at_server(server, "slim")


@pytest.mark.lake
def test_a_change_of_a_partitioned_table_alone_is_followed(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Within a session, the server does not see it: it keeps what it knows of the partitions."""
    with Server() as server:
        server.execute(
            "CREATE SCHEMA s; CREATE SCHEMA u; CREATE TABLE s.other (id int PRIMARY KEY);"
            "CREATE TABLE u.moved (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);"
            "CREATE TABLE u.moved_1 PARTITION OF u.moved FOR VALUES FROM (0) TO (9);"
            "CREATE TABLE s.keyless (id int, v text) PARTITION BY RANGE (id);"
            "CREATE TABLE u.keyless_1 PARTITION OF s.keyless FOR VALUES FROM (0) TO (9);"
            "ALTER TABLE u.keyless_1 REPLICA IDENTITY FULL;"
            "CREATE PUBLICATION p FOR TABLES IN SCHEMA s WITH (publish_via_partition_root)"
        )
        job = LakeJob(tmp_path, server, "delta", publication="p")
        job.use(spark)

        def wait_for(*names: str) -> None:
            wanted = {job.sql_name(f"s_{name}"): at_server(server, f"s.{name}") for name in names}

            def are_equal() -> bool:
                return all(
                    lake_rows(spark, table, spark.table(table).columns) == rows
                    for table, rows in wanted.items()
                )

            wait_until(are_equal, PATIENCE, 0.2)

        with job.session(spark) as replicate:
            tables = JobTables(replicate())
            tables.wait("live", "s.other")
            # The session learns now that one partition is not published, and how rows of the other
            # are identified.
            server.execute(
                "INSERT INTO u.moved VALUES (1, 'a'); INSERT INTO s.keyless VALUES (1, 'a');"
                "INSERT INTO s.other VALUES (1)"
            )
            wait_for("other")
            server.execute(
                "ALTER TABLE u.moved SET SCHEMA s; ALTER TABLE s.keyless REPLICA IDENTITY FULL"
            )
            look(server)
            tables.wait("live", "s.moved", "s.keyless")
            server.execute(
                "INSERT INTO s.moved VALUES (2, 'b'); UPDATE s.keyless SET v = 'b';"
                "INSERT INTO s.other VALUES (2)"
            )
            wait_for("other", "moved", "keyless")
