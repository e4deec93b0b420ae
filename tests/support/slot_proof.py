"""A server under random load and a stream of its slot, which in the end must have every change."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
from pyspark.sql import SparkSession

from support.postgres_binaries import NEWEST
from support.servers import Server
from support.slot_history import SLOT, prepare, writers
from support.slot_judge import assert_right, history
from support.slot_stream import SlotStream

# Options of the source. Each micro-batch has few transactions, and many of them end in the middle
# of one.
SMALL_BATCHES = {"maxBytesPerTrigger": "20k", "idleInterval": "50ms"}

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


@contextmanager
def proven(
    folder: Path,
    version: int = NEWEST,
    *,
    options: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    seed: object = 1,
    pause: float = 0.2,
    last: SparkSession | None = None,
) -> Iterator[tuple[Server, SlotStream]]:
    """Give a server on which clients write, and a stream that the block runs and kills.

    After the block, the stream reads the rest. Then it must have every change once and in order,
    and the slot must never have moved further than Spark had committed.

    Parameters
    ----------
    folder : Path
        The folder of the stream.
    version : int
        The major version of PostgreSQL.
    options : mapping of str to str, optional
        Options of the source.
    settings : mapping of str to str, optional
        Settings of the server.
    seed : object
        The seed of the writers.
    pause : float
        The mean time between two transactions of a writer in seconds.
    last : SparkSession, optional
        Where the stream reads the rest. By default, it does so in a process of its own.
    """
    with Server(version, settings) as server:
        prepare(server)
        stream = SlotStream(folder, server, **(options or {}))
        with SlotWatch(server, stream) as watch:
            with writers(server, seed, pause):
                yield server, stream
            stream.options.pop("maxBytesPerTrigger", None)  # so that the rest is read soon
            if last:
                stream.run_in(last)
            else:
                assert stream.run() == "ended"
        expected = history(server)
        batches = stream.batches()
        assert_right(expected, batches)
        assert watch.confirmed == stream.committed_lsn(), "the last run did not confirm its end"
        assert stream.committed_lsn() > expected[-1].commit_version
        transactions = len({change.commit_version for change in expected})
        print(
            f"{len(expected)} changes in {transactions} transactions: each came once and in order,"
            f" in {len(batches)} micro-batches"
        )
