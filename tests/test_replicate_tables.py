"""A table that cannot be copied, or cannot go on, stops alone: the others of its job go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import lake
from support.job_tables import JobTables, look, wait_until_equal
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.servers import Server, server_fixture

pytestmark = lake.needs_lake

# The job is not the owner of the tables, so each new table needs a GRANT.
SETUP = """
CREATE ROLE copier LOGIN REPLICATION;
GRANT CREATE ON DATABASE postgres TO copier;
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO copier;
CREATE TABLE good (id int PRIMARY KEY, v text);
CREATE TABLE better (id int PRIMARY KEY, v text);
INSERT INTO good VALUES (1, 'a');
INSERT INTO better VALUES (1, 'a');
CREATE PUBLICATION p FOR ALL TABLES;
"""

# Tables that cannot be copied, with statements that make them and a part of the reason.
BROKEN = {
    "audit": (
        "CREATE TABLE audit (id int PRIMARY KEY); INSERT INTO audit VALUES (1);"
        "REVOKE SELECT ON audit FROM copier",
        "GRANT SELECT ON public.audit TO copier;",
    ),
    "empty": ("CREATE TABLE empty ()", "no column that is sent"),
    "computed": (
        "CREATE TABLE computed (a int GENERATED ALWAYS AS (1) STORED)",
        "no column that is sent",
    ),
    "endless": (
        "CREATE TABLE endless (id int PRIMARY KEY, d date);"
        "INSERT INTO endless VALUES (1, 'infinity')",
        "infinity",
    ),
    "nested": (
        "CREATE TABLE nested (id int PRIMARY KEY, a int[]);"
        "INSERT INTO nested VALUES (1, '{{1,2},{3,4}}')",
        "dimension",
    ),
    "tree": (
        "CREATE TABLE tree (id int, v text) PARTITION BY RANGE (id);"
        "CREATE TABLE branch PARTITION OF tree (PRIMARY KEY (id)) FOR VALUES FROM (0) TO (9);"
        "INSERT INTO tree VALUES (1, 'a')",
        "ALTER TABLE public.tree ADD PRIMARY KEY (id);",
    ),
    "doubled": (
        "CREATE TABLE doubled (id int, k int GENERATED ALWAYS AS (id * 2) STORED PRIMARY KEY);"
        "INSERT INTO doubled (id) VALUES (1)",
        "publish_generated_columns",
    ),
}
# The statements that correct them. The values of `nested` stay as they are.
CORRECTIONS = {
    "audit": "GRANT SELECT ON audit TO copier",
    "empty": "ALTER TABLE empty ADD v int; INSERT INTO empty VALUES (7)",
    "computed": "ALTER TABLE computed ADD v int; INSERT INTO computed (v) VALUES (8)",
    "tree": "ALTER TABLE tree ADD PRIMARY KEY (id)",
    "doubled": "ALTER TABLE doubled DROP k, ADD PRIMARY KEY (id)",
}
AT_RESTART = {"endless": "UPDATE endless SET d = '2026-01-31'"}

server = server_fixture(SETUP)


@pytest.fixture(params=lake.JOB_TARGETS)
def job(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> LakeJob:
    server.execute(f"ALTER ROLE copier PASSWORD '{server.password}'")
    return LakeJob(tmp_path, server, request.param, publication="p")


def assert_failed(lines: list[str], tables: set[str]) -> None:
    """Check that each table that failed has a line of its own, which has the reason."""
    found = {line.split(":")[0].removeprefix("public."): line for line in lines}
    assert found.keys() == tables, lines
    for name, line in found.items():
        assert BROKEN[name][1] in line, line


@pytest.mark.takes_long
def test_tables_that_cannot_be_copied_are_named_and_the_others_live(
    job: LakeJob, server: Server, spark: SparkSession
) -> None:
    server.execute(
        "ALTER PUBLICATION p SET (publish_via_partition_root);"
        + ";".join(made for made, _ in BROKEN.values())
    )
    with job.session(spark) as replicate:
        first = replicate(once=True, user="copier")
        assert first.exit_code == 3
        assert_failed(first.failed(), set(BROKEN))
        rows = JobTables(first).rows()
        for name, (_, reason) in BROKEN.items():
            assert (rows[name].state, reason in rows[name].reason) == ("failed", True), rows[name]
        assert_equal(spark, job, {"good": "good", "better": "better"})

        running = replicate(user="copier")
        tables = JobTables(running)
        server.execute("INSERT INTO good VALUES (2, 'b')")
        wait_until_equal(spark, job, running, ["good"])
        # A corrected table is copied while the job runs, unless only another value can correct it.
        server.execute(";".join([*CORRECTIONS.values(), *AT_RESTART.values()]))
        look(server)
        wait_until_equal(spark, job, running, CORRECTIONS)
        tables.wait("live", *CORRECTIONS)
        assert_failed(running.failed(), BROKEN.keys() - CORRECTIONS.keys())
        # A corrected table then follows the server as any other table.
        server.execute("DELETE FROM tree; INSERT INTO empty VALUES (9)")
        running.stop()

        last = replicate(once=True, user="copier")
        assert last.exit_code == 3
        assert_failed(last.failed(), {"nested"})
        server.execute("UPDATE nested SET a = '{1}'")
        assert replicate(once=True, user="copier").exit_code == 0
    assert_equal(spark, job, {name: name for name in [*BROKEN, "good", "better"]})
