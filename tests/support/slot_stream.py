"""A stream of a slot whose processes a test kills, and what it leaves in its folder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlparse

import psutil
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import SparkSession

from support import slot_query
from support.lsn import parsed_lsn
from support.processes import TIMEOUT, errors_of, started
from support.reference_changes import Change
from support.servers import Server, wait_until
from support.slot_history import PUBLICATIONS, SLOT
from support.suspension import suspend_when

SCRIPT = slot_query.__file__

COLUMNS = [
    *("row", "_table", "_change_type", "_commit_version", "_commit_timestamp", "_xid", "_gid"),
    *("_origin", "_ordinal", "_keys", "_missing"),
]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # So that each micro-batch keeps its own file in the checkpoint and in the log of the sink.
    "spark.sql.streaming.fileSink.log.compactInterval": "1000000",
    "spark.sql.streaming.minBatchesToRetain": "1000000",
}

Trigger = Mapping[str, str | bool]

CONTINUOUSLY: Trigger = {"processingTime": "0 seconds"}
AVAILABLE_NOW: Trigger = {"availableNow": True}

_LSN = re.compile(r'"lsn"\s*:\s*"([0-9A-F]+/[0-9A-F]+)"')


class SlotStream:
    """A stream with its checkpoint and its files.

    Parameters
    ----------
    folder : Path
        The folder of the stream.
    server : Server
        The server of the slot.
    options : str
        Options of the source, in addition to those that say which slot to read.
    """

    def __init__(self, folder: Path, server: Server, **options: str) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.output = folder / "changes"
        self.options = {
            "url": server.jdbc_url,
            "user": server.user,
            "password": server.password,
            "slot": SLOT,
            "publication": PUBLICATIONS,
            **options,
        }

    @contextmanager
    def running(
        self,
        *,
        trigger: Trigger = CONTINUOUSLY,
        master: str = "local[2]",
        milliseconds_a_row: int = 0,
        settings: Mapping[str, str] | None = None,
    ) -> Iterator[StreamProcess]:
        """Run the query in a process of its own, until the end of the block at the latest."""
        stop = self.folder / "stop"
        stop.unlink(missing_ok=True)
        description = {
            **self._description(trigger, milliseconds_a_row),
            "master": master,
            "settings": {**SETTINGS, **(settings or {})},
            "stop": str(stop),
        }
        file = self.folder / "query.json"
        file.write_text(json.dumps(description))
        with started([sys.executable, SCRIPT, str(file)], self.folder) as process:
            yield StreamProcess(process, self)

    def _description(self, trigger: Trigger, milliseconds_a_row: int = 0) -> dict[str, object]:
        return {
            "options": self.options,
            "trigger": trigger,
            "milliseconds_a_row": milliseconds_a_row,
            "checkpoint": str(self.checkpoint),
            "output": str(self.output),
        }

    def run(self, **arguments: object) -> str:
        """Read up to the present end of the WAL. Return "ended", or the error of the query."""
        with self.running(trigger=AVAILABLE_NOW, **arguments) as process:  # type: ignore[arg-type]
            return process.outcome()

    def run_in(self, spark: SparkSession) -> None:
        """Read up to the present end of the WAL, in an existing session."""
        session = spark.newSession()
        for name, value in SETTINGS.items():
            if name.startswith("spark.sql."):
                session.conf.set(name, value)
        slot_query.start(session, self._description(AVAILABLE_NOW)).awaitTermination()

    def committed_batch(self) -> int:
        """Return the number of the last micro-batch that Spark has committed, or -1."""
        return max(numbers(self.checkpoint / "commits"), default=-1)

    def committed_lsn(self) -> int:
        """Return the end of the last micro-batch that Spark has committed, or 0."""
        batch = self.committed_batch()
        return 0 if batch < 0 else self.end_of(batch)

    def end_of(self, batch: int) -> int:
        """Return the LSN at which a micro-batch ends."""
        text = (self.checkpoint / "offsets" / str(batch)).read_text()
        found = _LSN.search(text)
        assert found, text
        return parsed_lsn(found[1])

    def files(self) -> set[str]:
        """Return the names of the sink's files, also of those that its log does not name."""
        return {file.name for file in self.output.glob("part-*")}

    def batches(self) -> dict[int, list[Change]]:
        """Return the changes of each micro-batch that the log of the sink has."""
        log = self.output / "_spark_metadata"
        return {number: list(_changes(log / str(number))) for number in sorted(numbers(log))}


