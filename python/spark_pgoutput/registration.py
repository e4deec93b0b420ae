"""Registration of the functions in a Spark session.

Spark finds the functions by itself if the JAR is on its class path when a session starts.
`configure` puts the JAR there, and `register` adds it to a session that already runs.
"""

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
_NOT_REGISTERED = (
    "This Spark session does not have spark-pgoutput's functions. Call "
    "spark_pgoutput.register(spark) with it. To give them to a session from its start, build it "
    "with spark_pgoutput.configure(SparkSession.builder), or start Spark with --jars "
    "$(spark-pgoutput jar-path)."
)
_SERVER_WITHOUT_JAR = (
    "The Spark Connect server does not have spark-pgoutput's functions, and a client cannot add "
    "them. Start the server with --jars spark-pgoutput.jar and connect again; `spark-pgoutput "
    "jar-path` prints the path of this file."
)
_was_registered = False  # whether a session of this process is known to have the functions
_NAMES_JARS = re.compile(r"(--jars|(--conf=)?spark\.jars)=(?P<jars>.*)", re.DOTALL)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Give the functions to the sessions of a builder.

    Call it before Spark's JVM starts. It adds the JAR to the ``spark.jars`` of the builder, and
    keeps the JARs that the builder, PYSPARK_SUBMIT_ARGS and spark-defaults.conf name. It does not
    change the builder of a Connect client, because there the server needs the JAR; `register`
    checks that the server has it.

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
    if named:  # The driver uses only these JARs, and the executors use only the builder's.
        for i, named_here in named.items():
            arguments[i] = arguments[i].removesuffix(named_here) + all_jars
        os.environ[_SUBMIT_ARGUMENTS] = shlex.join(arguments)
    return builder.config(_JARS, all_jars)


def register(spark: SparkSession) -> None:
    """Give the functions to a session that runs.

    It does nothing if the session has them. Each `SparkSession.newSession` needs its own call.

    Parameters
    ----------
    spark : SparkSession
        A Classic session; or a Connect session, for which this only checks that the server has
        the functions.

    Raises
    ------
    RuntimeError
        If Spark is older than 4.0, or if the Connect server was started without the JAR.
    """
    _require_supported(spark.version)
    if has_functions(spark):
        return
    if _is_connect(spark):
        raise RuntimeError(_SERVER_WITHOUT_JAR)
    jvm: Any = spark._jvm
    quoted = jar_path().replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"ADD JAR '{quoted}'")
    session = spark._jsparkSession
    # ADD JAR makes a wrong URL for the driver if the path has a space or a percent sign.
    url = jvm.java.io.File(jar_path()).toURI().toURL()
    session.sharedState().jarClassLoader().addURL(url)
    jvm.org.apache.spark.sql.pgoutput.SessionRegistration.register(session)
    has_functions(spark)


def has_functions(spark: SparkSession) -> bool:
    """Tell whether a session has the functions."""
    global _was_registered
    exists: bool = spark.catalog.functionExists("pgoutput_decode")
    _was_registered = _was_registered or exists
    return exists


def require_functions(spark: SparkSession) -> None:
    """Raise an error that says how to register, if a session does not have the functions."""
    if not has_functions(spark):
        raise RuntimeError(_SERVER_WITHOUT_JAR if _is_connect(spark) else _NOT_REGISTERED)


def require_functions_in_any_session() -> None:
    """Raise an error that says how to register, if no session is known to have the functions.

    A Column belongs to no session. The active session may lack the functions while the session
    that uses the Column has them, so one session with the functions is enough here.
    """
    if not _was_registered:
        spark = SparkSession.getActiveSession()
        if spark is not None:
            require_functions(spark)


def _is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _require_supported(version: str) -> None:
    """Refuse Spark 3, which also exists for Scala 2.12; Spark 4 is for Scala 2.13 only."""
    if int(version.split(".")[0]) < 4:
        raise RuntimeError(
            f"spark-pgoutput needs Spark 4.0 or newer, and this is Spark {version}. Install a "
            "newer one: pip install 'pyspark>=4.0'."
        )


def _is_client_only() -> bool:
    """Tell whether this is the package pyspark-client, which has no SparkContext."""
    from pyspark.util import is_remote_only  # PySpark 3.5 does not have it

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
