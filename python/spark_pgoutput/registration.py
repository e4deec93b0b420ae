"""How a Spark session gets the functions: the JAR, on its class path, registers them by itself."""

from __future__ import annotations

import os
import re
import shlex
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from spark_pgoutput.jar import jar_path
from spark_pgoutput.spark_defaults import spark_default

_JARS = "spark.jars"
_EXTENSIONS = "io.sparkpgoutput.PgOutputExtensions"
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_NAMES_JARS = re.compile(r"(--jars|(--conf=)?spark\.jars)=(?P<jars>.*)", re.DOTALL)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Make the sessions of a builder have the functions, on a JVM that it will start.

    The JAR is added to the ``spark.jars`` of the builder, of PYSPARK_SUBMIT_ARGS and of
    spark-defaults.conf; nothing that is set is lost. A builder of a Connect client is left as it
    is: there the server needs the JAR, which `register` checks.

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
        On a Spark older than 4.0; and if Spark's JVM is running already without the JAR, for its
        class path is fixed: then `register` is to be called with the session.
    """
    _require_supported(pyspark.__version__)
    options: dict[str, Any] = builder._options
    remote = options.get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if _is_client_only() or (remote is not None and not str(remote).startswith("local")):
        return builder
    if _jvm_is_running():
        _require_jar_in_jvm()
        return builder
    arguments = shlex.split(os.environ.get(_SUBMIT_ARGUMENTS, ""))
    named = _jars_by_position(arguments)
    jars = [options.get(_JARS), *named.values()]
    all_jars = _with_jar(*(jars if any(jars) else [spark_default(_JARS)]))
    if named:  # The driver takes these and not the builder's, the executors the other way round.
        for i, named_here in named.items():
            arguments[i] = arguments[i].removesuffix(named_here) + all_jars
        os.environ[_SUBMIT_ARGUMENTS] = shlex.join(arguments)
    return builder.config(_JARS, all_jars)


def register(spark: SparkSession) -> None:
    """Give the functions to a session that is running.

    Does nothing where the session has them. Each `SparkSession.newSession` needs its own.

    Parameters
    ----------
    spark : SparkSession
        Classic; or Connect, where it only checks that the server has them.

    Raises
    ------
    RuntimeError
        On a Spark older than 4.0, and so on any with Scala 2.12; on a Connect server that was
        started without the JAR.
    """
    _require_supported(spark.version)
    if spark.catalog.functionExists("pgoutput_decode"):
        return
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise RuntimeError(
            "The Spark Connect server does not have spark-pgoutput's functions, and a client "
            "cannot add them: start the server with `--jars spark-pgoutput.jar` (the file that "
            "`spark-pgoutput jar-path` names) and connect again"
        )
    jvm: Any = spark._jvm
    quoted = jar_path().replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"ADD JAR '{quoted}'")
    session = spark._jsparkSession
    # Of a path with a space or a percent sign, ADD JAR makes a wrong URL for the driver.
    url = jvm.java.io.File(jar_path()).toURI().toURL()
    session.sharedState().jarClassLoader().addURL(url)
    jvm.org.apache.spark.sql.pgoutput.SessionRegistration.register(session)


def _require_supported(version: str) -> None:
    """From 4.0 on there is no Spark for another Scala than 2.13."""
    if int(version.split(".")[0]) < 4:
        raise RuntimeError(
            "spark-pgoutput needs Spark 4.0 or newer with Scala 2.13, and this is Spark "
            f"{version}: install a newer one (pip install 'pyspark>=4.0')"
        )


def _is_client_only() -> bool:
    """Whether this is pyspark-client, which has no SparkContext."""
    from pyspark.util import is_remote_only  # not in 3.5

    return is_remote_only()


def _jvm_is_running() -> bool:
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


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
            "Spark's JVM is running already, and JARs can no longer be added to its class path: "
            "call spark_pgoutput.register(spark) with the session instead, or start with "
            "spark-submit --jars $(spark-pgoutput jar-path)"
        ) from None


def _with_jar(*lists: str | None) -> str:
    """Join comma-separated lists of JARs, and add the JAR."""
    listed = [jar.strip() for jars in lists for jar in (jars or "").split(",")]
    return ",".join(dict.fromkeys([*filter(None, listed), jar_path()]))


def _jars_by_position(arguments: list[str]) -> dict[int, str]:
    """Find the arguments of spark-submit that name JARs: by their positions, what they name."""
    found = {}
    for i, argument in enumerate(arguments):
        if i > 0 and arguments[i - 1] == "--jars":
            found[i] = argument
        elif match := _NAMES_JARS.fullmatch(argument):
            found[i] = match["jars"]
    return found
