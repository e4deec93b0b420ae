"""The text of `spark-pgoutput status`, for terminals of 80 columns and for machines."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from pyspark.sql import Row

from spark_pgoutput.printable import printable

_WIDTH = 80
_COLUMNS = (("TABLE", 20), ("MODE", 7), ("STATE", 7), ("LSN", 13), ("LAST CHANGE", 16))


def as_json(tables: Sequence[Row], slot: Mapping[str, str] | None) -> str:
    """Write everything as one JSON object."""
    found: dict[str, object] = {"tables": [_plain(row) for row in tables]}
    if slot is not None:
        numbers = ("bytesBehindLatest", "retainedWalBytes", "safeWalSize")
        values: dict[str, object] = {name: int(slot[name]) for name in numbers if name in slot}
        if "secondsBehindLatest" in slot:
            values["secondsBehindLatest"] = float(slot["secondsBehindLatest"])
        values["active"] = slot["active"] == "true"
        values["warnings"] = slot["warnings"].splitlines()
        found["slot"] = {**slot, **values}
    return json.dumps(found, indent=2, ensure_ascii=False)


def as_text(tables: Sequence[Row], slot: Mapping[str, str] | None) -> str:
    """Write everything in lines of at most 80 columns, if the names are not longer."""
    lines = [] if slot is None else _slot_lines(slot)
    lines.append(_line([name for name, _ in _COLUMNS], "ROWS"))
    for row in tables:
        last = row.last_change and row.last_change.astimezone()
        time = last.strftime("%Y-%m-%d %H:%M") if last else "-"
        rows = "-" if row.rows is None else str(row.rows)
        name = row.table
        if len(name) > _COLUMNS[0][1]:
            lines.append(name)
            name = ""
        lines.append(_line([name, row["mode"], row.state, row.lsn or "-", time], rows))
        if row.reason:
            lines += _wrapped(row.reason)
    if tables:
        written = tables[0].written.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
        lines.append(f"The job wrote its state at {written}.")
    return "\n".join(map(printable, lines))


def _slot_lines(slot: Mapping[str, str]) -> list[str]:
    used = "in use" if slot["active"] == "true" else "not in use"
    seconds = slot.get("secondsBehindLatest")
    age = "an unknown time" if seconds is None else f"{float(seconds):,.0f} s"
    lines = [
        f"The slot is {slot.get('walStatus', 'lost')} and {used}. It holds back "
        f"{int(slot.get('retainedWalBytes', 0)):,} bytes of WAL.",
        f"Everything below {slot['lsn']} is applied, "
        f"{int(slot['bytesBehindLatest']):,} bytes and {age} behind.",
    ]
    return [*lines, *_wrapped(slot["warnings"]), ""]


def _line(values: Sequence[str], rows: str) -> str:
    cells = [value.ljust(width) for value, (_, width) in zip(values, _COLUMNS, strict=True)]
    return f"{' '.join(cells)} {rows:>12}".rstrip()


def _wrapped(text: str) -> list[str]:
    return [
        line
        for part in text.splitlines()
        for line in textwrap.wrap(part, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    ]


def _plain(row: Row) -> dict[str, object]:
    return {
        name: value.astimezone(timezone.utc).isoformat() if isinstance(value, datetime) else value
        for name, value in row.asDict().items()
    }
