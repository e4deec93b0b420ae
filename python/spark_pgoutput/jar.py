"""The path of the JAR with the decoder."""

from __future__ import annotations

from pathlib import Path


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
