"""The steps of a micro-batch, and how a test kills a stream between two of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import urlparse

from support.slot_stream import SlotStream, StreamProcess, numbers


class Progress:
    """What the checkpoint and the sink have at one moment, without files that a kill left."""

    def __init__(self, stream: SlotStream, process: StreamProcess) -> None:
        # The last step is read first. So a step that happens between two reads never seems to come
        # before the steps that it follows.
        self.committed = max(numbers(stream.checkpoint / "commits"), default=-1)
        log = stream.output / "_spark_metadata"
        self.written = max(numbers(log), default=-1)
        self.planned = max(numbers(stream.checkpoint / "offsets"), default=-1)
        self.source = any((stream.checkpoint / "sources" / "0").glob("[0-9]*"))
        entries = [number for number in numbers(log) if number > process.older_batch]
        named = {name for number in entries for name in _files(stream, number)}
        self.files = stream.files() - process.older_files - named


def source_is_known(now: Progress) -> bool:
    """The source has written its part of the checkpoint. No micro-batch is planned."""
    return now.source and now.planned < 0


def batch_is_planned(now: Progress) -> bool:
    """The offsets of a micro-batch are written. The sink has no new file."""
    return now.planned > now.written and not now.files


def rows_are_being_written(now: Progress) -> bool:
    """The sink has a file that its log does not name."""
    return now.planned > now.written and bool(now.files)


def sink_is_committed(now: Progress) -> bool:
    """The sink has committed a micro-batch that Spark has not."""
    return now.written > now.committed


def batch_is_committed(now: Progress) -> bool:
    """Spark has committed a micro-batch. The next one is not planned."""
    return now.committed >= 0 and now.planned == now.committed


POINTS = (
    source_is_known,
    batch_is_planned,
    rows_are_being_written,
    sink_is_committed,
    batch_is_committed,
)


def kill_at(process: StreamProcess, stream: SlotStream, point: Callable[[Progress], bool]) -> None:
    """Kill the processes at a point. If the query is too fast for this, wait for the next time."""
    process.suspend_when(lambda: point(Progress(stream, process)))
    process.kill()


def _files(stream: SlotStream, number: int) -> list[str]:
    lines = (stream.output / "_spark_metadata" / str(number)).read_text().splitlines()[1:]
    return [urlparse(json.loads(line)["path"]).path.rpartition("/")[2] for line in lines]
