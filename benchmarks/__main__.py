"""Measure how fast Spark decodes, and write it down as a table, raw numbers and a picture."""

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
        The command line's by default.
    """
    options = _parser().parse_args(arguments)
    effort = Effort(options.rounds, options.seconds, options.warm_up)
    results = Results({}, [])
    for cores in options.cores:
        # Each in a process of its own: there is one JVM a process, and it stays as it started.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            run = process.submit(measure, cores, options.rows, options.memory, effort).result()
        results = Results(run.machine, results.measurements + run.measurements)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "queries.json").write_text(results.to_json(), encoding="utf-8")
    (options.output / "queries.md").write_text(report(results), encoding="utf-8")
    plot(results, options.output / "queries.png")
    print(f"Written: queries.md, queries.json and queries.png in {options.output}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[200_000, 1_500_000, 6_000_000],
        help="numbers of messages; streamed ones and alternatives with the middle one only, "
        "table changes with the two largest",
    )
    parser.add_argument(
        "--rounds", type=int, help="how often each query is measured (default: as time allows)"
    )
    parser.add_argument(
        "--seconds", type=float, default=45, help="how long each number of messages is measured"
    )
    parser.add_argument(
        "--warm-up", type=float, default=10, help="for how many seconds queries run before that"
    )
    parser.add_argument("--memory", default="8g", help="of Spark's JVM; 6,000,000 messages need 4g")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output")
    return parser


if __name__ == "__main__":
    main()
