"""The results as tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.queries import (
    ALTERNATIVES,
    CHANGES,
    CHANGES_GROWTH_GOAL,
    CHANGES_SPEEDUP_GOAL,
    DECODING,
    FULL,
    IN_STREAM_GIVEN,
    IN_STREAM_LEFT_OUT,
    IN_STREAM_RATIO_GOAL,
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
        Tables with a sentence before each, without headings, so that they fit anywhere.
    """
    return "\n".join(
        [
            ". ".join(f"{name}: {value}" for name, value in results.machine.items()) + ".",
            "",
            "Nanoseconds per message and core above the scan; what is over its goal is bold:",
            "",
            *_nanoseconds(results),
            "",
            "Million messages per second on all cores together, the scan included:",
            "",
            *_throughput(results),
            "",
            "Messages with the xid that they have inside a streamed transaction, in nanoseconds "
            "per message and core above the scan:",
            "",
            *_streamed(results),
            "",
            "Table changes, in nanoseconds per message and core, everything included; what misses "
            "its goal is bold:",
            "",
            *_table_changes(results),
            "",
            "What else one could do, in nanoseconds per message and core above the scan (the "
            "pandas UDF has Python processes beside Spark's cores, and fewer messages):",
            "",
            *_alternatives(results),
            "",
        ]
    )


def _nanoseconds(results: Results) -> list[str]:
    return _table(_nanoseconds_of(DECODING, results, _columns(results, FULL)))


def _nanoseconds_of(
    queries: Sequence[Query], results: Results, columns: Sequence[tuple[int, int]]
) -> list[list[str]]:
    lines = [["Query", "Goal", *(f"{millions(rows)}, {plural(cores)}" for cores, rows in columns)]]
    for query in queries:
        found = (results.find(query, *column) for column in columns)
        cells = (_over(m.nanoseconds, query.goal, 0) if m else "" for m in found)
        lines.append([query.name, "" if query.goal is None else str(query.goal), *cells])
    return lines


def _throughput(results: Results) -> list[str]:
    columns = _columns(results, FULL)
    full = (results.find(FULL, *column) for column in columns)
    scans = (f"{m.million_messages_scanned_per_second:.2f}" if m else "" for m in full)
    lines = [
        ["Query", *(f"{millions(rows)}, {plural(cores)}" for cores, rows in columns)],
        ["`data`: the scan alone", *scans],
    ]
    for query in DECODING:
        found = (results.find(query, *column) for column in columns)
        cells = (f"{m.million_messages_per_second:.2f}" if m else "" for m in found)
        lines.append([query.name, *cells])
    return _table(lines)


def _columns(results: Results, query: Query) -> list[tuple[int, int]]:
    """Give the numbers of cores and rows that a query was measured on."""
    return [(cores, rows) for cores in results.cores() for rows in results.rows_of(query)]


def _streamed(results: Results) -> list[str]:
    lines = [["Query", "Goal", *map(plural, results.cores())]]
    for query in STREAMED:
        found = (results.find(query, cores) for cores in results.cores())
        lines.append([query.name, "", *(f"{m.nanoseconds:.0f}" if m else "" for m in found)])
    ratios = []
    for cores in results.cores():
        given = results.find(IN_STREAM_GIVEN, cores)
        left_out = results.find(IN_STREAM_LEFT_OUT, cores)
        ratio = left_out.nanoseconds / given.nanoseconds if given and left_out else None
        ratios.append("" if ratio is None else _over(ratio, IN_STREAM_RATIO_GOAL, 2))
    lines.append(["the second divided by the first", str(IN_STREAM_RATIO_GOAL), *ratios])
    return _table(lines)


def _table_changes(results: Results) -> list[str]:
    columns = _columns(results, CHANGES)
    speedups, growths = [], []
    for cores, rows in columns:
        measured = results.find(CHANGES, cores, rows)
        one_core = results.find(CHANGES, 1, rows) if cores > 1 else None
        speedup = one_core.best / measured.best if one_core and measured else None
        speedups.append(
            "" if speedup is None else _bold(f"{speedup:.2f}", speedup < CHANGES_SPEEDUP_GOAL)
        )
        least = min(results.rows_of(CHANGES))
        fewest = results.find(CHANGES, cores, least) if rows > least else None
        growth = measured.nanoseconds / fewest.nanoseconds if fewest and measured else None
        growths.append("" if growth is None else _over(growth, CHANGES_GROWTH_GOAL, 2))
    return _table(
        [
            *_nanoseconds_of(TABLE_CHANGES, results, columns),
            ["the first, times as fast as on 1 core", f"≥ {CHANGES_SPEEDUP_GOAL}", *speedups],
            ["the first, divided by that of fewer messages", str(CHANGES_GROWTH_GOAL), *growths],
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
    """Write a number of rows short.

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


def _over(value: float, goal: float | None, digits: int) -> str:
    return _bold(f"{value:.{digits}f}", goal is not None and value > goal)


def _bold(text: str, bold: bool) -> str:
    return f"**{text}**" if bold else text


def _from_to(numbers: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{end:.0f}" for end in (min(numbers), max(numbers))) if numbers else {}
    return " to ".join(ends)


def _table(lines: Sequence[Sequence[str]]) -> list[str]:
    head, *body = lines
    rule = ["---", *("---:" for _ in head[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *body)]
