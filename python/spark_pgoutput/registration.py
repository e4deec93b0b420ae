"""Registration of the functions in a session that runs."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from spark_pgoutput.jar import jar_path

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
    require_supported(spark.version)
    if has_functions(spark):
        return
    if is_connect(spark):
        raise RuntimeError(_SERVER_WITHOUT_JAR)
    jvm: Any = spark._jvm
    quoted = jar_path().replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"ADD JAR '{quoted}'")
    session = spark._jsparkSession
    # ADD JAR makes a wrong URL for the driver if the path has a space or a percent sign.
    url = jvm.java.io.File(jar_path()).toURI().toURL()
    session.sharedState().jarClassLoader().addURL(url)
    jvm.io.sparkpgoutput.PgOutputExtensions.register(session)
    has_functions(spark)  # This notes that a session has them.


def jobs_of(spark: SparkSession, function: str, command: str | None = None) -> Any:  # noqa: ANN401
    """Return Scala's package of jobs, with a Classic session as the active one of this thread.

    Spark takes the settings of catalogs from the active session. A thread that Python has started
    has none before PySpark's own functions set it in this way.

    Parameters
    ----------
    spark : SparkSession
        The session.
    function : str
        The function that was called.
    command : str, optional
        The command that does the same; by default, the one with the name of the function.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect. The error names the command.
    """
    if is_connect(spark):
        raise RuntimeError(
            f"{function}() needs a Classic session, because it works in Spark's driver. Run the "
            f"command spark-pgoutput {command or function} on a machine that can start a driver."
        )
    register(spark)
    jvm: Any = spark._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)
    return jvm.io.sparkpgoutput.lake.job


def has_functions(spark: SparkSession) -> bool:
    """Return whether a session has the functions."""
    global _was_registered
    exists: bool = spark.catalog.functionExists("pgoutput_decode")
    _was_registered = _was_registered or exists
    return exists


def require_functions(spark: SparkSession | None = None) -> None:
    """Raise an error that says how to register, if a session does not have the functions.

    A Column belongs to no session. The active session may lack the functions while the session
    that uses the Column has them, so without `spark`, one session with the functions is enough.
    """
    if spark is None and not _was_registered:
        spark = SparkSession.getActiveSession()
    if spark is not None and not has_functions(spark):
        raise RuntimeError(_SERVER_WITHOUT_JAR if is_connect(spark) else _NOT_REGISTERED)


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def require_supported(version: str) -> None:
    """Refuse Spark 3, which also exists for Scala 2.12; Spark 4 is for Scala 2.13 only."""
    if int(version.split(".")[0]) < 4:
        raise RuntimeError(
            f"spark-pgoutput needs Spark 4.0 or newer, and this is Spark {version}. Install a "
            "newer one: pip install 'pyspark>=4.0'."
        )
