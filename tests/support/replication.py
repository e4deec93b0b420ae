"""A reader of a replication slot that is cut off and connects again."""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Iterator, Mapping

import psycopg
from psycopg.pq import ExecStatus

# The position of the end LSN in a message. If a reader confirms it, the server continues there.
END_LSN = {b"C": 10, b"K": 10, b"P": 10, b"p": 10, b"r": 10, b"c": 14}

SILENCE = 20  # after so many seconds without a message, the test fails


class ReplicationSession:
    """A connection to a walsender, as a context manager. It iterates over the messages.

    The iteration ends only if the walsender ends. Leave the loop once you have what you need.
    """

    def __init__(self, conninfo: str, slot: str, options: Mapping[str, str]) -> None:
        self._connection = psycopg.connect(conninfo, replication="database", autocommit=True)
        self._libpq = self._connection.pgconn
        listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
        start = f"START_REPLICATION SLOT {slot} LOGICAL 0/0 ({listed})"
        result = self._libpq.exec_(start.encode())
        if result.status != ExecStatus.COPY_BOTH:
            self._connection.close()
            raise psycopg.OperationalError(result.error_message.decode())

    @property
    def server_process(self) -> int:
        """The process id of the walsender."""
        return self._libpq.backend_pid

    def __enter__(self) -> ReplicationSession:
        return self

    def __exit__(self, *raised: object) -> None:
        self._connection.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield messages until the walsender ends."""
        while copied := self._copied():
            if copied[:1] == b"w":
                yield copied[25:]  # after XLogData's header

    def confirm(self, lsn: int) -> None:
        """Confirm all messages up to this LSN to the server."""
        since_2000 = int((time.time() - 946_684_800) * 1_000_000)
        self._libpq.put_copy_data(struct.pack(">cqqqqb", b"r", lsn, lsn, lsn, since_2000, 0))
        self._libpq.flush()

    def _copied(self) -> bytes:
        while True:
            size, data = self._libpq.get_copy_data(1)
            if size > 0:
                return bytes(data)
            if size < 0:
                result = self._libpq.get_result()
                error = result.error_message.decode() if result else "the copying ended"
                assert "terminating connection" in error, error
                return b""
            readable, _, _ = select.select([self._libpq.socket], [], [], SILENCE)
            assert readable, "the server sends nothing"
            self._libpq.consume_input()


def end_lsn(message: bytes) -> int | None:
    """Return the LSN to confirm after the message, or None if it ends no transaction."""
    place = END_LSN.get(message[:1])
    return None if place is None else int(struct.unpack_from(">q", message, place)[0])
