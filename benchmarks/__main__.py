"""Measure how fast Spark decodes, and write the numbers, a report and a chart."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.measure import Effort, measure
from benchmarks.plot import plot
from benchmarks.report import report
from benchmarks.results import Results


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmarks.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments of the command line. The default is those of the process.
    """
    options = _parser().parse_args(arguments)
    raw = options.output / "queries.json"
    if options.report_only:
        results = Results.from_json(raw.read_text(encoding="utf-8"))
    else:
        results = _measured(options)
        options.output.mkdir(parents=True, exist_ok=True)
        raw.write_text(results.to_json(), encoding="utf-8")
    (options.output / "queries.md").write_text(report(results), encoding="utf-8")
    plot(results, options.output / "queries.png")
    print(f"Written: queries.json, queries.md and queries.png in {options.output}")


def _measured(options: argparse.Namespace) -> Results:
    effort = Effort(options.rounds, options.seconds, options.warm_up)
    results = Results({}, [])
    for cores in options.cores:
        # A process has one JVM, which keeps its number of cores. So each run gets its own process.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            run = process.submit(measure, cores, options.rows, options.memory, effort).result()
        results = Results(run.machine, results.measurements + run.measurements)
    return results


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[200_000, 1_500_000, 6_000_000],
        help="numbers of messages; streamed messages and alternatives use the middle number, "
        "table changes the two largest",
    )
    parser.add_argument(
        "--rounds", type=int, help="repetitions of each query (default: as many as the time allows)"
    )
    parser.add_argument(
        "--seconds", type=float, default=45, help="time to measure each number of messages"
    )
    parser.add_argument(
        "--warm-up",
        type=float,
        default=10,
        help="seconds of running the queries before they are measured",
    )
    parser.add_argument(
        "--memory", default="8g", help="memory of Spark's JVM; 6,000,000 messages need 4g"
    )
    parser.add_argument(
        "--report-only", action="store_true", help="write the report again from queries.json"
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    return parser


if __name__ == "__main__":
    main()
