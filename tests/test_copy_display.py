"""What a job shows of its copies while they run."""

from __future__ import annotations

import re

import pytest

from spark_pgoutput.copy_display import LogDisplay, TerminalDisplay, display
from spark_pgoutput.replication import CopyProgress
from spark_pgoutput.spark_submit import TERMINAL

COPIES = [
    CopyProgress("public.orders", 1_234_567, 987_654_321, 0.456),
    CopyProgress("a_schema.a_table_with_a_long_name", 12_345_678_901, 1_234_567_890_123, 1.0),
]


def test_log_has_a_line_of_a_copy_every_30_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = LogDisplay(30.0)
    for second in range(100):
        monkeypatch.setattr("time.monotonic", lambda second=second: float(second))
        copy = COPIES[0]._replace(table="public.\x07orders")
        shown.show([f"line\x1b {second}"] if second == 50 else [], [copy] if second < 70 else [])
    line = r"Copying public.\x07orders: 1,234,567 rows, 987.7 MB, 46% of the table."
    assert capsys.readouterr().out.splitlines() == [line, r"line\x1b 50", line]


def test_terminal_has_a_bar_of_80_columns_for_each_copy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with TerminalDisplay() as shown:
        shown.show(["Copying [public.orders] and :star:\x1b[2J."], COPIES)
        shown.show(["Copied."], [])
        shown.show([], COPIES[:1])
    lines = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80, lines
    assert lines[0] == r"Copying [public.orders] and :star:\x1b[2J."
    for part in ("public.orders", "46%", "1,234,567 rows", "987.7 MB", "a_sch", "1,234,567.9 MB"):
        assert any(part in line for line in lines), (part, lines)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, LogDisplay),
        ({TERMINAL: "1", "TERM": "dumb"}, LogDisplay),
        ({TERMINAL: "1", "TERM": "xterm"}, TerminalDisplay),
    ],
)
def test_display_suits_the_output(
    variables: dict[str, str], expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TERMINAL, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert isinstance(display(), expected)
