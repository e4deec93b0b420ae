"""A password that must show nowhere, and the files in which tests look for it."""

from __future__ import annotations

from pathlib import Path

MARKER = "s3cret-marker"


def texts_of_files(folder: Path) -> dict[str, str]:
    """Return the contents of all files below a folder by their paths, also of binary ones."""
    return {
        str(path): path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()
    }
