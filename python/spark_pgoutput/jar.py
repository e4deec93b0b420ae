"""The JAR with the decoder: its path, and the JSON files in it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any


def jar_path() -> str:
    """Return the path of the JAR in this package, for ``--jars`` and ``spark.jars``.

    Returns
    -------
    str
        The absolute path.

    Raises
    ------
    FileNotFoundError
        If this is a checkout and its JAR is not built.
    """
    jar = Path(__file__).resolve().parent / "jars" / "spark-pgoutput.jar"
    if not jar.is_file():
        raise FileNotFoundError(f"There is no {jar}. In a checkout, build it with `make build`.")
    return str(jar)


def jar_json(name: str) -> Any:  # noqa: ANN401
    """Read a JSON file of the JAR."""
    with zipfile.ZipFile(jar_path()) as jar:
        return json.loads(jar.read(f"io/sparkpgoutput/{name}"))
