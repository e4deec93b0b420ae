"""Damaged messages, made from correct ones. Each run makes the same messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

# These mark tuples and columns, and some of them are message types too.
LETTERS = b"NKOtnub"

# Each byte before this position is changed. The later bytes are like these, so only some of them
# are changed.
HEAD = 400
STEP_BEYOND_HEAD = 7

# Extreme counts, lengths, ids and LSNs.
BIG_VALUES = tuple(
    bytes.fromhex(value)
    for value in ("ff", "ffff", "7fff", "7fffffff", "80000000", "ffffffff", "fffffffb", "ff" * 8)
)


def cuts(message: bytes) -> Iterator[bytes]:
    """Yield each beginning of the message, from zero bytes to all but the last."""
    for end in range(len(message)):
        yield message[:end]


def extended(message: bytes) -> Iterator[bytes]:
    """Yield the message with one byte more."""
    for value in b"\x00\x01NKt\x7f\x80\xff":
        yield message + bytes([value])


def replaced(message: bytes) -> Iterator[bytes]:
    """Yield the message with one byte changed."""
    for at, original in enumerate(message):
        if at >= HEAD and at % STEP_BEYOND_HEAD:
            continue
        values = {*b"\x00\x01\x7f\x80\xff", *LETTERS, (original + 1) % 256, original ^ 0x20}
        for value in sorted(values - {original}):
            yield message[:at] + bytes([value]) + message[at + 1 :]


def random_mutations(messages: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Yield `count` messages that are damaged in one to four random ways."""
    random = Random(seed)
    for _ in range(count):
        message = random.choice(messages)
        for _ in range(random.randint(1, 4)):
            message = _mutation(message, messages, random)
        yield message


def _mutation(message: bytes, messages: Sequence[bytes], random: Random) -> bytes:
    at, end = sorted(random.randint(0, len(message)) for _ in range(2))
    match random.choice(("flip", "delete", "insert", "splice", "overwrite", "duplicate")):
        case "flip":
            flipped = bytes(byte ^ 1 << random.randrange(8) for byte in message[at : at + 1])
            return message[:at] + flipped + message[at + 1 :]
        case "delete":
            return message[:at] + message[end:]
        case "insert":
            return message[:at] + random.randbytes(random.randint(1, 8)) + message[at:]
        case "splice":
            other = random.choice(messages)
            return message[:at] + other[random.randint(0, len(other)) :]
        case "overwrite":
            value = random.choice(BIG_VALUES)
            return message[:at] + value + message[at + len(value) :]
        case _:
            return message[:end] + message[at:end] + message[end:]
