"""The messages of real servers in tests/data."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

VERSIONS = ("pg14", "pg15", "pg16", "pg17", "pg18")
SEAMS = ("seam-101", "seam-102", "seam-103", "seam-104")

# The text of these columns depends on a setting of the server, unlike the binary value.
TEXT_DEPENDS_ON_SETTINGS = {
    "c_money": "lc_monetary puts a $ before the number and commas into it",
}

DATA = Path(__file__).parents[1] / "data"

# A function that returns the messages of captures in Spark.
Captured = Callable[[Iterable[str]], DataFrame]


class GoldenMessage(NamedTuple):
    """A message, and its fields by the documentation of PostgreSQL."""

    source: str
    data: bytes
    in_stream: bool
    decoded: dict[str, Any]


@cache
def golden() -> list[GoldenMessage]:
    """Return messages of every type, which come from several captures."""
    with (DATA / "golden.jsonl").open(encoding="utf-8") as lines:
        return [
            GoldenMessage(
                entry["from"], bytes.fromhex(entry["data"]), entry["in_stream"], entry["decoded"]
            )
            for entry in map(json.loads, lines)
        ]


@cache
def capture(name: str) -> list[bytes]:
    """Return the messages of a capture, in the order in which the server sent them."""
    return _messages(DATA / "captures" / f"{name}.jsonl.gz")


def captures(versions: Iterable[str] = VERSIONS) -> list[str]:
    """Return the names of the captures of some versions.

    PostgreSQL 14 to 18 ran the same workload with different options. The name of a capture names
    the version and the options.
    """
    names = [path.name.removesuffix(".jsonl.gz") for path in (DATA / "captures").iterdir()]
    return sorted(name for name in names if version_of(name) in versions)


def text_captures(versions: Iterable[str] = VERSIONS) -> list[str]:
    """Return the names of the captures without binary values."""
    return [name for name in captures(versions) if "-text" in name]


def version_of(name: str) -> str:
    return name.partition("-")[0]


def declared_types(version: str) -> dict[str, str]:
    """Return the options that declare the types whose oids differ from server to server.

    The Type messages of a capture name them. A domain has the name of its base type there.
    """
    user_types = {"mood": "enum", "_mood": "array:enum", "pair": "composite"}
    messages = capture(f"{version}-v1-stream_off-text")
    names = {data[1:5]: data[5:].split(b"\0")[1].decode() for data in messages if data[:1] == b"Y"}
    return {
        f"type.{int.from_bytes(oid, 'big')}": user_types.get(name, name)
        for oid, name in names.items()
    }


def _messages(path: Path, name: str = "data") -> list[bytes]:
    # A regular expression takes half as long as a parser of JSON.
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        text = lines.read()
    found = re.findall(rf'"{name}": "([0-9a-f]*)"', text)
    assert len(found) == text.count(f'"{name}":')
    return [*map(bytes.fromhex, found)]


class FinalTable(NamedTuple):
    """The rows of a table when a capture ends. PostgreSQL cast each value to text."""

    columns: list[str]
    rows: list[list[str | None]]


@cache
def finals() -> dict[str, dict[str, FinalTable]]:
    """Return the tables of each version by name. The name of a capture begins with its version."""
    found = {}
    for path in sorted((DATA / "finals").glob("*.json.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            tables = json.load(file)
        version = path.name.removesuffix(".json.gz")
        found[version] = {name: FinalTable(**table) for name, table in tables.items()}
    return found


class Seams(NamedTuple):
    """The messages that a reader stored, and the same history without an interruption.

    The reader was cut off at random places. Then it read again from the LSN that it had confirmed.
    """

    data: list[bytes]
    clean: list[bytes]


@cache
def seam(name: str) -> Seams:
    path = DATA / "seams" / f"{name}.jsonl.gz"
    return Seams(_messages(path, "data"), _messages(path, "clean"))


def in_stream_flags(messages: Iterable[bytes]) -> list[bool]:
    """Return for each message whether it is between Stream Start and Stream Stop."""
    flags = []
    in_stream = False
    for message in messages:
        tag = message[:1]
        if tag == b"E":
            in_stream = False
        flags.append(in_stream)
        if tag == b"S":
            in_stream = True
    return flags
