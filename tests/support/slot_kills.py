"""The ways in which a server can end the session of a slot's reader."""

from __future__ import annotations

from collections.abc import Callable

from support.servers import Server, wait_until
from support.slot_history import SLOT

Kill = Callable[[Server], None]


def walsender(server: Server) -> int:
    """Wait for a reader of the slot, and return the process of the server that serves it."""
    active = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
    return int(wait_until(lambda: server.value(active)))


def reading_walsender(server: Server) -> int:
    """Wait until a task reads from the session of the slot, and return the walsender's process."""
    # While a task reads, the session reports this LSN to the server (`SlotSession.Reading`).
    busy = f"""
        SELECT pid FROM pg_stat_replication JOIN pg_replication_slots ON active_pid = pid
        WHERE slot_name = '{SLOT}' AND replay_lsn = '0/2'
    """
    ((pid,),) = wait_until(lambda: server.execute(busy), pause=0.01)
    return int(pid)


def end_walsender(server: Server) -> None:
    """End the session as an administrator does."""
    server.execute(f"SELECT pg_terminate_backend({walsender(server)})")


def end_reading_walsender(server: Server) -> None:
    """End the session while a task reads from it."""
    server.execute(f"SELECT pg_terminate_backend({reading_walsender(server)})")


def kill_walsender(server: Server) -> None:
    """Kill the walsender with SIGKILL: the server ends all sessions and recovers."""
    server.crash(walsender(server))


def kill_postmaster(server: Server) -> None:
    """Kill the postmaster with SIGKILL, and start the server again."""
    server.kill()
    server.start_again()


def restart(server: Server) -> None:
    """Stop the server as an administrator does, and start it again."""
    server.stop_fast(timeout=15)
    server.start_again()


def restart_immediately(server: Server) -> None:
    """Stop the server without a checkpoint, and start it again."""
    server.stop_immediately()
    server.start_again()


KILLS: tuple[Kill, ...] = (
    end_walsender,
    kill_walsender,
    kill_postmaster,
    restart,
    restart_immediately,
)
