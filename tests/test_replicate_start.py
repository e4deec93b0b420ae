"""What a job does at its start if parts of its state are lost."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_pgoutput.replication import Replication
from support import lake
from support.job_folder import state_files
from support.lake_job import LakeJob
from support.lake_judge import assert_equal
from support.processes import TIMEOUT
from support.servers import Server, server_fixture

pytestmark = [lake.needs_lake, pytest.mark.lake]

# What the job does, by the checkpoint folder, the slot and the table: `x` is one that is lost, and
# `o` is one from before the last run.
OUTCOMES = {
    "cst": "goes on",
    "cso": "copies",
    "csx": "copies",
    "cxt": "PGOUTPUT_SLOT_NOT_FOUND",
    "cxo": "PGOUTPUT_SLOT_NOT_FOUND",
    "cxx": "PGOUTPUT_SLOT_NOT_FOUND",
    "ost": "PGOUTPUT_SLOT_MOVED",
    "oso": "PGOUTPUT_SLOT_MOVED",
    "osx": "PGOUTPUT_SLOT_MOVED",
    "oxt": "PGOUTPUT_SLOT_NOT_FOUND",
    "oxo": "PGOUTPUT_SLOT_NOT_FOUND",
    "oxx": "PGOUTPUT_SLOT_NOT_FOUND",
    "xst": "PGOUTPUT_CHECKPOINT_LOST",
    "xso": "PGOUTPUT_CHECKPOINT_LOST",
    "xsx": "copies",
    "xxt": "PGOUTPUT_CHECKPOINT_LOST",
    "xxo": "PGOUTPUT_CHECKPOINT_LOST",
    "xxx": "copies",
}
TABLES = {"t": "t"}

server = server_fixture(
    "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b');"
    "CREATE PUBLICATION p FOR TABLE t",
    scope="module",
)


def test_a_job_whose_parts_are_lost_goes_on_or_copies_or_is_refused(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    assert set(OUTCOMES) == set(map("".join, itertools.product("cox", "sx", "tox")))
    first = LakeJob(tmp_path / "first", server, "delta", publication="p")
    with first.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        shutil.copytree(first.folder, tmp_path / "earlier")
        server.execute("UPDATE t SET v = 'c' WHERE id = 2")
        assert replicate(once=True).exit_code == 0
    server.execute(f"SELECT pg_copy_logical_replication_slot('{first.slot}', 'kept')")
    server.execute("INSERT INTO t VALUES (3, 'd')")
    found = {}
    for parts in OUTCOMES:
        found[parts] = _started(spark, first, parts)
    assert found == OUTCOMES


def _started(spark: SparkSession, first: LakeJob, parts: str) -> str:
    """Start the job with some of its parts, and return what it did."""
    checkpoint, slot, table = list(parts)
    server = first.server
    job = LakeJob(first.folder.parent / parts, server, "delta", slot=first.slot, publication="p")
    for kept, copy in ((checkpoint, job.checkpoint), (table, job.tables / "t")):
        if kept != "x":
            source = first.folder.parent / ("earlier" if kept == "o" else "first")
            shutil.copytree(source / copy.relative_to(job.folder), copy)
    if server.execute(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{job.slot}'"):
        server.drop_slot(job.slot)
    if slot == "s":
        server.execute(f"SELECT pg_copy_logical_replication_slot('kept', '{job.slot}')")
    before = _files(job)
    names = "SELECT slot_name FROM pg_replication_slots ORDER BY 1"  # also those of other tests
    slots = server.execute(names)
    with job.session(spark) as replicate:
        try:
            done = replicate(once=True)
        except PySparkException as error:
            assert _files(job) == before, "the job has written something"
            assert server.execute(names) == slots, "the job has made or removed a slot"
            return str(error.getCondition())
        assert done.exit_code == 0
        assert_equal(spark, job, TABLES)
        lines = done.report()
        uses = f"The job reads the slot {job.slot}, which exists. Nothing else may read it."
        assert (uses in lines) == (checkpoint + slot == "xs"), lines
        return "copies" if any("Copied" in line for line in lines) else "goes on"


def _files(job: LakeJob) -> dict[str, bytes]:
    """Return the commits of the tables, and what the checkpoint folder has."""
    return {str(path): path.read_bytes() for path in job.folder.rglob("*.json")}


def test_a_job_that_was_killed_while_it_wrote_its_first_state_goes_on(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    job = LakeJob(tmp_path, server, "delta", slot="state", publication="p")
    name = f"{1:020}.json"
    left = job.checkpoint / "state" / f".{name}.6c6b6a1e-8c8e-4ad4-9a4b-2f1d3c9d3a11.tmp"
    left.parent.mkdir(parents=True)
    left.write_text('{"version": 1, "wri')
    with job.session(spark) as replicate:
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, TABLES)
    assert (job.checkpoint / "state" / name).exists()


@pytest.mark.parametrize("folder", ["offsets", "generation-2"])
def test_the_checkpoint_of_a_streaming_query_is_refused(
    server: Server, tmp_path: Path, spark: SparkSession, folder: str
) -> None:
    """Jobs of older versions had such a checkpoint."""
    job = LakeJob(tmp_path, server, "delta", slot="streaming", publication="p")
    (job.checkpoint / folder).mkdir(parents=True)
    with job.session(spark) as replicate, pytest.raises(PySparkException) as error:
        replicate(once=True)
    assert error.value.getCondition() == "PGOUTPUT_CHECKPOINT_VERSION"
    assert [path.name for path in job.checkpoint.iterdir()] == [folder]
    assert not job.tables.exists()
    assert not server.execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = 'streaming'")


def test_a_damaged_state_is_an_error(server: Server, tmp_path: Path, spark: SparkSession) -> None:
    """The state of the previous epoch is never used in its place."""
    job = LakeJob(tmp_path, server, "delta", slot="damaged", publication="p")
    with job.session(spark) as replicate:
        for _ in range(2):
            assert replicate(once=True).exit_code == 0
        newest = state_files(job.checkpoint)[-1]
        whole = newest.read_bytes()
        newest.write_bytes(whole[:-10])
        with pytest.raises(PySparkException, match=newest.name) as error:
            replicate(once=True)
        assert error.value.getCondition() == "PGOUTPUT_CHECKPOINT_LOST"
        newest.write_bytes(whole)
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, TABLES)


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_copy_does_not_add_to_rows_of_somebody_else(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """A copy that fails leaves its table empty, and a user can write into it."""
    server.execute(
        f"CREATE TABLE n_{target} (id int PRIMARY KEY, n numeric(8, 2));"
        f"INSERT INTO n_{target} VALUES (1, 'NaN'); CREATE PUBLICATION n_{target}"
        f" FOR TABLE n_{target}"
    )
    table = f"n_{target}"
    job = LakeJob(tmp_path, server, target, slot=table, publication=table)
    with job.session(spark) as replicate:
        with pytest.raises(PySparkException, match=rf"types\.public\.{table}\.n=STRING") as error:
            replicate(once=True, onTableError="stop")
        assert error.value.getCondition() == "PGOUTPUT_INVALID_VALUE"
        assert "PGOUTPUT_INVALID_VALUE" in failed(replicate(once=True))
        server.execute(f"UPDATE {table} SET n = 2")
        spark.sql(f"INSERT INTO {job.sql_name(table)} VALUES (9, 9.00)")
        assert "PGOUTPUT_TARGET_EXISTS" in failed(replicate(once=True))
        with pytest.raises(PySparkException, match="rows that the job has not written") as error:
            replicate(once=True, onTableError="stop")
        assert error.value.getCondition() == "PGOUTPUT_TARGET_EXISTS"
        assert [row.id for row in spark.table(job.sql_name(table)).collect()] == [9]
        spark.sql(f"DELETE FROM {job.sql_name(table)}")
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, {table: table})


def failed(done: Replication) -> str:
    """Return why the one failed table has failed."""
    assert done.exit_code == 3
    (line,) = done.failed()
    return line


@pytest.mark.parametrize("target", lake.TARGETS)
def test_a_table_that_cannot_be_read_stops_no_other(
    target: str, server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    """The target can have a broken table of somebody else, and one of the job's."""
    table = f"broken_{target}"
    server.execute(
        f"CREATE TABLE {table} (id int PRIMARY KEY);CREATE PUBLICATION {table} FOR TABLE t, {table}"
    )
    job = LakeJob(tmp_path, server, target, slot=table, publication=table)
    assert job.run_once() == 0
    shutil.copytree(job.tables / table, job.tables / "of_another")
    kept: dict[Path, bytes] = {}
    for folder in (job.tables / table, job.tables / "of_another"):
        # Delta's checksum of a version has the properties of the table, so it goes too.
        files = [*folder.rglob("*.json"), *folder.rglob("*.crc")]
        kept |= {path: path.read_bytes() for path in files}
        for path in files:
            if path.suffix == ".crc":
                path.unlink()
            else:
                path.write_text("{ no")
    server.execute(f"INSERT INTO {table} VALUES (1); UPDATE t SET v = v || 'x'")
    with job.running("--once", "--option", "retryFor=15s") as process:
        output, _ = process.communicate(timeout=TIMEOUT)
    print(output)
    assert process.returncode in (1, 3), output
    assert sum("of_another cannot be read" in line.replace("`", "") for line in output.splitlines())
    job.use(spark)
    assert_equal(spark, job, TABLES)
    shutil.rmtree(job.tables / "of_another")
    for path, content in kept.items():
        if "of_another" not in path.parts:
            path.write_bytes(content)
    assert job.run_once() == 0
    assert_equal(spark, job, {"t": "t", table: table})


