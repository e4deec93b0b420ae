"""Text of users' tables in a form that changes nothing on a terminal."""

from __future__ import annotations

import re

# Control characters, and characters that set the direction of a text.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Escape the characters that a terminal does not show but obeys, so that it is one line."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)
