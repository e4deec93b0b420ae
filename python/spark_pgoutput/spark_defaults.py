"""What spark-defaults.conf sets, read before there is a JVM that would read it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

_ENTRY = re.compile(r"\s*(?P<key>[^\s=:#!]+)(?:\s*[=:]\s*|\s+)(?P<value>.*?)\s*$")


def spark_default(key: str) -> str | None:
    """Give a setting of spark-defaults.conf.

    A value that a builder sets replaces the file's, so who wants to add to it has to know it.

    Parameters
    ----------
    key : str
        For example ``spark.jars``.

    Returns
    -------
    str or None
        None where the file or the key is not there. As in the file's format, Java's properties,
        the last of several counts; a value that goes on in the next line is not followed.
    """
    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home()) / "conf"
    file = Path(folder) / "spark-defaults.conf"
    if not file.is_file():
        return None
    entries = (_ENTRY.match(line) for line in file.read_text().splitlines())
    return {entry["key"]: entry["value"] for entry in entries if entry}.get(key)
