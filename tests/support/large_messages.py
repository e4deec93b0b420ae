"""Messages that are much larger than those of the captures."""

from __future__ import annotations

from support import messages as m


def messages_of_many_columns() -> list[bytes]:
    """Return tuples and lists that are as long as the format allows, or longer than one word of
    null bits.
    """
    return [
        m.insert(*[None] * 65_535),
        m.insert(*[f"a{i}" for i in range(1_600)]),
        m.insert(*[m.Binary(b"%d" % i) if i % 2 else f"{i}" for i in range(1_600)]),
        m.relation("wide.wide", *[m.column(f"c{i}", key=True) for i in range(65_535)]),
        m.truncate(*range(100_000)),
    ]


def messages_of_large_values() -> list[bytes]:
    return [
        m.insert("ä" * 1_500_000, m.UNCHANGED, m.Binary(bytes(range(256)) * 8_192)),
        m.logical_message("prefix", b"\xff\x00" * 2_500_000, transactional=True),
        m.insert(m.Binary(bytes(400_000)), "a" * 700_000),
    ]
