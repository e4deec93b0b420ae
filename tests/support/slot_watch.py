"""A check that a slot never confirms more than Spark has committed."""

from __future__ import annotations

import threading

import psycopg

from support.servers import Server
from support.slot_history import SLOT
from support.slot_stream import SlotStream

_CONFIRMED = f"""
SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE slot_name = '{SLOT}'
"""


class SlotWatch:
    """Samples the slot's confirmed LSN during a block. It compares each one with the checkpoint.

    Attributes
    ----------
    confirmed : int
        The last confirmed LSN.
    """

    def __init__(self, server: Server, stream: SlotStream, interval: float = 0.05) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._server = server
        self._stream = stream
        self._interval = interval
        self._committed = self.confirmed = int(server.value(_CONFIRMED))
        self._mistakes: list[str] = []
        self._ended = threading.Event()

    def _run(self) -> None:
        """Look at the slot again and again. The server may be down in between."""
        while not self._ended.is_set():
            try:
                with self._server.connect() as connection:
                    while not self._ended.wait(self._interval):
                        found = connection.execute(_CONFIRMED.encode()).fetchone()
                        if found:
                            self._compare(int(found[0]))
            except psycopg.OperationalError:  # the server is down
                self._ended.wait(self._interval)
            except Exception as error:
                self._mistakes.append(repr(error))
                raise

    def _compare(self, confirmed: int) -> None:
        self.confirmed = confirmed  # a crash of the server can bring back an earlier one
        # The checkpoint is read after the slot, so it also has what Spark has committed in between.
        self._committed = max(self._stream.committed_lsn(), self._committed)
        if confirmed > self._committed:
            self._mistakes.append(f"confirmed {confirmed:X}, committed {self._committed:X}")

    def __enter__(self) -> SlotWatch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None:
            self._compare(int(self._server.value(_CONFIRMED)))
            assert not self._mistakes, self._mistakes[:3]
