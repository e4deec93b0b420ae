"""The results as tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.queries import (
    ALTERNATIVES,
    CHANGES,
    DECODING,
    FULL,
    STREAMED,
    TABLE_CHANGES,
    Query,
)
from benchmarks.results import Results


def report(results: Results) -> str:
    """Write the results as Markdown.

    Parameters
    ----------
    results : Results
        What was measured.

    Returns
    -------
    str
        Tables, with a sentence before each and without headings.
    """
    return "\n".join(
        [
            ". ".join(f"{name}: {value}" for name, value in results.machine.items()) + ".",
            "",
            "Nanoseconds per message and core. The time of the scan is subtracted:",
            "",
            *_table(_nanoseconds(DECODING, results, _columns(results, FULL))),
            "",
            "Million messages per second, on all cores together and with the scan:",
            "",
            *_throughput(results),
            "",
            "Messages inside a streamed transaction, in nanoseconds per message and core. The time "
            "of the scan is subtracted:",
            "",
            *_streamed(results),
            "",
            "Table changes, in nanoseconds per message and core, with the scan:",
            "",
            *_table_changes(results),
            "",
            "Other ways to read the same data, in nanoseconds per message and core. The time of "
            "the scan is subtracted. The pandas UDF also runs one Python process for each core, "
            "which does not count here:",
            "",
            *_alternatives(results),
            "",
        ]
    )


def _nanoseconds(
    queries: Sequence[Query], results: Results, columns: Sequence[tuple[int, int]]
) -> list[list[str]]:
    lines = [["Query", *(f"{millions(rows)}, {plural(cores)}" for cores, rows in columns)]]
    for query in queries:
        found = (results.find(query, *column) for column in columns)
        lines.append([query.name, *(f"{m.nanoseconds:,.0f}" if m else "" for m in found)])
    return lines


def _throughput(results: Results) -> list[str]:
    columns = _columns(results, FULL)
    full = (results.find(FULL, *column) for column in columns)
    scans = (f"{m.million_messages_scanned_per_second:.2f}" if m else "" for m in full)
    lines = [
        ["Query", *(f"{millions(rows)}, {plural(cores)}" for cores, rows in columns)],
        ["the scan alone", *scans],
    ]
    for query in DECODING:
        found = (results.find(query, *column) for column in columns)
        cells = (f"{m.million_messages_per_second:.2f}" if m else "" for m in found)
        lines.append([query.name, *cells])
    return _table(lines)


def _columns(results: Results, query: Query) -> list[tuple[int, int]]:
    """Return the numbers of cores and rows that a query was measured on."""
    return [(cores, rows) for cores in results.cores() for rows in results.rows_of(query)]


def _streamed(results: Results) -> list[str]:
    lines = [["Query", *map(plural, results.cores())]]
    for query in STREAMED:
        found = (results.find(query, cores) for cores in results.cores())
        lines.append([query.name, *(f"{m.nanoseconds:,.0f}" if m else "" for m in found)])
    return _table(lines)


def _table_changes(results: Results) -> list[str]:
    columns = _columns(results, CHANGES)
    speedups = []
    for cores, rows in columns:
        measured = results.find(CHANGES, cores, rows)
        one_core = results.find(CHANGES, 1, rows) if cores > 1 else None
        speedups.append(f"{one_core.best / measured.best:.2f}" if one_core and measured else "")
    return _table(
        [
            *_nanoseconds(TABLE_CHANGES, results, columns),
            [f"{CHANGES.name}: speedup over 1 core", *speedups],
        ]
    )


def _alternatives(results: Results) -> list[str]:
    lines = [["Query", "Messages", *map(plural, results.cores()), "Times as long"]]
    rows = next(iter(results.rows_of(STREAMED[0])), None)
    for query in (FULL, *ALTERNATIVES):
        of_query = rows if query == FULL else None
        found = [results.find(query, cores, of_query) for cores in results.cores()]
        full = [results.find(FULL, cores, rows) for cores in results.cores()]
        times = [m.nanoseconds / f.nanoseconds for m, f in zip(found, full, strict=True) if m and f]
        lines.append(
            [
                query.name,
                next((f"{m.rows:,}" for m in found if m), ""),
                *(f"{m.nanoseconds:,.0f}" if m else "" for m in found),
                _from_to(times),
            ]
        )
    return _table(lines)


def millions(rows: int) -> str:
    """Write a number of rows in millions.

    Parameters
    ----------
    rows : int
        The number.

    Returns
    -------
    str
        Such as ``1.5 M``.
    """
    return f"{rows / 1e6:.3g} M"


def plural(cores: int) -> str:
    """Write a number of cores.

    Parameters
    ----------
    cores : int
        The number.

    Returns
    -------
    str
        Such as ``2 cores``.
    """
    return "1 core" if cores == 1 else f"{cores} cores"


def _from_to(numbers: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{end:.0f}" for end in (min(numbers), max(numbers))) if numbers else {}
    return " to ".join(ends)


def _table(lines: Sequence[Sequence[str]]) -> list[str]:
    head, *body = lines
    rule = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *body)]
