"""A server under random load and a stream of its slot, which in the end must have every change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from support.postgres_binaries import NEWEST
from support.servers import Server
from support.slot_history import prepare, writers
from support.slot_judge import assert_right, history
from support.slot_stream import SlotStream
from support.slot_watch import SlotWatch

# Options of the source. Each micro-batch has few transactions, and many of them end in the middle
# of one.
SMALL_BATCHES = {"maxBytesPerTrigger": "20k", "idleInterval": "50ms"}


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
