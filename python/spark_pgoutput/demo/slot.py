"""The queries on a replication slot: for its state and for its messages, without changing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from spark_pgoutput.demo.errors import DemoError
from spark_pgoutput.demo.jdbc import Server, postgres_errors


@dataclass(frozen=True)
class SlotState:
    """The state of a slot in PostgreSQL."""

    server_version: int
    plugin: str | None
    active_pid: int | None
    two_phase: bool
    confirmed_flush_lsn: str | None
    publications: Sequence[str]


def state_query(slot: str) -> str:
    """Return the query for a slot's state and for the names of all publications."""
    return f"""\
-- Does the slot exist, is it free, and does it send prepared transactions?
SELECT current_setting('server_version_num')::int AS server_version,
       plugin, active_pid, two_phase, confirmed_flush_lsn::text,
       ARRAY(SELECT pubname::text FROM pg_publication) AS publications
FROM pg_replication_slots
WHERE slot_name = {literal(slot)}"""


def slot_state(spark: SparkSession, server: Server, slot: str) -> SlotState:
    """Return the state of a slot.

    Raises
    ------
    DemoError
        If the slot does not exist.
    """
    with postgres_errors():
        rows = server.query(spark, state_query(slot)).collect()
    if not rows:
        raise DemoError(
            f"There is no slot {slot}. To create one that keeps all changes from now on, run: "
            f"SELECT pg_create_logical_replication_slot({literal(slot)}, 'pgoutput');"
        )
    return SlotState(**rows[0].asDict())


def peek_query(slot: str, publications: Sequence[str], state: SlotState, limit: int) -> str:
    """Return the query that reads a slot's changes without taking them out of the slot.

    Parameters
    ----------
    slot : str
        The slot's name.
    publications : sequence of str
        The publications' names, as pg_publication has them.
    state : SlotState
        The slot's state, which determines the options that the query may set.
    limit : int
        The number of changes to read, approximately.

    Raises
    ------
    DemoError
        If the slot cannot be read now, or if a publication does not exist.
    """
    if state.plugin != "pgoutput":
        raise DemoError(f"The plugin of the slot {slot} is not pgoutput but {state.plugin}.")
    if state.active_pid is not None:
        raise DemoError(
            f"The slot {slot} is in use by the server's process {state.active_pid}, and a slot has "
            "one reader at a time. Stop the other reader first."
        )
    # PostgreSQL 18 only warns about a missing publication, and sends no changes.
    for name in publications:
        if name not in state.publications:
            known = ", ".join(sorted(state.publications)) or "none"
            raise DemoError(
                f"There is no publication {name} in this database. Its publications: {known}."
            )

    names = ",".join('"' + name.replace('"', '""') + '"' for name in publications)
    options = {
        "proto_version": str(protocol_version(state.server_version)),
        "publication_names": names,
        "messages": "true",
        "streaming": "on",
    }
    # On a slot that was created without two_phase, the option would change the slot for good.
    if state.two_phase and state.server_version >= 150000:
        options["two_phase"] = "true"
    arguments = ",\n    ".join(f"{literal(k)}, {literal(v)}" for k, v in options.items())
    return f"""\
-- Peek at about {limit} messages, which stay in the slot. Number the
-- messages: their order matters, and LSNs repeat.
SELECT row_number() OVER () AS seq, lsn::text, xid::text::bigint AS xid, data
FROM pg_logical_slot_peek_binary_changes(
    {literal(slot)}, NULL, {limit},
    {arguments})"""


def protocol_version(server_version: int) -> int:
    """Return the newest version of pgoutput's protocol that a server supports.

    Parameters
    ----------
    server_version : int
        The server's setting server_version_num: 180004 is 18.4.

    Examples
    --------
    >>> protocol_version(180004), protocol_version(150000), protocol_version(140012)
    (4, 3, 2)
    """
    return min(server_version // 10000 - 12, 4)


def literal(text: str) -> str:
    """Return a text as a string literal of PostgreSQL's SQL.

    Examples
    --------
    >>> print(literal("it's"))
    'it''s'
    """
    quoted = "'" + text.replace("'", "''") + "'"
    return " E" + quoted.replace("\\", "\\\\") if "\\" in text else quoted
