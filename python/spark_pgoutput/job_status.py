"""The status that a job writes, read without Spark: for probes, alerts and monitors.

A job writes its status every 10 seconds: into its checkpoint folder and, with the option
`statusFile`, into a file of its host.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from spark_pgoutput.printable import printable

#: The exit status if the job does not run, or does not read the slot.
NOT_READING = 5

#: The exit status if a table has failed, or is behind.
BEHIND = 6

#: A job that has written nothing for so many seconds has missed several writes.
_MOST_AGE = 60.0

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_OF_FILE = re.compile(r"file:(//)?(?=/)")


class NoStatusError(Exception):
    """There is no status of a job, or none that can be read."""


def is_local(folder: str) -> bool:
    """Return whether a folder is on this host, so that its files can be read without Spark."""
    return not _URL.match(_OF_FILE.sub("", folder))


def run(arguments: argparse.Namespace) -> int:
    """Run `spark-pgoutput status` without Spark, and return its exit status."""
    file = _file(arguments)
    try:
        status = read(file)
    except NoStatusError as error:
        print(_line(str(error)), file=sys.stderr)
        return NOT_READING if arguments.check else 1
    if arguments.prometheus:
        print(prometheus(status), end="")
        return 0
    if arguments.check:
        return _check(status, arguments)
    return _show(status, arguments)


def read(file: Path) -> dict[str, Any]:
    """Read a status.

    Raises
    ------
    NoStatusError
        If there is none.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(found, dict) or "written" not in found:
            raise ValueError("It has no time.")
    except FileNotFoundError:
        raise NoStatusError(
            f"There is no status of a job: the file {file} does not exist. A job writes it when it "
            "has begun to read the slot."
        ) from None
    except (OSError, ValueError) as error:
        raise NoStatusError(f"The file {file} is not the status of a job. {error}") from None
    return found


def runs(written: datetime, now: datetime) -> bool:
    """Return whether a job runs that wrote its status at a time; also False for a time to come."""
    return abs((now - written).total_seconds()) <= _MOST_AGE


def problem(status: Mapping[str, Any], now: datetime) -> str | None:
    """Return why the job does not run, or does not read the slot; None if it does both."""
    found: str | None = status["problem"]
    # A status of an earlier version does not say that its job has ended.
    if status.get("ended", False) or runs(_time(status["written"]), now):
        return found
    return (
        f"The job does not run, or it hangs: it wrote its status last at {status['written']}, "
        f"and now it is {now.isoformat(timespec='seconds')}."
    )


def prometheus(status: Mapping[str, Any]) -> str:
    """Write the metrics of a job in the text format of Prometheus."""
    slot = {"slot": status["slot"]}
    of_job = [(slot, status["values"])]
    of_tables = [
        ({**slot, **table["labels"]}, table["values"])
        for table in status["tables"]
        if "labels" in table
    ]
    lines: list[str] = []
    for metrics, samples in (("job", of_job), ("table", of_tables)):
        for metric in status["metrics"][metrics]:
            lines += _samples(metric, samples)
    return "".join(f"{line}\n" for line in lines)


def _samples(
    metric: Mapping[str, str], samples: Iterable[tuple[Mapping[str, str], Mapping[str, float]]]
) -> Iterator[str]:
    name = metric["prometheus"]
    yield f"# HELP {name} {_escaped(metric['help'])}"
    yield f"# TYPE {name} {metric['type']}"
    for labels, values in samples:
        if metric["name"] in values:
            pairs = ",".join(f'{key}="{_quoted(value)}"' for key, value in labels.items())
            yield f"{name}{{{pairs}}} {values[metric['name']]}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")


def _check(status: Mapping[str, Any], arguments: argparse.Namespace) -> int:
    why = problem(status, datetime.now(timezone.utc))
    if why is not None:
        print(_line(why), file=sys.stderr)
        return NOT_READING
    lines = [
        f"The table {table['table']} has failed. {table['reason']}"
        for table in status["tables"]
        if arguments.tables and table["state"] == "failed"
    ]
    most = math.inf if arguments.max_lag is None else arguments.max_lag
    lines += [
        f"The table {table['table']} is {table['lag']:.0f} s behind."
        for table in status["tables"]
        if table["lag"] is not None and table["lag"] > most
    ]
    for line in lines:
        print(_line(line), file=sys.stderr)
    if lines:
        return BEHIND
    print(f"The job reads the slot {status['slot']}.")
    return 0


def _show(status: Mapping[str, Any], arguments: argparse.Namespace) -> int:
    # These two need PySpark, and to import it takes too long for a probe.
    from pyspark.sql import Row

    from spark_pgoutput import reports

    times = ("since", "next_try", "last_change", "last_rewrite")
    rows = []
    for table in status["tables"]:
        # A job of another version can lack a column.
        values = {name: table.get(name) for name in reports.STATUS_FIELDS}
        values |= {name: _time(table[name]) for name in times if table.get(name) is not None}
        rows.append(Row(**values, written=_time(status["written"])))
    ended = status.get("ended", False)
    if arguments.json:
        print(reports.status_json(rows, None, status["waits"], status["problem"], ended=ended))
    else:
        shown = reports.status_text(
            *(rows, None, status["waits"], status["problem"]), ended=ended, files=arguments.files
        )
        print(shown)
    return 0


def _file(arguments: argparse.Namespace) -> Path:
    if arguments.status_file is not None:
        return Path(arguments.status_file)
    return Path(_OF_FILE.sub("", arguments.checkpoint)) / "status.json"


def _time(text: str) -> datetime:
    # Python 3.10 does not know the Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _line(text: str) -> str:
    """Return a text as one line, because a probe shows only one line."""
    return printable(" ".join(text.split()))
