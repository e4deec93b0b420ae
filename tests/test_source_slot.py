"""What a server says of a slot, on real servers, and the errors for a slot that cannot be read."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from support.postgres_binaries import NEWEST, VERSIONS
from support.replication import ReplicationSession
from support.servers import Server, each_version, wait_until
from support.source import SourceClient, fails, source_client

PGOUTPUT = {"proto_version": "1", "publication_names": "everything"}

# The process that makes a slot.
CREATING = "SELECT pid FROM pg_stat_activity WHERE query ~ '^SELECT pg_create_logical'"

LATER = 2**40  # more bytes than a server writes in a test


@pytest.fixture(scope="module", params=each_version(pytest.mark.exhaustive))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    settings = {"max_replication_slots": "30", "max_wal_senders": "30"}
    with Server(request.param, settings) as server:
        server.execute("CREATE TABLE t (k int)")
        server.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        server.execute("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'secret'")
        server.execute("CREATE DATABASE other")
        yield server


def state(client: SourceClient, slot: str) -> Any:  # noqa: ANN401 - an object of the JVM
    return client.java("slot.SlotState").read(client.sql, slot)


def flush_lsn(client: SourceClient) -> int:
    return int(client.java("slot.Server").flushLsn(client.sql))


def publications(client: SourceClient, *names: str) -> Any:  # noqa: ANN401
    return client.java("slot.SlotChecks").publications(client.sql, client.seq(names))


def identity(client: SourceClient, slot: str, **changed: Any) -> Any:  # noqa: ANN401
    """Return what a checkpoint would keep, with some values changed."""
    values = {
        "id": "2f0c7f7e-0b3c-4c43-8d8c-0c3a4a4f9a35",
        "system_identifier": client.server.systemIdentifier(),
        "timelines": client.seq([1]),
        "database": client.server.database(),
        "slot": slot,
        "publications": publications(client, "everything"),
        "first_lsn": 0,
        "schema": client.jvm.org.apache.spark.sql.types.StructType(),
        **changed,
    }
    return client.java("slot.SourceIdentity")(*values.values())


def check(client: SourceClient, slot: str, start: int, **changed: Any) -> None:  # noqa: ANN401
    kept = identity(client, slot, **changed)
    client.java("slot.SlotChecks").beforeReading(state(client, slot), client.server, kept, start)


def test_a_server_describes_itself(server: Server, client: SourceClient) -> None:
    found = client.server
    known = server.value("SELECT system_identifier FROM pg_control_system()")
    assert found.systemIdentifier() == str(known)
    assert (found.timeline(), found.database(), found.walBlockSize()) == (1, "postgres", 8192)
    assert found.majorVersion() == server.version
    assert not found.inRecovery()
    assert flush_lsn(client) > 0


def test_a_slot_is_read_with_all_that_belongs_to_it(server: Server, client: SourceClient) -> None:
    server.create_slot("plain")
    found = state(client, "plain").get()
    query = "SELECT confirmed_flush_lsn - '0/0', restart_lsn - '0/0' FROM pg_replication_slots"
    (lsns,) = server.execute(f"{query} WHERE slot_name = 'plain'")
    confirmed, restart = map(int, lsns)
    assert found.confirmedFlush().get() == confirmed
    assert found.restartLsn().get() == restart
    assert found.flushLsn() >= confirmed
    assert found.retainedWal().get() == found.flushLsn() - restart
    assert found.walStatus().get() == "reserved"
    assert found.holder().isEmpty()
    assert found.safeWalSize().isEmpty()  # max_slot_wal_keep_size is not set
    check(client, "plain", confirmed)
    metrics = client.java("slot.SlotHealth").metrics(
        found, confirmed, found.flushLsn(), client.option(None)
    )
    assert metrics.apply("walStatus") == "reserved"
    assert int(metrics.apply("bytesBehindLatest")) == found.flushLsn() - confirmed
    assert client.java("slot.SlotHealth").warnings(found).isEmpty()


def test_the_holder_of_a_slot_is_known(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    server.create_slot("held")
    with (
        ReplicationSession(server.conninfo, "held", PGOUTPUT) as session,
        source_client(spark, server, user="reader", password="secret") as reader,
    ):
        session.confirm(1)
        wait_until(lambda: state(client, "held").get().holder().get().applyLsn().isDefined())
        holder = state(client, "held").get().holder().get()
        assert holder.pid() == session.server_process
        assert holder.applyLsn().get() == 1
        # The server shows another role only the process and the application_name.
        holder = state(reader, "held").get().holder().get()
        assert (holder.pid(), holder.applyLsn().isEmpty()) == (session.server_process, True)


def test_a_slot_that_does_not_exist_is_an_error(client: SourceClient) -> None:
    checks = client.java("slot.SlotChecks")
    with fails("PGOUTPUT_SLOT_NOT_FOUND", "'none'", "createSlot"):
        checks.readable(state(client, "none"), client.server, "none")
    with fails("PGOUTPUT_SLOT_NOT_FOUND", "below the LSN 0/64 ", "are lost"):
        check(client, "none", 100)


def test_a_slot_of_another_kind_is_an_error(server: Server, client: SourceClient) -> None:
    server.execute("SELECT pg_create_physical_replication_slot('physical')")
    server.create_slot("prepared", ", false, true")
    with server.connect("other") as other:
        other.execute("SELECT pg_create_logical_replication_slot('elsewhere', 'pgoutput')")
        with fails("PGOUTPUT_SLOT_PLUGIN", "'physical' is a physical slot"):
            check(client, "physical", LATER)
        with fails("PGOUTPUT_SLOT_TWO_PHASE", "'prepared'", "PREPARE TRANSACTION"):
            check(client, "prepared", LATER)
        with fails("PGOUTPUT_SLOT_DATABASE", "'elsewhere'", "'other'", "'postgres'"):
            check(client, "elsewhere", LATER)
    with server.connect() as connection:
        connection.execute("SELECT pg_create_logical_replication_slot('brief', 'pgoutput', true)")
        with fails("PGOUTPUT_SLOT_TEMPORARY", "'brief'"):
            check(client, "brief", LATER)


def test_a_slot_that_somebody_moved_or_made_again_is_an_error(
    server: Server, client: SourceClient
) -> None:
    server.create_slot("moved")
    start = state(client, "moved").get().confirmedFlush().get()
    server.execute("INSERT INTO t VALUES (1)")
    server.execute("SELECT pg_replication_slot_advance('moved', pg_current_wal_flush_lsn())")
    moved = server.value(
        "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'moved'"
    )
    check(client, "moved", state(client, "moved").get().confirmedFlush().get())
    with fails("PGOUTPUT_SLOT_MOVED", f"begins at the LSN {moved}", "missing", "made it again"):
        check(client, "moved", start)
    server.execute("SELECT pg_drop_replication_slot('moved')")
    server.create_slot("moved")
    with fails("PGOUTPUT_SLOT_MOVED"):
        check(client, "moved", start)


def test_a_server_that_is_another_one_or_lacks_wal_is_an_error(
    server: Server, client: SourceClient
) -> None:
    server.create_slot("here")
    with fails("PGOUTPUT_SERVER_BEHIND", "100/0", "backup"):
        check(client, "here", LATER)
    with fails("PGOUTPUT_OTHER_SERVER", "identifier 17,"):
        check(client, "here", 0, system_identifier="17")
    with fails("PGOUTPUT_SLOT_DATABASE", "the database 'shop'", "'postgres'"):
        check(client, "here", 0, database="shop")
    kept = identity(client, "here")
    with fails("PGOUTPUT_OTHER_SLOT", "'here'", "'there'"):
        kept.check(client.server, "there", publications(client, "everything"))
    assert kept.check(client.server, "here", publications(client, "everything")).isEmpty()


def test_an_invalidated_slot_is_an_error(server: Server, client: SourceClient) -> None:
    server.create_slot("lost")
    start = state(client, "lost").get().confirmedFlush().get()
    server.configure(max_slot_wal_keep_size="1MB")
    try:
        # The session of the client sees new settings a moment later than that of `configure`.
        wait_until(lambda: state(client, "lost").get().maxSlotWalKeepSize().isDefined())
        assert state(client, "lost").get().maxSlotWalKeepSize().get() == 2**20
        for _ in range(3):
            server.execute("INSERT INTO t VALUES (1); SELECT pg_switch_wal()")
        warnings = client.java("slot.SlotHealth").warnings(state(client, "lost").get())
        assert "wal_status" in warnings.head().text()
        server.execute("CHECKPOINT")
        with fails("PGOUTPUT_SLOT_INVALIDATED", "'lost'", "copy the tables again"):
            check(client, "lost", start)
    finally:
        server.configure(max_slot_wal_keep_size="-1")


def test_publications_that_do_not_exist_are_an_error(client: SourceClient) -> None:
    statement = 'CREATE PUBLICATION "Shop" FOR TABLE'
    with fails("PGOUTPUT_PUBLICATION_NOT_FOUND", "'Shop' does not exist", statement):
        publications(client, "everything", "Shop")


def test_a_publication_that_was_made_again_is_an_error(
    server: Server, client: SourceClient
) -> None:
    make = "CREATE PUBLICATION again FOR TABLE t"
    server.execute(make)
    kept = identity(client, "s", publications=publications(client, "again"))
    kept.checkPublications(publications(client, "again"))
    assert "now reads everything" in (
        kept.check(client.server, "s", publications(client, "everything")).get()
    )
    server.execute(f"DROP PUBLICATION again; {make}")
    with fails("PGOUTPUT_PUBLICATION_MADE_AGAIN", "'again' was dropped and made again"):
        kept.checkPublications(publications(client, "again"))


def test_a_stream_notices_that_a_publication_was_away(
    spark: SparkSession, server: Server, client: SourceClient, tmp_path: Path
) -> None:
    make = "CREATE PUBLICATION away FOR TABLE t"
    server.execute(make)
    server.create_slot("away")

    def read() -> None:
        changes = spark.readStream.format("pgoutput").options(
            **server.account,
            slot="away",
            publication="away",
        )
        writer = changes.load().writeStream.format("noop").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        query.awaitTermination()

    server.execute("INSERT INTO t VALUES (1)")
    read()
    server.execute("DROP PUBLICATION away")
    server.execute("INSERT INTO t VALUES (2)")
    with pytest.raises(StreamingQueryException, match="PGOUTPUT_PUBLICATION_NOT_FOUND"):
        read()
    server.execute(make)
    with pytest.raises(StreamingQueryException, match="PGOUTPUT_PUBLICATION_MADE_AGAIN"):
        read()


def test_a_publication_that_is_younger_than_a_change_is_an_error(
    spark: SparkSession, server: Server
) -> None:
    if server.version == NEWEST:
        pytest.skip("PostgreSQL 18 leaves out such changes")
    server.create_slot("older")
    server.execute("INSERT INTO t VALUES (1)")
    server.execute("CREATE PUBLICATION younger FOR TABLE t")
    read = spark.read.format("pgoutput").options(
        **server.account,
        slot="older",
        publication="younger",
    )
    with pytest.raises(Exception, match=r"PGOUTPUT_PUBLICATION_NOT_FOUND.* when a table"):
        read.load().collect()


def test_a_row_filter_that_fails_is_an_error(spark: SparkSession, server: Server) -> None:
    if server.version < 15:
        pytest.skip("PostgreSQL 14 has no row filters")
    server.execute(
        "CREATE TABLE filtered (k int);"
        "CREATE PUBLICATION filtering FOR TABLE filtered WHERE (1 / k > 0)"
    )
    server.create_slot("filtering")
    server.execute("INSERT INTO filtered VALUES (0)")
    read = spark.read.format("pgoutput").options(
        **server.account, slot="filtering", publication="filtering"
    )
    with pytest.raises(Exception, match=r"PGOUTPUT_CONNECTION.*division by zero.* at each start"):
        read.load().collect()


def test_a_transaction_that_takes_longer_than_a_limit_of_the_role_is_read(
    spark: SparkSession, server: Server
) -> None:
    limit = "transaction_timeout" if server.version >= 17 else "statement_timeout"
    server.execute(f"ALTER ROLE reader SET {limit} = '100ms'")
    server.create_slot("limited")
    server.execute("INSERT INTO t SELECT generate_series(1, 200000)")
    read = spark.read.format("pgoutput").options(
        url=server.jdbc_url,
        user="reader",
        password="secret",
        slot="limited",
        publication="everything",
        tables="public.t",
    )
    assert read.load().count() == 200_000
    server.execute(f"ALTER ROLE reader RESET {limit}")


def test_a_publication_with_a_comma_in_its_name_is_read(
    spark: SparkSession, server: Server
) -> None:
    server.execute('CREATE TABLE listed (k int); CREATE PUBLICATION "a,b ""c" FOR TABLE listed')
    server.create_slot("commas")
    server.execute("INSERT INTO listed VALUES (1)")
    read = spark.read.format("pgoutput").options(
        **server.account,
        slot="commas",
        publication='everything, "a,b ""c"',
        table="listed",
    )
    assert read.load().select("k").collect() == [(1,)]


def test_a_slot_is_made_once(spark: SparkSession, server: Server, client: SourceClient) -> None:
    creation = client.java("slot.SlotCreation")
    creation.create(client.address, "made", False)
    confirmed = state(client, "made").get().confirmedFlush().get()
    creation.create(client.address, "made", False)
    assert state(client, "made").get().confirmedFlush().get() == confirmed
    if server.version >= 17:
        creation.create(client.address, "followed", True)
        failover = "SELECT failover FROM pg_replication_slots WHERE slot_name = 'followed'"
        assert server.value(failover)
    else:
        with fails("PGOUTPUT_SERVER_VERSION", "failover", f"PostgreSQL {server.version}"):
            creation.create(client.address, "followed", True)
    with fails("PGOUTPUT_SLOT_NOT_CREATED", "No slot", "invalid character"):
        creation.create(client.address, "No slot", False)


def test_an_interrupt_ends_the_wait_for_a_new_slot(server: Server, client: SourceClient) -> None:
    creation = client.java("slot.SlotCreation")
    failures = []

    def create() -> None:
        try:
            creation.create(client.address, "never", False)
        except Exception as error:
            failures.append(error)

    with server.connect() as writer:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO t VALUES (1)")
        creating = threading.Thread(target=create)
        creating.start()
        waiting = f"{CREATING} AND pg_blocking_pids(pid) = '{{{writer.info.backend_pid}}}'"
        wait_until(lambda: server.execute(waiting))
        found = client.java("slot.ServerWait").waitsFor(client.sql, server.value(waiting)).get()
        assert str(writer.info.backend_pid) in found
        with fails("PGOUTPUT_SLOT_NOT_READY", "'never' is being made by the process"):
            check(client, "never", LATER)
        interrupt(client, "io.sparkpgoutput.source.slot.SlotCreation")
        creating.join(10)
        assert not creating.is_alive()
        writer.execute("ROLLBACK")
    assert "InterruptedException" in str(failures[0])
    assert state(client, "never").isEmpty()


def test_no_time_limit_of_the_role_ends_the_wait_for_a_new_slot(
    spark: SparkSession, server: Server, client: SourceClient
) -> None:
    limits = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"]
    if server.version >= 17:
        limits.append("transaction_timeout")
    server.execute(
        "CREATE ROLE hurried LOGIN REPLICATION PASSWORD 'x';"
        + "".join(f"ALTER ROLE hurried SET {limit} = '1s';" for limit in limits)
    )
    failures = []
    with (
        source_client(spark, server, user="hurried", password="x") as hurried,
        server.open_transaction() as writer,
    ):

        def create() -> None:
            try:
                client.java("slot.SlotCreation").create(hurried.address, "patient", False)
            except Exception as error:
                failures.append(error)

        creating = threading.Thread(target=create)
        creating.start()
        wait_until(lambda: server.execute(CREATING))
        creating.join(2.5)
        assert creating.is_alive(), failures
        writer.execute("ROLLBACK")
        creating.join(10)
    assert not failures
    assert state(client, "patient").get().confirmedFlush().isDefined()


def test_the_end_of_a_query_spares_the_session_of_its_next_start(
    server: Server, client: SourceClient
) -> None:
    server.create_slot("successor")
    settings = client.java("session.SessionSettings")
    first, second = (
        settings(
            client.address,
            "5a8e0b1c-1111-2222-3333-444455556666",
            run,
            "successor",
            client.seq(["everything"]),
            False,
        )
        for run in ("aaaaaaaa-1111-2222-3333-444455556666", "bbbbbbbb-1111-2222-3333-444455556666")
    )
    assert settings.isOfSource(first.id(), second.applicationName())
    holder = client.java("connection.Connections").openReplication(
        client.address, second.applicationName()
    )
    try:
        holder.start("successor", 0, second.pluginOptions())
        found = state(client, "successor").get().holder().get()
        assert found.applicationName() == second.applicationName()  # the server has cut off nothing
        client.java("session.SessionEnd")(first, None, 0).run()
        assert state(client, "successor").get().holder().get().pid() == found.pid()
        client.java("session.SessionEnd")(second, None, 0).run()
        assert state(client, "successor").get().holder().isEmpty()
    finally:
        holder.abort()


def interrupt(client: SourceClient, name: str) -> None:
    """Interrupt the thread that waits in a class."""
    for thread, frames in client.jvm.java.lang.Thread.getAllStackTraces().items():
        if any(frame.getClassName().startswith(name) for frame in frames):
            if thread.getName().startswith("spark-pgoutput"):
                continue
            thread.interrupt()


def test_a_standby_that_holds_a_slot_back_is_a_warning(
    server: Server, client: SourceClient
) -> None:
    if server.version < 17:
        pytest.skip("synchronized_standby_slots is new in 17")
    server.create_slot("synchronized", ", failover => true")
    server.execute("SELECT pg_create_physical_replication_slot('dead_standby', true)")
    server.configure(synchronized_standby_slots="dead_standby")
    try:
        with ReplicationSession(server.conninfo, "synchronized", PGOUTPUT):
            server.execute("INSERT INTO t VALUES (1)")
            health = client.java("slot.SlotHealth")
            wait_until(lambda: not health.warnings(state(client, "synchronized").get()).isEmpty())
            warning = health.warnings(state(client, "synchronized").get()).head().text()
            assert "synchronized_standby_slots (dead_standby)" in warning
    finally:
        server.configure(synchronized_standby_slots="")


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", [VERSIONS[0], NEWEST])
def test_the_timelines_of_a_promoted_standby_are_checked(spark: SparkSession, version: int) -> None:
    with Server(version) as server, server.standby() as standby:
        server.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        standby.catch_up()
        with source_client(spark, standby) as follower:
            assert follower.server.inRecovery()
            assert flush_lsn(follower) > 0
        server.stop_immediately()
        standby.promote()
        with source_client(spark, standby) as promoted:
            assert promoted.server.timeline() == 2
            timeline = promoted.java("slot.SlotChecks").timeline
            kept = promoted.seq([1])
            none = promoted.option(None)
            seen = timeline(promoted.replication, promoted.server, kept, 100, none)
            assert seen.mkString(" ") == "1 2"
            with fails("PGOUTPUT_TIMELINE", "branched off from timeline 1"):
                timeline(promoted.replication, promoted.server, kept, LATER, none)


@pytest.mark.exhaustive
def test_slots_of_a_standby_are_checked_and_made(spark: SparkSession) -> None:
    with Server() as server, server.standby() as standby:
        server.create_slot("copied", ", failover => true")
        advance = "SELECT pg_replication_slot_advance('copied', pg_current_wal_flush_lsn())"
        snapshot = "SELECT pg_log_standby_snapshot()"
        server.execute("CREATE PUBLICATION everything FOR ALL TABLES")
        standby.wait_for_slot("copied", moved=lambda: server.execute(f"{snapshot}; {advance}"))
        with source_client(spark, standby) as client:
            with fails("PGOUTPUT_SLOT_SYNCHRONIZED", "'copied'", "targetServerType=primary"):
                check(client, "copied", LATER)
            creation = client.java("slot.SlotCreation")
            creating = threading.Thread(target=creation.create, args=(client.address, "own", False))
            with server.open_transaction():  # the slot is made only after its end
                creating.start()
                wait_until(lambda: standby.execute(CREATING))
                process = standby.value(CREATING)
                reason = client.java("slot.ServerWait").waitsFor(client.sql, process).get()
                assert "pg_log_standby_snapshot" in reason
            while creating.is_alive():
                server.execute(snapshot)
                creating.join(0.2)
            confirmed = state(client, "own").get().confirmedFlush().get()
            check(client, "own", confirmed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", [16, NEWEST])
def test_a_slot_of_a_standby_is_read(spark: SparkSession, tmp_path: Path, version: int) -> None:
    with Server(version) as server, server.standby() as standby:
        server.execute("CREATE TABLE t (k int); CREATE PUBLICATION everything FOR ALL TABLES")
        create = "SELECT pg_create_logical_replication_slot('own', 'pgoutput')"
        creating = threading.Thread(target=standby.execute, args=(create,))
        creating.start()
        while creating.is_alive():
            server.execute("SELECT pg_log_standby_snapshot()")
            creating.join(0.2)
        server.execute("INSERT INTO t SELECT generate_series(1, 1000)")
        standby.catch_up()
        options = {
            "url": standby.jdbc_url,
            "user": standby.user,
            "password": standby.password,
            "slot": "own",
            "publication": "everything",
            "table": "t",
        }
        for _ in range(2):  # the first read leaves the slot as it is
            read = spark.read.format("pgoutput").options(**options).load()
            assert read.agg({"k": "sum"}).first() == (500500,)
        changes = spark.readStream.format("pgoutput").options(**options).load()
        for _ in range(2):
            query = (
                changes.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "changes"))
            )
            query.awaitTermination()
            server.execute("INSERT INTO t VALUES (0)")
            standby.catch_up()
        assert spark.read.parquet(str(tmp_path / "changes")).count() == 1001
