"""The results as a chart."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from benchmarks.queries import (
    ALTERNATIVES,
    DECODING,
    FULL,
    HANDED_OVER,
    STREAMED,
    TABLE_CHANGES,
)
from benchmarks.report import millions, plural
from benchmarks.results import Results

_OURS = "#2f6f9f"
_OTHERS = "#b9b2a7"
_LINES = ("#2f6f9f", "#e08a3c", "#5c9a5f", "#8a6bb1")
_LEFT_END = 10  # nanoseconds, on the logarithmic axis


def plot(results: Results, path: Path) -> None:
    """Draw the time of each query, and how it grows with the number of messages.

    Parameters
    ----------
    results : Results
        What was measured.
    path : Path
        The PNG file to write.
    """
    figure = Figure(figsize=(13, 6), layout="constrained")
    costs, growth = figure.subplots(1, 2, width_ratios=[3, 2])
    _draw_costs(costs, results)
    _draw_growth(growth, results)
    for axes in (costs, growth):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    figure.savefig(path, dpi=120)


def _draw_costs(axes: Axes, results: Results) -> None:
    cores = results.cores()[0]
    (rows,) = results.rows_of(STREAMED[0])
    queries = [*DECODING, *STREAMED, *TABLE_CHANGES, *ALTERNATIVES]
    found = [
        m
        for query in reversed(queries)
        if (m := results.find(query, cores, None if query in ALTERNATIVES else rows))
    ]
    names = [m.query.name.replace("`", "").replace(" … ", "\n") for m in found]
    values = [max(m.nanoseconds, _LEFT_END) for m in found]
    colors = [_OTHERS if m.query in (HANDED_OVER, *ALTERNATIVES) else _OURS for m in found]
    bars = axes.barh(names, values, color=colors, height=0.7)
    axes.bar_label(bars, [f"{m.nanoseconds:,.0f}" for m in found], padding=6, fontsize=9)
    axes.legend(
        handles=[Patch(color=_OURS, label="spark-pgoutput"), Patch(color=_OTHERS, label="others")],
        loc="upper right",
        frameon=False,
    )
    axes.set_xscale("log")
    axes.set_xlim(_LEFT_END, max(values) * 4)
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("nanoseconds per message and core (logarithmic); less is better")
    axes.set_title(f"Time per message ({millions(rows)} messages, {plural(cores)})", loc="left")


def _draw_growth(axes: Axes, results: Results) -> None:
    for color, cores in zip(_LINES, results.cores(), strict=False):
        found = (results.find(FULL, cores, rows) for rows in results.rows_of(FULL))
        rows, seconds = zip(*((m.rows, m.best) for m in found if m), strict=True)
        axes.plot(
            [count / 1e6 for count in rows],
            seconds,
            marker="o",
            color=color,
            label=plural(cores),
        )
        axes.annotate(
            f"{seconds[-1]:.2f} s",
            (rows[-1] / 1e6, seconds[-1]),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    axes.margins(0.15)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.set_xlabel("million messages")
    axes.set_ylabel("seconds, with the scan")
    axes.legend(loc="upper left", frameon=False)
    axes.set_title(f"Time of {FULL.name.replace('`', '')}", loc="left")
