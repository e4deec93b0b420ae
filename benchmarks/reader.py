"""What a reader of the target sees: the newest change of each table, and since when.

The reader is DuckDB, which has code of its own for Delta and for Iceberg. It asks a table only if
the table has a new version, and only for rows that are newer than what it has seen.

No reader looks at hundreds of tables each second on a machine that also has the server and the job.
For these, `commits_of` reads when the table got which changes from the log of the table.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_PAUSE_SECONDS = 0.1


class Seen(NamedTuple):
    """A version of a table that the reader has seen.

    Attributes
    ----------
    time : float
        When the reader looked, in seconds since 1970.
    written : float
        The greatest value of the column `written` in the table.
    """

    time: float
    written: float


class Reader:
    """Reads tables in a folder.

    Parameters
    ----------
    kind : str
        The format: ``delta`` or ``iceberg``.
    tables : Path
        The folder that has a folder for each table.
    """

    def __init__(self, kind: str, tables: Path) -> None:
        self._kind, self._tables = kind, tables
        self._duckdb = connection()
        self._versions: dict[str, int] = {}
        self.seen: dict[str, list[Seen]] = {}

    def look(self, table: str) -> Seen | None:
        """Return what the table has, if there is a version that the reader has not seen."""
        version = self._version(table)
        if version == self._versions.get(table, -1):
            return None
        now = time.time()
        seen = self.seen.setdefault(table, [])
        # Files without such rows are left out by their statistics, which Delta has in milliseconds.
        known = seen[-1].written - 1 if seen else 0.0
        newest = self._value(
            f"SELECT epoch(max(written)) FROM {self._rows(table, version)} "
            f"WHERE written > to_timestamp({known!r})"
        )
        self._versions[table] = version
        if newest is not None:
            seen.append(Seen(now, float(newest)))
        return seen[-1] if seen else None

    def watch(self, tables: Sequence[str], until: Callable[[], bool]) -> None:
        """Look at all tables again and again."""
        while not until():
            for table in tables:
                self.look(table)
            time.sleep(_PAUSE_SECONDS)

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        rows = self._rows(table, self._version(table))
        return int(self._value(f"SELECT count(*) FROM {rows}"))

    def scan(self, table: str) -> None:
        """Read all values of a table."""
        self._value(f"SELECT max(COLUMNS(*)) FROM {self._rows(table, self._version(table))}")

    def _rows(self, table: str, version: int) -> str:
        folder = self._tables / table
        if self._kind == "delta":
            return f"delta_scan('{folder}')"
        return f"iceberg_scan('{folder}/metadata/v{version}.metadata.json')"

    def _version(self, table: str) -> int:
        """Return the number of the newest version; -1 if there is no table."""
        return max(_versions(self._kind, self._tables / table), default=-1)

    def _value(self, query: str) -> Any:  # noqa: ANN401 - a value of any type
        row = self._duckdb.execute(query).fetchone()
        return row[0]


def lags_at(seen: Sequence[Seen], times: Sequence[float]) -> Iterator[float]:
    """Return how old the newest change was that the reader saw, at each of some times."""
    looks = [look.time for look in seen]
    for now in times:
        before = bisect_right(looks, now)
        if before:
            yield now - seen[before - 1].written


def lag_of(seen: Sequence[Seen], written: float, committed: float) -> float:
    """Return how long after its commit the reader saw a change; infinity if it has not seen it."""
    # Seconds since 1970 have less than a microsecond of rounding.
    times = (look.time for look in seen if look.written > written - 1e-5)
    return max(0.0, next(times, math.inf) - committed)


class Commit(NamedTuple):
    """A commit of a job to a table.

    Attributes
    ----------
    time : float
        When it was made, in seconds since 1970. In Iceberg, it ends tens of milliseconds later.
    mark : int
        The table has all transactions whose commits have a lower LSN.
    """

    time: float
    mark: int


def commits_of(kind: str, table: Path) -> list[Commit]:
    """Return the commits with a mark that the folder of a table has, in their order."""
    own = "spark-pgoutput-"
    versions = _versions(kind, table)
    if kind == "delta":
        found = []
        for _, file in sorted(versions.items()):
            actions = map(json.loads, file.read_text().splitlines())
            for txn in (action["txn"] for action in actions if "txn" in action):
                if txn["appId"].startswith(own):
                    found.append(Commit(file.stat().st_mtime, txn["version"]))
        return found
    newest = versions[max(versions)]
    return [
        Commit(snapshot["timestamp-ms"] / 1000, int(value))
        for snapshot in json.loads(newest.read_text())["snapshots"]
        for name, value in snapshot["summary"].items()
        if name.startswith(own)
    ]


def _versions(kind: str, table: Path) -> dict[int, Path]:
    """Return the files of the versions of a table by their numbers; none if there is no table."""
    delta = kind == "delta"
    folder = table / ("_delta_log" if delta else "metadata")
    name = re.compile(r"(\d{20})\.json" if delta else r"v(\d+)\.metadata\.json")
    files = folder.iterdir() if folder.exists() else ()
    return {int(found[1]): f for f in files if (found := name.fullmatch(f.name))}


def commit_lag(commits: Sequence[Commit], lsn: int, committed: float) -> float:
    """Return how long after its commit at the server the table got a change; infinity if never."""
    times = (commit.time for commit in commits if commit.mark > lsn)
    return max(0.0, next(times, math.inf) - committed)


_connections: list[Any] = []


def connection() -> Any:  # noqa: ANN401 - the tests run without DuckDB
    """Return a connection of DuckDB with its extensions, which it makes once."""
    if not _connections:
        import duckdb
        from duckdb_extensions import import_extension

        # Not in the home folder of the user.
        folder = tempfile.TemporaryDirectory(prefix="spark-pgoutput-duckdb-")
        made = duckdb.connect(config={"extension_directory": folder.name, "threads": "1"})
        for name in ("avro", "delta", "iceberg"):
            import_extension(name, con=made)
            made.execute(f"LOAD {name}")
        _connections.extend((made, folder))
    return _connections[0]
