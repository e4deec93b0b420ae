"""The text of `spark-pgoutput verify`, for terminals of 80 columns and for machines."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

from pyspark.sql import Row

from spark_pgoutput.printable import printable

_WIDTH = 80
_COLUMNS = (("TABLE", 18), ("RESULT", 9))
_COUNTS = (
    ("AT SERVER", "server_rows", 11),
    ("IN TARGET", "target_rows", 11),
    ("MISSING", "only_at_server", 8),
    ("SURPLUS", "only_in_target", 8),
    ("DIFFERENT", "different", 9),
)


def exit_code(tables: Sequence[Row]) -> int:
    """Return 4 if a table differs, else 3 if a table was skipped, else 0."""
    results = {row.result for row in tables}
    return 4 if "different" in results else 3 if "skipped" in results else 0


def as_json(tables: Sequence[Row]) -> str:
    """Write everything as one JSON object."""
    found = [row.asDict(recursive=True) for row in tables]
    return json.dumps({"tables": found}, indent=2, ensure_ascii=False)


def as_text(tables: Sequence[Row]) -> str:
    """Write everything in lines of at most 80 columns, if names and keys are not longer."""
    lines = [_line([name for name, _ in _COLUMNS], [name for name, _, _ in _COUNTS])]
    for row in tables:
        name = row.table
        if len(name) > _COLUMNS[0][1]:
            lines.append(name)
            name = ""
        counts = ["-" if row[column] is None else str(row[column]) for _, column, _ in _COUNTS]
        lines.append(_line([name, row.result], counts))
        if row.reason:
            lines += textwrap.wrap(row.reason, _WIDTH, initial_indent="  ", subsequent_indent="  ")
        lines += [f"  {key.kind}: {key.key}" for key in row["keys"] or ()]
    for lsn in sorted({row.lsn for row in tables}):
        lines.append(f"Both sides have the transactions below {lsn}.")
    return "\n".join(map(printable, lines))


def _line(names: Sequence[str], counts: Sequence[str]) -> str:
    cells = [text.ljust(width) for text, (_, width) in zip(names, _COLUMNS, strict=True)]
    cells += [text.rjust(width) for text, (_, _, width) in zip(counts, _COUNTS, strict=True)]
    return " ".join(cells).rstrip()
