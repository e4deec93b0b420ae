"""The changes on the demo's own server, which give its slot every type of message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

SLOT = "shop_slot"
PUBLICATION = "shop"

TABLES = """\
-- List all cells of the tables as text, one row for each cell.
SELECT 'public.customers' AS _table, id::text, cell.*
FROM customers, unnest(
    ARRAY['id', 'name', 'email', 'picture'],
    ARRAY[id::text, name, email, picture]) AS cell ("column", cell)
UNION ALL
SELECT 'public.orders', id::text, cell.*
FROM orders, unnest(
    ARRAY['id', 'customer_id', 'status', 'total', 'placed_at'],
    ARRAY[id::text, customer_id::text, status::text, total::text,
          placed_at::text]) AS cell"""


@dataclass(frozen=True)
class Section:
    """A comment in workload.sql, with the statements below it."""

    text: str

    @property
    def statements(self) -> list[str]:
        """The statements, each of which ends with a semicolon at the end of a line."""
        return re.findall(r"^[A-Z].*?;$", self.text, flags=re.DOTALL | re.MULTILINE)


def sections() -> list[Section]:
    """Return the sections of the workload in the order in which they must run."""
    script = (files(__package__) / "workload.sql").read_text(encoding="utf-8")
    return [Section(text) for text in script.strip().split("\n\n")]


def run_workload(conninfo: str) -> Iterator[Section]:
    """Run the workload, and yield each section before it runs.

    Parameters
    ----------
    conninfo : str
        A connection string of libpq for a superuser and a database without the workload's tables.
    """
    import psycopg

    # The script has its own BEGIN, and COMMIT PREPARED must run outside a transaction.
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for section in sections():
            yield section
            for statement in section.statements:
                connection.execute(statement)
