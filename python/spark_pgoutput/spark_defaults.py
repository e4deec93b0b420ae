"""The settings in spark-defaults.conf or a similar file, read before Spark's JVM starts."""

from __future__ import annotations

import os
import re
from pathlib import Path

_ENTRY = re.compile(r"\s*(?P<key>[^\s=:#!]+)(?:\s*[=:]\s*|\s+)(?P<value>.*?)\s*$")


def spark_home() -> str:
    """Return the folder of Spark: SPARK_HOME, or that of PySpark."""
    if "SPARK_HOME" in os.environ:
        return os.environ["SPARK_HOME"]
    # Not at the top: `spark-pgoutput jar-path` runs without PySpark.
    from pyspark.find_spark_home import _find_spark_home

    return str(_find_spark_home())  # type: ignore[no-untyped-call]


def spark_default(key: str, file: Path | None = None) -> str | None:
    """Return a setting of spark-defaults.conf.

    A value on the builder or of spark-submit replaces the value in the file, so to add to the
    file's value you need to know it.

    Parameters
    ----------
    key : str
        For example ``spark.jars``.
    file : Path, optional
        Another file in place of spark-defaults.conf.

    Returns
    -------
    str or None
        None if there is no such file or key. As in Java's properties, the last entry of a key
        counts. Entries that continue in the next line are not supported.
    """
    if file is None:
        folder = os.environ.get("SPARK_CONF_DIR") or Path(spark_home()) / "conf"
        file = Path(folder) / "spark-defaults.conf"
    if not file.is_file():
        return None
    text = file.read_text(encoding="utf-8", errors="replace")  # a comment can have any encoding
    entries = (_ENTRY.match(line) for line in text.splitlines())
    return {entry["key"]: entry["value"] for entry in entries if entry}.get(key)
