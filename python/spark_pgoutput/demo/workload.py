"""The changes on the demo's own server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

SLOT = "shop_slot"
PUBLICATION = "shop"

# The scripts, in the order in which they must run.
CHANGES = "changes.sql"
LATER_CHANGES = "later_changes.sql"
LAKE_CHANGES = "lake_changes.sql"

CONFIRMED = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots"

# Each statement ends with a semicolon at the end of a line.
_STATEMENT = re.compile(r"^[A-Z].*?;$", re.DOTALL | re.MULTILINE)


def sections(script: str) -> list[str]:
    """Return the sections of a script: comments, each with the statements below it."""
    return (files(__package__) / script).read_text(encoding="utf-8").strip().split("\n\n")


(TABLES,) = sections("cells.sql")


def run(script: str, conninfo: str) -> Iterator[str]:
    """Run a script, and yield each section, a comment with the statements below it, before it runs.

    Parameters
    ----------
    script : str
        `CHANGES`, `LATER_CHANGES` or `LAKE_CHANGES`.
    conninfo : str
        A connection string of libpq for a superuser and a database of the workload's own.
    """
    import psycopg

    # The script has its own BEGIN, and COMMIT PREPARED must run outside a transaction.
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for section in sections(script):
            yield section
            for statement in _STATEMENT.findall(section):
                connection.execute(statement)


def query(conninfo: str, sql: str) -> list[tuple[str | None, ...]]:
    """Return the rows of a query whose columns are text."""
    import psycopg

    with psycopg.connect(conninfo) as connection:
        return connection.execute(sql.encode()).fetchall()
