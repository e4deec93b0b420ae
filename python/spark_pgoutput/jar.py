"""Where the JAR with the decoder is."""

from __future__ import annotations

from pathlib import Path


def jar_path() -> str:
    """Give the path of the JAR in this package, for ``--jars`` and ``spark.jars``.

    Returns
    -------
    str
        The absolute path.

    Raises
    ------
    FileNotFoundError
        In a checkout whose JAR has not been built.
    """
    jar = Path(__file__).resolve().parent / "jars" / "spark-pgoutput.jar"
    if not jar.is_file():
        raise FileNotFoundError(f"{jar} is missing: in a checkout, `make build` makes it")
    return str(jar)
