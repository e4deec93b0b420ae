"""The target of a job, without the job: what can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from spark_pgoutput.arguments import flag, path_text, table_names
from spark_pgoutput.registration import classic_jvm
from spark_pgoutput.replication import java_options

_ADOPTION = "io.sparkpgoutput.lake.job.Adoption"
_RESYNC = "io.sparkpgoutput.lake.job.ResyncCommand"
_APPLIED = "io.sparkpgoutput.lake.status.AppliedTables"


def resync(
    spark: SparkSession,
    *,
    target: str | os.PathLike[str],
    tables: str | Sequence[str] | None = None,
    all: bool = False,
    format: str | None = None,
) -> list[str]:
    """Ask the job of a target to copy tables again.

    If the job runs, it takes the request within seconds. Otherwise, it takes the request at its
    next start. The job copies the tables while the stream goes on. Readers keep the old rows until
    one commit replaces them.

    With ``all=True``, the job begins anew with all published tables, a new slot and a new
    checkpoint. This works also if the slot or the checkpoint is lost, or if the next start of the
    job names another server.

    Parameters
    ----------
    spark : SparkSession
        A Classic session with the JARs and the catalog of the format.
    target : str
        The target of the job: a namespace of a catalog, or a folder of Delta tables.
    tables : str or sequence of str, optional
        The names of tables at the server, such as ``"public.orders"``.
    all : bool
        All tables, in place of `tables`.
    format : str, optional
        ``"delta"`` or ``"iceberg"``; by default, what the catalog writes.

    Returns
    -------
    list of str
        The tables with their schemas. With ``all=True`` it is empty, because the server says at the
        start of the job which tables are published.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect.
    ValueError
        If neither or both of `tables` and `all` are given.
    IllegalArgumentException
        If the target has no job, or the job does not know a table.
    """
    if flag("all", all) == bool(tables):
        raise ValueError("Name the tables, or set all=True.")
    wanted = table_names(tables or ())
    jvm = classic_jvm(spark, "resync")
    if all:
        getattr(jvm, _RESYNC).askForAll(spark._jsparkSession, path_text(target), format)
        return []
    return list(getattr(jvm, _RESYNC).ask(spark._jsparkSession, path_text(target), format, wanted))


def adopt(
    spark: SparkSession,
    *,
    url: str,
    slot: str,
    publication: str,
    target: str | os.PathLike[str],
    last_lsn: str,
    user: str | None = None,
    password: str | None = None,
    format: str | None = None,
) -> str:
    """Let the job of a target go on with the server that `pg_upgrade` has made, with its slot.

    The job must not run. If the function cannot prove that the new server has everything that the
    tables lack, it changes nothing and raises an error.

    Parameters
    ----------
    spark : SparkSession
        A Classic session with the JARs and the catalog of the format.
    url, slot, publication, target, user, password, format
        As for `replicate`, with the new server.
    last_lsn : str
        The value of ``pg_current_wal_lsn()`` at the old server after its last write.

    Returns
    -------
    str
        The LSN at which the job goes on.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect.
    IllegalArgumentException
        If the target has no job, or something can be missing.
    """
    jvm = classic_jvm(spark, "adopt")
    options = {
        "url": url,
        "slot": slot,
        "publication": publication,
        "target": target,
        "user": user,
        "password": password,
        "format": format,
    }
    given = java_options(options)
    return str(getattr(jvm, _ADOPTION).adopt(spark._jsparkSession, given, last_lsn))


def applied(
    spark: SparkSession, target: str | os.PathLike[str], *, format: str | None = None
) -> DataFrame:
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
        and a job that runs writes every 30 seconds if anything changes.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect.
    IllegalArgumentException
        If the target has no job.
    """
    jvm = classic_jvm(spark, "applied", "status")
    return DataFrame(
        getattr(jvm, _APPLIED).of(spark._jsparkSession, path_text(target), format), spark
    )


def slot_status(
    spark: SparkSession,
    target: str | os.PathLike[str],
    *,
    url: str,
    slot: str,
    user: str | None = None,
    password: str | None = None,
    format: str | None = None,
) -> dict[str, str]:
    """Return what the server says of the slot of a target."""
    jvm = classic_jvm(spark, "slot_status", "status")
    return dict(
        getattr(jvm, _APPLIED).slot(
            spark._jsparkSession, path_text(target), format, url, user, password, slot
        )
    )
