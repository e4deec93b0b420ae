"""LSNs, as PostgreSQL writes them."""

from __future__ import annotations


def parsed_lsn(lsn: str) -> int:
    """Return the number of bytes that an LSN such as ``16/B374D848`` stands for."""
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)
