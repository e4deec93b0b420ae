"""The servers of the tests keep their data through all that the tests do to them."""

from __future__ import annotations

import psycopg
import pytest

from support.postgres_binaries import NEWEST, VERSIONS
from support.servers import Server

NOT_OLDEST = [pytest.param(version, marks=pytest.mark.exhaustive) for version in VERSIONS[1:]]

# A slot is synchronized only if it has moved to WAL that the standby still has.
ADVANCE = """
SELECT pg_log_standby_snapshot();
SELECT pg_replication_slot_advance('s', pg_current_wal_flush_lsn())
"""


@pytest.mark.takes_long
@pytest.mark.parametrize("version", [VERSIONS[0], *NOT_OLDEST])
def test_data_survives_each_end_of_the_server(version: int) -> None:
    with Server(version) as server:
        assert server.value("SHOW server_version_num").startswith(str(version))
        slot = "SELECT slot_name FROM pg_create_logical_replication_slot('s', 'pgoutput')"
        assert server.value(slot) == "s"
        server.execute("CREATE TABLE t (k int)")
        for number, end in enumerate((server.stop_fast, server.stop_immediately, server.kill)):
            server.execute(f"INSERT INTO t VALUES ({number})")
            end()
            with pytest.raises(psycopg.OperationalError):
                server.connect()
            server.start_again()
        with server.connect() as connection:
            server.crash(connection.info.backend_pid)
        assert server.value("SELECT count(*) FROM t") == 3
        server.configure(wal_sender_timeout="1s")
        assert server.value("SHOW wal_sender_timeout") == "1s"


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", [14, 17, NEWEST])
def test_a_standby_is_promoted(version: int) -> None:
    failover = ", failover => true" if version >= 17 else ""
    with Server(version) as server:
        server.create_slot("s", failover)
        server.execute("CREATE TABLE t (k int)")
        with server.standby() as standby:
            server.execute("INSERT INTO t VALUES (1)")
            standby.catch_up()
            if failover:
                standby.wait_for_slot("s", moved=lambda: server.execute(ADVANCE))
            server.kill()
            standby.promote()
            standby.execute("INSERT INTO t VALUES (2)")
            assert standby.value("SELECT count(*) FROM t") == 2
            timeline = standby.value("SELECT pg_walfile_name(pg_current_wal_lsn())")[:8]
            assert timeline == "00000002"
