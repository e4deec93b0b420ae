"""The programs of each PostgreSQL version that the tests run on.

`make .postgres/14.23.0` runs this file to unpack a JAR of `embedded-postgres-binaries`, which has
initdb, pg_ctl and postgres. The newest version is the one of the demo, which has all programs.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

NEWEST = 18
VERSIONS = (14, 15, 16, 17, NEWEST)

FOLDER = Path(__file__).parents[2] / ".postgres"


def binaries(version: int) -> Path | None:
    """Return the folder of a version's programs, or None for the programs of the demo."""
    if version == NEWEST:
        return None
    folders = sorted(FOLDER.glob(f"{version}.*[0-9]/bin"))
    assert folders, (
        f"PostgreSQL {version} is missing. Run make ready for 14, or make test-slot for all."
    )
    return folders[-1]


def unpack(jar: Path, folder: Path) -> None:
    """Unpack a JAR's programs. The folder appears when it is complete."""
    incomplete = folder.with_name(folder.name + ".incomplete")
    shutil.rmtree(incomplete, ignore_errors=True)
    with zipfile.ZipFile(jar) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".txz"))
        with files.open(name) as packed, tarfile.open(fileobj=packed, mode="r:xz") as programs:
            programs.extractall(incomplete, filter="tar")
    incomplete.rename(folder)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
