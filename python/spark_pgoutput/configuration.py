"""Configuration of sessions that start: the JAR is on Spark's class path and registers itself."""

from __future__ import annotations

import os
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from spark_pgoutput.jar import jar_path
from spark_pgoutput.registration import require_supported
from spark_pgoutput.spark_defaults import spark_default

_JARS = "spark.jars"
_EXTENSIONS = "io.sparkpgoutput.PgOutputExtensions"
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_NAMES_JARS = re.compile(r"(--jars|(--conf=)?spark\.jars)=(?P<jars>.*)", re.DOTALL)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Give the functions to the sessions of a builder.

    Call it before Spark's JVM starts. It adds the JAR to the ``spark.jars`` of the builder, and
    keeps the JARs that the builder, PYSPARK_SUBMIT_ARGS and spark-defaults.conf (or the file of
    ``--properties-file``) name. If PYSPARK_SUBMIT_ARGS names JARs, it adds the JAR there too. It
    does not change the builder of a Connect client, because there the server needs the JAR;
    `register` checks that the server has it.

    Parameters
    ----------
    builder : SparkSession.Builder
        For example ``SparkSession.builder.master("local[*]")``.

    Returns
    -------
    SparkSession.Builder
        The same builder.

    Raises
    ------
    RuntimeError
        If Spark is older than 4.0. Also if Spark's JVM already runs without the JAR: its class
        path no longer changes, so call `register` with the session instead.
    """
    require_supported(pyspark.__version__)
    from pyspark.util import is_remote_only  # PySpark 3.5 does not have it

    options: dict[str, Any] = builder._options
    remote = options.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    # The package pyspark-client has no SparkContext.
    if is_remote_only() or (remote is not None and not str(remote).startswith("local")):
        return builder
    from pyspark import SparkContext

    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        _require_jar_in_jvm()
        return builder
    arguments = shlex.split(os.environ.get(_SUBMIT_ARGUMENTS, ""))
    named = _jars_by_position(arguments)
    jars = [options.get(_JARS), *named.values()]
    defaults = [spark_default(_JARS, _properties_file(arguments))]
    all_jars = _with_jar(*(jars if any(jars) else defaults))
    # The driver uses only the JARs of these arguments, and the executors use only the builder's.
    if named:
        for i, named_here in named.items():
            arguments[i] = arguments[i].removesuffix(named_here) + all_jars
        os.environ[_SUBMIT_ARGUMENTS] = shlex.join(arguments)
    return builder.config(_JARS, all_jars)


def _properties_file(arguments: list[str]) -> Path | None:
    """Return the file that spark-submit reads in place of spark-defaults.conf."""
    name = "--properties-file"
    files = [file for before, file in pairwise(arguments) if before == name]
    files += [given.partition("=")[2] for given in arguments if given.startswith(f"{name}=")]
    return Path(files[-1]) if files else None


def _require_jar_in_jvm() -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_EXTENSIONS)
    except Py4JJavaError:
        raise RuntimeError(
            "Spark's JVM already runs, and its class path no longer changes. Call "
            "spark_pgoutput.register(spark) with the session instead, or start Spark with "
            "spark-submit --jars $(spark-pgoutput jar-path)."
        ) from None


def _with_jar(*lists: str | None) -> str:
    """Join comma-separated lists of JARs, and add the JAR."""
    listed = [jar.strip() for jars in lists for jar in (jars or "").split(",")]
    return ",".join(dict.fromkeys([*filter(None, listed), jar_path()]))


def _jars_by_position(arguments: list[str]) -> dict[int, str]:
    """Find the arguments of spark-submit that name JARs: the JARs by the argument's position."""
    found = {}
    for i, argument in enumerate(arguments):
        if i > 0 and arguments[i - 1] == "--jars":
            found[i] = argument
        elif match := _NAMES_JARS.fullmatch(argument):
            found[i] = match["jars"]
    return found
