"""The texts of `status` and `verify`, for terminals of 80 columns and for machines."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TypeAlias

from pyspark.sql import Row

from spark_pgoutput.job_status import runs
from spark_pgoutput.printable import printable

#: The fields of each table in the status of a job, without the time at which it was written.
STATUS_FIELDS = (
    *("table", "target", "mode", "state", "reason", "since", "next_try", "lsn", "last_change"),
    *("lag", "queue_changes", "queue_bytes"),
    *("files", "deleted_rows", "rewritten_bytes", "last_rewrite"),
)

_WIDTH = 80
_Columns: TypeAlias = Sequence[tuple[str, int]]

# The columns of the tables with their widths. Figures are on the right of their columns.
_STATUS = (("TABLE", 18), ("MODE", 7), ("STATE", 7), ("LSN", 13))
_FIGURES = (("LAG", 7), ("QUEUED", 9))
_ROWS = ("ROWS", 12)
_RESULT = (("TABLE", 18), ("RESULT", 9))
_COUNTS = {
    "server_rows": ("AT SERVER", 11),
    "target_rows": ("IN TARGET", 11),
    "only_at_server": ("MISSING", 8),
    "only_in_target": ("SURPLUS", 8),
    "different": ("DIFFERENT", 9),
}


def status_json(
    tables: Sequence[Row],
    slot: Mapping[str, str] | None,
    waits: Sequence[str] = (),
    problem: str | None = None,
    *,
    ended: bool = False,
) -> str:
    """Write everything as one JSON object."""
    found: dict[str, object] = {
        "tables": [_plain(row) for row in tables],
        "waits": list(waits),
        "problem": problem,
        "ended": ended,
    }
    if slot is not None:
        numbers = ("bytesBehindLatest", "retainedWalBytes", "safeWalSize")
        values: dict[str, object] = {name: int(slot[name]) for name in numbers if name in slot}
        if "secondsBehindLatest" in slot:
            values["secondsBehindLatest"] = float(slot["secondsBehindLatest"])
        values["active"] = slot["active"] == "true"
        values["warnings"] = slot["warnings"].splitlines()
        found["slot"] = {**slot, **values}
    return json.dumps(found, indent=2)


def status_text(
    tables: Sequence[Row],
    slot: Mapping[str, str] | None,
    waits: Sequence[str] = (),
    problem: str | None = None,
    *,
    ended: bool = False,
    files: bool = False,
) -> str:
    """Write everything in lines of at most 80 columns, if the names are not longer.

    Parameters
    ----------
    tables : sequence of Row
        The tables.
    slot : mapping of str to str, optional
        What the server says of the slot.
    waits : sequence of str, optional
        What the job waits for.
    problem : str, optional
        Why the job did not read the slot when it wrote its status.
    ended : bool, optional
        Whether the job had ended when it wrote its status.
    files : bool, optional
        Whether a line says what the files of each table are.
    """
    lines = [] if slot is None else _slot_lines(slot)
    if waits:
        lines += ["The job waits:", *(line for text in waits for line in _wrapped(text)), ""]
    counted = bool(tables) and "rows" in tables[0]
    figures = (*_FIGURES, _ROWS) if counted else _FIGURES
    lines += _head(_STATUS, figures)
    for row in tables:
        values = [_time(row.lag), _number(row.queue_changes)]
        values += ["-" if row.rows is None else str(row.rows)] if counted else []
        texts = [row.table, row["mode"], row.state, row.lsn or "-"]
        lines += _row(_STATUS, texts, figures, values)
        if row.reason:
            lines += _wrapped(row.reason)
        if row.since:
            lines += _wrapped(_tries(row))
        if files:
            lines += _wrapped(_files(row))
    if tables and tables[0].written:
        lines += _written(tables[0].written, problem, ended)
    return "\n".join(map(printable, lines))


def verification_exit_code(tables: Sequence[Row]) -> int:
    """Return 4 if a table differs, else 3 if a table was skipped, else 0."""
    results = {row.result for row in tables}
    return 4 if "different" in results else 3 if "skipped" in results else 0


def verification_json(tables: Sequence[Row]) -> str:
    """Write everything as one JSON object."""
    found = [row.asDict(recursive=True) for row in tables]
    return json.dumps({"tables": found}, indent=2)


def verification_text(tables: Sequence[Row]) -> str:
    """Write everything in lines of at most 80 columns, if names and keys are not longer."""
    figures = tuple(_COUNTS.values())
    lines = _head(_RESULT, figures)
    for row in tables:
        counts = ["-" if row[count] is None else str(row[count]) for count in _COUNTS]
        lines += _row(_RESULT, [row.table, row.result], figures, counts)
        if row.reason:
            lines += _indented(row.reason)
        lines += [f"  {key.kind}: {key.key}" for key in row["keys"] or ()]
    lsns = sorted({row.lsn for row in tables})
    lines += [f"Both sides have the transactions below {lsn}." for lsn in lsns]
    return "\n".join(map(printable, lines))


def _written(time: datetime, problem: str | None, ended: bool) -> list[str]:
    """Say when a job wrote its status, and whether it runs."""
    sentences = [f"The job wrote this at {_clock(time)}.", *filter(None, [problem])]
    if not ended and not runs(time.astimezone(), datetime.now(timezone.utc)):
        sentences.append("Now it does not run, or it hangs.")
    return textwrap.wrap(" ".join(sentences), _WIDTH)


def _tries(row: Row) -> str:
    when = "at its next start, and when the table or its rights change"
    if row.next_try:
        when = f"at {_clock(row.next_try)}"
    return f"Since {_clock(row.since)}. The job tries again {when}."


def _files(row: Row) -> str:
    if row.files is None:
        return "The job has not written the table directly since its start."
    rewritten = f"{_count(row.files, 'file')}, {_count(row.deleted_rows, 'deleted row')}"
    if row.last_rewrite is None:
        return f"{rewritten}. No file was rewritten since the start of the job."
    size = f"{row.rewritten_bytes / 10**6:,.1f} MB"
    return f"{rewritten}. {size} were rewritten, the last at {_clock(row.last_rewrite)}."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _clock(time: datetime) -> str:
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def _time(seconds: float | None) -> str:
    """Write a time in at most 7 characters."""
    if seconds is None:
        return "-"
    for unit, size, most in (("s", 1, 1000), ("min", 60, 300), ("h", 3600, 1000)):
        if seconds / size < most:
            digits = 1 if unit == "s" and seconds < 100 else 0
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds / 86400:.0f} d"


def _number(count: int | None) -> str:
    """Write a number in at most 9 characters."""
    if count is None:
        return "-"
    return f"{count:,}" if count < 10**7 else f"{count / 10**6:,.0f}M"


def _slot_lines(slot: Mapping[str, str]) -> list[str]:
    used = "in use" if slot["active"] == "true" else "not in use"
    seconds = slot.get("secondsBehindLatest")
    age = "an unknown time" if seconds is None else f"{float(seconds):,.0f} s"
    lines = [
        f"The slot is {slot.get('walStatus', 'lost')} and {used}. It holds back "
        f"{int(slot.get('retainedWalBytes', 0)):,} bytes of WAL.",
        f"The job has read everything below {slot['lsn']}, "
        f"{int(slot['bytesBehindLatest']):,} bytes and {age} behind.",
    ]
    lines = [part for line in lines for part in textwrap.wrap(line, _WIDTH)]
    return [*lines, *_wrapped(slot["warnings"]), ""]


def _head(columns: _Columns, figures: _Columns) -> list[str]:
    return _row(columns, [name for name, _ in columns], figures, [name for name, _ in figures])


def _row(
    columns: _Columns, texts: Sequence[str], figures: _Columns, values: Sequence[str]
) -> list[str]:
    """Return the row of a table. A first text that is too long has a line of its own."""
    long = len(texts[0]) > columns[0][1]
    cells = ["", *texts[1:]] if long else texts
    line = [cell.ljust(width) for cell, (_, width) in zip(cells, columns, strict=True)]
    line += [value.rjust(width) for value, (_, width) in zip(values, figures, strict=True)]
    return [*([texts[0]] if long else []), " ".join(line).rstrip()]


def _wrapped(text: str) -> list[str]:
    return [line for part in text.splitlines() for line in _indented(part)]


def _indented(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _plain(row: Row) -> dict[str, object]:
    return {
        name: value.astimezone(timezone.utc).isoformat() if isinstance(value, datetime) else value
        for name, value in row.asDict().items()
    }
