"""The steps of the pages on operations and failovers: what happens in the life of a job."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput.demo.server import PostgresServer
from spark_pgoutput.replication import Replication
from support import lake
from support.background import background
from support.documentation import DOCS, blocks
from support.history_judge import assert_copies, history
from support.job_folder import state_files
from support.job_report import wait_until_live, wait_while_running
from support.job_tables import wait_until_equal
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.lake_operations import SETUP, TABLES, back_up, copied, restore, write
from support.lake_options import SALT, TableOptions, hashed
from support.lake_points import commits, kill_when
from support.processes import TIMEOUT
from support.servers import Server, Standby, server_fixture, wait_until
from support.upgrade import Server16, upgraded

pytestmark = [lake.needs_lake, pytest.mark.lake]

server = server_fixture(SETUP)


# The versions that synchronize slots, and the two ways to make a slot that is synchronized.
@pytest.mark.parametrize(
    ("version", "slot", "target"),
    [
        (17, "made for standbys", "delta"),
        (18, "made for standbys", "iceberg"),
        (18, "altered", "delta"),
    ],
)
def test_a_promoted_standby_with_the_slot_goes_on(
    version: int, slot: str, target: str, tmp_path: Path, spark: SparkSession
) -> None:
    with Server(version) as server, server.standby() as standby:
        server.execute(SETUP)
        server.configure(synchronized_standby_slots="standby")
        job = LakeJob(tmp_path, server, target)
        url = standby.url_of_primary
        with job.session(spark) as replicate:
            replicate(once=True, url=url, failover=slot == "made for standbys")
            if slot == "altered":
                let_fail_over(job)
            write(server, "before")
            running = replicate(url=url)
            synchronize(job, standby, running)
            running.stop()
            assert readiness(standby) == [(job.slot, True)]
            assert copied(replicate(once=True, url=url)) == 0
            standby.catch_up()
            fail_over(job, standby)
            assert copied(replicate(once=True, url=url)) == 0
            assert_equal(spark, job, TABLES)


@pytest.mark.parametrize(("version", "target"), [(17, "iceberg"), (18, "delta")])
def test_a_job_runs_through_the_promotion(
    version: int, target: str, tmp_path: Path, spark: SparkSession
) -> None:
    with Server(version) as server, server.standby() as standby:
        server.execute(SETUP)
        server.configure(synchronized_standby_slots="standby")
        job = LakeJob(tmp_path, server, target)
        url = standby.url_of_primary
        with job.session(spark) as replicate:
            running = replicate(url=url, failover=True)
            synchronize(job, standby, running)
            wait_until_live(running)
            standby.catch_up()
            fail_over(job, standby)
            promoted = f"SELECT * FROM {job.sql_name('seats')} WHERE v = 'promoted'"
            wait_while_running(running, lambda: not spark.sql(promoted).isEmpty(), TIMEOUT, 0.5)
            running.stop()
            assert copied(running) == len(TABLES)
            assert copied(replicate(once=True, url=url)) == 0
            assert_equal(spark, job, TABLES)


@pytest.mark.parametrize(("version", "target"), [(16, "delta"), (17, "iceberg"), (18, "delta")])
def test_a_job_that_reads_a_standby_goes_on_when_it_is_promoted(
    version: int, target: str, tmp_path: Path, spark: SparkSession
) -> None:
    """The session goes on through the promotion. So all that it has read is on the new timeline."""
    with Server(version) as server, server.standby() as standby:
        server.execute(SETUP)
        job = LakeJob(tmp_path, standby, target)

        def logs_snapshots(ended: threading.Event) -> None:
            # A standby makes a slot only when its primary sends the list of its transactions.
            while not ended.wait(0.2):
                server.execute("SELECT pg_log_standby_snapshot()")

        with job.session(spark) as replicate:
            with background(logs_snapshots):
                running = replicate()
                wait_until_live(running)
            session = standby.execute("SELECT active_pid FROM pg_replication_slots")
            standby.promote()
            write(standby, "promoted")
            wait_until_equal(spark, job, running, TABLES)
            assert standby.execute("SELECT active_pid FROM pg_replication_slots") == session
            standby.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE 'spark-pgoutput%'"
            )
            write(standby, "later")
            wait_until_equal(spark, job, running, TABLES)
            running.stop()
            assert copied(running) == len(TABLES)
            # A process that is killed just after the promotion leaves the timeline before it.
            newest = state_files(job.checkpoint)[-1]
            kept = json.loads(newest.read_text())
            assert kept["timeline"] == 2
            newest.write_text(json.dumps(kept | {"timeline": 1}))
            assert copied(replicate(once=True)) == 0
            assert_equal(spark, job, TABLES)


def test_a_table_that_was_restored_is_copied_after_a_promotion(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Server() as server, server.standby() as standby:
        server.execute(SETUP)
        server.configure(synchronized_standby_slots="standby")
        job = LakeJob(tmp_path, server, "delta")
        url = standby.url_of_primary
        with job.session(spark) as replicate:
            running = replicate(url=url, failover=True)
            synchronize(job, standby, running)
            wait_until_live(running)
            running.stop()
            assert copied(replicate(once=True, url=url)) == 0
            spark.sql(f"RESTORE TABLE {job.sql_name('orders')} TO VERSION AS OF 0")
            standby.catch_up()
            fail_over(job, standby)
            report = replicate(once=True, url=url).report()
            copies = [line.split(":")[0] for line in report if line.startswith("Copied")]
            assert copies == ["Copied public.orders"], report
            assert_equal(spark, job, TABLES)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_tables_of_which_older_rows_were_restored_are_copied(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The rows have no valid mark, and are still those of the job."""
    modes = {"orders": "mirror", "seats": "versions", "readings": "history"}
    job = LakeJob(tmp_path, server, target, mode=modes)
    with job.session(spark) as replicate:
        assert copied(replicate(once=True)) == len(TABLES)
        first = {table: newest_version(spark, job, table) for table in TABLES}
        server.execute("DELETE FROM orders WHERE id = 1; DELETE FROM seats WHERE id = 1")
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=list(TABLES))
        assert copied(replicate(once=True)) == len(TABLES)
        for table, version in first.items():
            go_back(spark, job, table, version)
            assert spark.table(job.sql_name(table)).count() == 50
        assert copied(replicate(once=True)) == len(TABLES)
        assert copied(replicate(once=True)) == 0
        assert_equal(spark, job, {table: table for table in ("orders", "seats")})
        ended = spark.table(job.sql_name("seats")).where("_to_lsn IS NOT NULL").collect()
        assert [row.id for row in ended] == [1]
        assert_copies(history(spark, job, "readings"), 2)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_hidden_values_do_not_show_after_a_restore_and_hashes_stay_if_a_table_is_made_again(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    create = "CREATE TABLE people (id int PRIMARY KEY, email text);"
    server.execute(
        f"{create} INSERT INTO people VALUES (1, 'one'), (2, 'two');"
        "CREATE PUBLICATION hidden FOR TABLE people"
    )
    (salt := tmp_path / "salt").write_text(SALT)
    modes = {"people": "versions"}
    job = LakeJob(tmp_path, server, target, publication="hidden", mode=modes)
    hidden = {"columns": {"people": {"hash": ["email"]}}, "hashSaltFile": str(salt)}

    def versions() -> set[tuple[object, ...]]:
        found = spark.table(job.sql_name("people")).select("id", "email", "_is_current")
        return set(map(tuple, found.collect()))

    with job.session(spark) as replicate:
        assert copied(replicate(once=True)) == 1
        clear = newest_version(spark, job, "people")
        server.execute("DELETE FROM people WHERE id = 1")
        assert copied(replicate(once=True, **hidden)) == 1
        go_back(spark, job, "people", clear)
        assert copied(replicate(once=True, **hidden)) == 1
        ended = {(1, None, False), (2, None, False)}
        assert versions() == {*ended, (2, hashed("two"), True)}
        server.execute(
            f"DROP TABLE people; {create} INSERT INTO people VALUES (3, 'three');"
            "ALTER PUBLICATION hidden ADD TABLE people"
        )
        assert copied(replicate(once=True, **hidden)) == 1
        assert versions() == {*ended, (2, hashed("two"), False), (3, hashed("three"), True)}


def newest_version(spark: SparkSession, job: LakeJob, table: str) -> int:
    """Return the version of a table of Delta, or the snapshot of one of Iceberg."""
    name = job.sql_name(table)
    of_iceberg = f"SELECT snapshot_id FROM {name}.history ORDER BY made_current_at DESC"
    query = f"DESCRIBE HISTORY {name}" if job.format == "delta" else of_iceberg
    newest, *_ = spark.sql(query).collect()
    return int(newest[0])


def go_back(spark: SparkSession, job: LakeJob, table: str, version: int) -> None:
    """Restore the rows that a table had at a version."""
    if job.format == "delta":
        spark.sql(f"RESTORE TABLE {job.sql_name(table)} TO VERSION AS OF {version}")
    else:
        catalog, namespace = job.target.split(".")
        name = f"{namespace}.{table}"
        spark.sql(f"CALL {catalog}.system.rollback_to_snapshot('{name}', {version})")


def test_a_promoted_standby_that_lacks_what_a_copy_has_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    """The stream waits for the standby, but a copy reads the primary, so it can be ahead."""
    with Server() as server, server.standby() as standby:
        server.execute(SETUP)
        server.configure(synchronized_standby_slots="standby")
        job = LakeJob(tmp_path, server, "delta")
        with job.session(spark) as replicate:
            replicate(once=True, failover=True)
            write(server, "before")
            running = replicate()
            synchronize(job, standby, running)
            running.stop()
            standby.catch_up()
            standby.configure(primary_conninfo="")  # it receives nothing any more
            write(server, "lost")
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, tables=["public.orders"])
            process = replicate()
            wait_until(lambda: "Copied public.orders" in "\n".join(process.report()), TIMEOUT)
            process.stop()
            fail_over(job, standby)
            assert refused(replicate) == "PGOUTPUT_TIMELINE"
            assert refused(replicate) == "PGOUTPUT_TIMELINE"  # each time