def test_a_table_that_leaves_the_publication_before_its_first_copy_can_come_back(
    server: Server, tmp_path: Path, spark: SparkSession
) -> None:
    server.execute(
        "CREATE TABLE back (id int PRIMARY KEY, n numeric(8, 2));"
        "INSERT INTO back VALUES (1, 'NaN'); CREATE PUBLICATION back FOR TABLE t, back"
    )
    job = LakeJob(tmp_path, server, "delta", slot="back", publication="back")
    with job.session(spark) as replicate:
        assert "PGOUTPUT_INVALID_VALUE" in failed(replicate(once=True))
        assert_equal(spark, job, TABLES)
        server.execute("ALTER PUBLICATION back DROP TABLE back")
        assert replicate(once=True).exit_code == 0
        server.execute("UPDATE back SET n = 2; ALTER PUBLICATION back ADD TABLE back")
        server.execute("INSERT INTO t VALUES (5, 'f'); INSERT INTO back VALUES (2, 3)")
        assert replicate(once=True).exit_code == 0
        assert_equal(spark, job, {"t": "t", "back": "back"})


def test_one_error_names_what_is_missing_at_the_server_and_in_the_lake(
    tmp_path: Path, spark: SparkSession
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with Server(settings={"wal_level": "replica"}) as server:
        server.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text);"
            "CREATE PUBLICATION p FOR TABLE t WITH (publish = 'insert');"
            "CREATE ROLE reader LOGIN PASSWORD 'x'"
        )
        job = LakeJob(tmp_path, server, "delta", publication="p")
        reader = {"user": "reader", "password": "x"}
        of_server = [
            "(1) The server's wal_level is replica: ALTER SYSTEM SET wal_level = logical;",
            "ALTER ROLE reader REPLICATION;",
            "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate');",
        ]
        unwritable = f"{blocked}/lake"
        attempts: list[tuple[dict[str, str], list[str]]] = [
            ({}, []),
            ({"target": unwritable}, ["The job cannot make the table"]),
            ({"target": "none.shop", "format": "iceberg"}, ["does not write iceberg"]),
            ({"format": "iceberg"}, ["is a folder, which only Delta takes"]),
        ]
        with job.session(spark) as replicate:
            for options, of_target in attempts:
                with pytest.raises(PySparkException) as error:
                    replicate(once=True, **reader, **options)
                assert error.value.getCondition() == "PGOUTPUT_SOURCE_NOT_READY"
                text = str(error.value)
                assert f"for {len(of_server) + len(of_target)} reasons" in text
                assert all(part in text for part in [*of_server, *of_target]), text
            assert not list(job.tables.glob("*")), "the attempt to write has left something"
            server.execute("ALTER SYSTEM SET wal_level = logical")
            server.execute(
                "ALTER ROLE reader REPLICATION;"
                "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')"
            )
            server.stop_fast()
            server.start_again()
            with pytest.raises(PySparkException) as error:
                replicate(once=True, **reader, target=unwritable)
            assert error.value.getCondition() == "PGOUTPUT_TARGET_NOT_WRITABLE"
            assert server.execute("SELECT 1 FROM pg_replication_slots") == []
            # What is missing for a table stops this table, and not the job.
            job_without_right = replicate(once=True, **reader)
            assert job_without_right.exit_code == 3
            (failed,) = job_without_right.failed()
            assert "GRANT SELECT ON public.t TO reader;" in failed
            server.execute("GRANT SELECT ON t TO reader")
            assert replicate(once=True, **reader).exit_code == 0