class StreamProcess:
    """The processes of a query: Python, the driver's JVM and perhaps executors."""

    def __init__(self, process: subprocess.Popen[str], stream: SlotStream) -> None:
        self._process = process
        self._stream = stream
        self.older_batch = max(numbers(stream.output / "_spark_metadata"), default=-1)
        self.older_files = stream.files()

    def wait_until(self, holds: Callable[[], object], pause: float = 0.05) -> None:
        """Wait until a function returns true. The query must still run."""
        wait_until(self._while_running(holds), TIMEOUT, pause)

    def _while_running(self, holds: Callable[[], object]) -> Callable[[], object]:
        def holds_while_running() -> object:
            assert self._process.poll() is None, self._ended()
            return holds()

        return holds_while_running

    def wait_for_batches(self, number: int = 3) -> None:
        """Wait until Spark has committed some more micro-batches."""
        last = self._stream.committed_batch() + number
        self.wait_until(lambda: self._stream.committed_batch() >= last)

    def survives(self, batches: int = 3) -> bool:
        """Wait for some micro-batches, and return whether the query still runs then."""
        last = self._stream.committed_batch() + batches
        wait_until(
            lambda: self._process.poll() is not None or self._stream.committed_batch() >= last,
            TIMEOUT,
        )
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill all processes with SIGKILL."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate(timeout=TIMEOUT)

    def suspend_when(self, holds: Callable[[], object]) -> None:
        """Stop all processes when a function returns true, and it still returns true after that."""
        suspend_when(self._process.pid, self._while_running(holds), pause=0.001)

    def suspend(self) -> None:
        """Stop all processes with SIGSTOP."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let the suspended processes go on."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def executors(self) -> list[psutil.Process]:
        """Return the executors' processes of a local cluster."""
        processes = psutil.Process(self._process.pid).children(recursive=True)
        return [process for process in processes if is_executor(process)]

    def stop(self) -> str:
        """Stop the query, and return how it ended."""
        (self._stream.folder / "stop").touch()
        return self.outcome()

    def outcome(self) -> str:
        """Wait for the end of the query. Return "ended", or its error."""
        output, _ = self._process.communicate(timeout=TIMEOUT)
        assert self._process.returncode == 0, self._ended(output)
        return output.strip()

    def _ended(self, output: str = "") -> str:
        output = output or self._process.communicate()[0]
        return f"The query ended.\n{output[-5000:]}\n{errors_of(self._stream.folder)[-5000:]}"


def is_executor(process: psutil.Process) -> bool:
    """Return whether a process is an executor of a local cluster."""
    try:
        return any("CoarseGrainedExecutorBackend" in part for part in process.cmdline())
    except psutil.Error:  # it has ended
        return False


def numbers(folder: Path) -> list[int]:
    """Return the numbers of the files of one of Spark's logs."""
    if not folder.exists():
        return []
    return [int(file.name) for file in folder.iterdir() if file.name.isdecimal()]


def _changes(entry: Path) -> Iterator[Change]:
    """Return the changes in the files that an entry of the sink's log names."""
    for line in entry.read_text().splitlines()[1:]:
        file = urlparse(json.loads(line)["path"]).path
        table = pyarrow.parquet.ParquetFile(file).read()
        assert table.column_names == COLUMNS
        time = table.schema.get_field_index("_commit_timestamp")
        micros = table.column(time).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        for values in table.set_column(time, "_commit_timestamp", micros).to_pylist():
            row = values.pop("row")
            fields = {name.removeprefix("_"): value for name, value in values.items()}
            yield Change(**fields, position=0, row=None if row is None else dict(row))
