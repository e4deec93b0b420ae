"""The machine and the versions that the benchmarks run on."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

from pyspark.sql import SparkSession


def describe(spark: SparkSession) -> dict[str, str]:
    """Describe the machine and the versions.

    Parameters
    ----------
    spark : SparkSession
        A session, to ask its JVM.

    Returns
    -------
    dict of str to str
        The facts, by their names.
    """
    return {
        "CPU": f"{_cpu()}, {os.cpu_count()} cores",
        "System": _system(),
        "Java": f"{_java(spark, 'java.version')} ({_java(spark, 'java.vm.name')})",
        "Spark": spark.version,
        "Python": platform.python_version(),
        **{package: version(package) for package in ("spark-pgoutput", "pypgoutput")},
        "Date": datetime.now(timezone.utc).date().isoformat(),
    }


def _cpu() -> str:
    """Return the model of the processor. Python knows it on some systems only."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return f"{platform.system()} {platform.release()}"


def _java(spark: SparkSession, name: str) -> str:
    rows = spark.sql(f"SELECT java_method('java.lang.System', 'getProperty', '{name}')").collect()
    return str(rows[0][0])
