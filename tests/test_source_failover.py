"""A stream of a slot goes on with a promoted standby if the standby has all that was read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.servers import Server, Standby
from support.slot_history import JUDGE, SLOT, prepare, writers
from support.slot_judge import assert_right, history
from support.slot_stream import SlotStream

pytestmark = pytest.mark.slot

VERSIONS = (17, 18)  # which synchronize slots


@contextmanager
def primary_and_standby(version: int, folder: Path) -> Iterator[tuple[Server, Standby, SlotStream]]:
    """Give servers with a synchronized slot, and a stream that reads from the primary."""
    with Server(version) as server:
        prepare(server, failover=True)
        with server.standby() as standby:
            stream = SlotStream(folder, server)
            stream.options["url"] = standby.url_of_primary
            with writers(server, seed="failover"), stream.running() as process:
                process.wait_for_batches(3)
                standby.wait_for_slot(
                    SLOT, moved=lambda: server.execute("SELECT pg_log_standby_snapshot()")
                )
                process.wait_for_batches(3)
                process.kill()
            yield server, standby, stream


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stream_goes_on_if_the_standby_has_everything(tmp_path: Path, version: int) -> None:
    with primary_and_standby(version, tmp_path) as (server, standby, stream):
        assert stream.run() == "ended"
        expected = history(server)
        standby.catch_up()
        standby.wait_for_slot(SLOT, moved=lambda: None)
        server.kill()
        standby.promote()
        standby.create_slot(JUDGE)
        with writers(standby, seed="promoted"):
            time.sleep(2)
        assert stream.run() == "ended"
        later = history(standby)
        assert later
        assert_right([*expected, *later], stream.batches())


@pytest.mark.parametrize("version", VERSIONS)
def test_a_stream_fails_if_the_standby_is_behind(tmp_path: Path, version: int) -> None:
    """Changes that were read are not on the standby, so the new primary has another history."""
    with primary_and_standby(version, tmp_path) as (server, standby, stream):
        standby.catch_up()
        standby.configure(primary_conninfo="")
        with writers(server, seed="ahead"):
            time.sleep(2)
        assert stream.run() == "ended"
        expected = history(server)
        server.kill()
        standby.promote()
        with writers(standby, seed="promoted"):
            time.sleep(2)
        written = stream.batches()
        error = stream.run()
        assert "PGOUTPUT_TIMELINE" in error
        assert stream.batches() == written
        assert_right(expected, written)