def test_a_promoted_standby_without_the_slot_is_refused(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Server() as server, server.standby() as standby:
        server.execute(SETUP)
        job = LakeJob(tmp_path, server, "delta")
        with job.session(spark) as replicate:
            replicate(once=True)
            write(server, "before")
            assert copied(replicate(once=True)) == 0
            standby.catch_up()
            assert readiness(standby) == []
            fail_over(job, standby)
            assert refused(replicate) == "PGOUTPUT_SLOT_NOT_FOUND"
            spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
            assert copied(replicate(once=True)) == 3
            write(standby, "later")
            assert copied(replicate(once=True)) == 0
            assert_equal(spark, job, TABLES)


def readiness(standby: Standby) -> list[tuple[object, ...]]:
    """Run the query of the page that returns whether a standby has the slot."""
    page = blocks(DOCS / "failover.md")
    (query,) = [block.text for block in page if "AS is_ready" in block.text]
    return standby.execute(query)


def let_fail_over(job: LakeJob) -> None:
    """Let standbys keep a copy of a slot that exists."""
    command = f"ALTER_REPLICATION_SLOT {job.slot} (FAILOVER true)"
    psql = PostgresServer().bin / "psql"
    conninfo = f"{job.server.conninfo} replication=database"
    subprocess.run([psql, conninfo, "--command", command], check=True, capture_output=True)


def synchronize(job: LakeJob, standby: Standby, running: Replication) -> None:
    """Wait until the standby has the slot, while the job runs and applications write."""

    def move() -> None:
        assert running.exception() is None, running.exception()
        write(job.server, "moved")
        # By themselves, servers write it every 15 seconds.
        job.server.execute("SELECT pg_log_standby_snapshot()")

    standby.wait_for_slot(job.slot, moved=move)


def fail_over(job: LakeJob, standby: Standby) -> None:
    """Kill the primary, make the standby the primary, and write to it."""
    job.server.kill()
    standby.promote()
    job.server = standby
    write(standby, "promoted")


# With these options, the state has all that it can have of a table. `adopt` changes the state.
MODES = {
    "orders": TableOptions("both", hash=["v"], onDelete="mark"),
    "seats": TableOptions("versions"),
    "readings": TableOptions("both"),
}


def test_a_server_without_the_publication_is_not_adopted(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Server() as server, Server() as other:
        server.execute(SETUP)
        job = LakeJob(tmp_path, server, "iceberg")
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
        job.server = other
        reason = f"lacks a publication of the job ({job.publication}), and pg_upgrade keeps"
        assert_not_adopted(spark, job, "0/1", reason)


# The versions whose slots pg_upgrade keeps.
@pytest.mark.parametrize(("version", "target"), [(17, "delta"), (18, "iceberg")])
def test_a_server_of_pg_upgrade_with_the_slot_is_adopted(
    version: int, target: str, tmp_path: Path, spark: SparkSession
) -> None:
    with Server(version) as server:
        server.execute(SETUP)
        job = LakeJob(tmp_path, server, target, tables=MODES)
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
            server.configure(autovacuum="off")  # whose transactions pg_upgrade counts as unread
            write(server, "last")
            last = str(server.value("SELECT pg_current_wal_lsn()"))
            with pytest.raises(AssertionError, match="consume the pending WAL"), upgraded(server):
                pass
            server.start_again()
            assert replicate(once=True).exit_code == 0
            with upgraded(server) as new:
                job.server = new
                assert refused(replicate) == "PGOUTPUT_OTHER_JOB"
                new.execute("SELECT pg_copy_logical_replication_slot('lake', 'kept')")
                write(new, "upgraded")
                assert_not_adopted(
                    spark, job, "FFFFFFFF/0", "the last write of the old server is below"
                )
                make_slot(new, "SELECT pg_create_logical_replication_slot('lake', 'pgoutput')")
                assert_not_adopted(spark, job, last, "Transactions ran between the upgrade and")
                make_slot(new, "SELECT pg_copy_logical_replication_slot('kept', 'lake')")
                new.execute(
                    "SELECT pg_replication_slot_advance('lake', pg_current_wal_flush_lsn())"
                )
                assert_not_adopted(spark, job, last, "between the upgrade and the")
                make_slot(new, "SELECT pg_copy_logical_replication_slot('kept', 'lake')")
                new.execute("ALTER TABLE seats ADD COLUMN added int")
                assert_not_adopted(spark, job, last, "The table public.seats was altered.")
                new.execute("ALTER TABLE seats DROP COLUMN added")
                assert refused(replicate) == "PGOUTPUT_OTHER_JOB"
                begin = new.value("SELECT confirmed_flush_lsn FROM pg_replication_slots LIMIT 1")
                # The file of a job has options that `adopt` does not need, too.
                options = {"url": new.jdbc_url, "user": new.user, "slot": job.slot}
                options |= {"publication": job.publication, "target": job.target}
                (file := tmp_path / "adopt.yaml").write_text(yaml.safe_dump(options))
                adopted = job.ask("adopt", "--config", str(file), "--last-lsn", last)
                assert adopted == (0, f"The job goes on with the server at {begin}. Start it.\n")
                assert copied(replicate(once=True)) == 0
                assert_equal(spark, job, TABLES)
                write(new, "later")
                assert copied(replicate(once=True)) == 0
                assert_equal(spark, job, TABLES)


def refused(replicate: Callable[..., object]) -> str:
    """Return the condition of the error with which the job fails."""
    with pytest.raises(PySparkException) as caught:
        replicate(once=True)
    return str(caught.value.getCondition())


def adopt(spark: SparkSession, job: LakeJob, last: str) -> str:
    return spark_pgoutput.adopt(
        spark,
        **job.server.account,
        slot=job.slot,
        publication=job.publication,
        checkpoint=job.checkpoint,
        last_lsn=last,
    )


def assert_not_adopted(spark: SparkSession, job: LakeJob, last: str, reason: str) -> None:
    with pytest.raises(PySparkException) as caught:
        adopt(spark, job, last)
    assert caught.value.getCondition() == "PGOUTPUT_NOT_ADOPTED"
    assert reason in str(caught.value)


def make_slot(server: Server, how: str) -> None:
    """Make the slot of the job in another way."""
    server.drop_slot("lake")
    server.execute(how)


def test_a_server_of_pg_upgrade_without_the_slot_is_copied(
    tmp_path: Path, spark: SparkSession
) -> None:
    with Server16() as old:
        old.execute(SETUP)
        job = LakeJob(tmp_path, old, "delta")
        with job.session(spark) as replicate:
            assert replicate(once=True).exit_code == 0
            write(old, "missed")
            with upgraded(old) as new:
                job.server = new
                write(new, "upgraded")
                spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
                assert copied(replicate(once=True)) == 3
                write(new, "later")
                assert copied(replicate(once=True)) == 0
                assert_equal(spark, job, TABLES)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_server_that_was_restored_is_copied(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        back_up(server)
        write(server, "lost")
        assert replicate(once=True).exit_code == 0
        restore(server)
        assert refused(replicate) == "PGOUTPUT_SERVER_BEHIND"
        spark_pgoutput.resync(spark, checkpoint=job.checkpoint, all=True)
        assert copied(replicate(once=True)) == 3
        write(server, "restored")
        assert copied(replicate(once=True)) == 0
        assert_equal(spark, job, TABLES)


def test_a_restored_server_that_lacks_what_the_tables_have_is_refused(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """A table has changes, and the job was killed before the state and the slot had them."""
    job = LakeJob(tmp_path, server, "delta")
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        back_up(server)
        server.execute("SELECT pg_switch_wal()")  # the restored server does not reach its LSN
        write(server, "lost")
        before = {table: commits(job, table) for table in TABLES}

        def is_applied() -> bool:
            return any(commits(job, table) > number for table, number in before.items())

        with job.running() as process:
            kill_when(process, job, is_applied)
        restore(server)
        write(server, "restored")
        assert refused(replicate) == "PGOUTPUT_SERVER_BEHIND"


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_job_moves_to_another_cluster(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, target)
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        write(server, "moved")
        shutil.move(job.checkpoint, tmp_path / "elsewhere")
        job.checkpoint = tmp_path / "elsewhere"
        assert job.run_once() == 0
        write(server, "back")
        assert copied(replicate(once=True)) == 0
        assert_equal(spark, job, TABLES)
