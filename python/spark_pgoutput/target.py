"""The target of a job, without the job: what can be asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_pgoutput.registration import is_connect, register

_RESYNC = "io.sparkpgoutput.lake.job.ResyncCommand"
_APPLIED = "io.sparkpgoutput.lake.job.AppliedTables"


def resync(
    spark: SparkSession, *, target: str, tables: Sequence[str], format: str | None = None
) -> list[str]:
    """Ask the job of a target to copy tables again.

    The job takes the request before its next batch, or at its next start. It copies the tables
    while the stream goes on. Readers keep the old rows until one commit replaces them.

    Parameters
    ----------
    spark : SparkSession
        A Classic session with the JARs and the catalog of the format.
    target : str
        The target of the job: a namespace of a catalog, or a folder of Delta tables.
    tables : sequence of str
        The names of tables at the server, such as ``"public.orders"``.
    format : str, optional
        ``"delta"`` or ``"iceberg"``; by default, what the catalog writes.

    Returns
    -------
    list of str
        The tables with their schemas.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect.
    IllegalArgumentException
        If the target has no job, or the job does not know a table.
    """
    if is_connect(spark):
        raise RuntimeError(
            "resync() needs a Classic session. Run the command spark-pgoutput resync."
        )
    register(spark)
    jvm: Any = spark._jvm
    wanted = jvm.java.util.ArrayList()
    for table in tables:
        wanted.add(table)
    return list(getattr(jvm, _RESYNC).ask(spark._jsparkSession, target, format, wanted))


def applied(spark: SparkSession, target: str, *, format: str | None = None) -> DataFrame:
    """Return what the tables of a target have. It needs no server and no running job.

    Parameters
    ----------
    spark : SparkSession
        A Classic session with the JARs and the catalog of the format.
    target : str
        The target of the job: a namespace of a catalog, or a folder of Delta tables.
    format : str, optional
        ``"delta"`` or ``"iceberg"``; by default, what the catalog writes.

    Returns
    -------
    DataFrame
        A row for each table: `table`, the name at the server; `target`, the name in the target;
        `mode`; `state` and `reason`; `lsn`: the table has all transactions with a lower commit LSN;
        `last_change`, the time of the last commit at the server that changed it; the number of
        `rows`; and `written`, when the job wrote its state. `last_change` is as new as `written`,
        and a job that runs writes at least once a minute if anything happens.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect.
    IllegalArgumentException
        If the target has no job.
    """
    jvm = _jvm(spark, "applied")
    return DataFrame(getattr(jvm, _APPLIED).of(spark._jsparkSession, target, format), spark)


def slot_status(
    spark: SparkSession,
    target: str,
    *,
    url: str,
    slot: str,
    user: str | None = None,
    password: str | None = None,
    format: str | None = None,
) -> dict[str, str]:
    """Return what the server says of the slot of a target."""
    jvm = _jvm(spark, "slot_status")
    return dict(
        getattr(jvm, _APPLIED).slot(spark._jsparkSession, target, format, url, user, password, slot)
    )


def _jvm(spark: SparkSession, function: str) -> Any:  # noqa: ANN401
    if is_connect(spark):
        raise RuntimeError(
            f"{function}() needs a Classic session. The command spark-pgoutput starts one."
        )
    register(spark)
    return spark._jvm
