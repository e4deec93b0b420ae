"""Functions that need no process of a job: they read and write files in its checkpoint folder."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from spark_pgoutput.arguments import checked, path_text, table_names
from spark_pgoutput.registration import jobs_of
from spark_pgoutput.replication import java_options


def resync(
    spark: SparkSession,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    tables: str | Sequence[str] | None = None,
    all: bool = False,
    target: str | os.PathLike[str] | None = None,
    format: str | None = None,
    slot: str | None = None,
) -> list[str]:
    """Ask a job to copy tables again.

    If the job runs, it takes the request within seconds. Otherwise, it takes the request at its
    next start. Other tables go on during a copy. Readers see the old rows until one commit
    replaces them.

    With ``all=True``, the job begins again with all published tables and a new slot. This works
    also if the slot is lost, or if the next start of the job names another server. If the
    checkpoint folder is lost, name the target in place of it.

    Parameters
    ----------
    spark : SparkSession
        A Classic session. With `target`, it has the JARs and the catalog of the format.
    checkpoint : str, optional
        The checkpoint folder of the job.
    tables : str or sequence of str, optional
        The names of tables at the server, such as ``"public.orders"``.
    all : bool
        All tables, in place of `tables`.
    target : str, optional
        With ``all=True``, in place of a checkpoint folder that is lost: the target of the job, a
        namespace of a catalog or a folder of Delta tables.
    format : str, optional
        With `target`: ``"delta"`` or ``"iceberg"``; by default, what the catalog writes.
    slot : str, optional
        With `target`: the slot of the job, if the target has tables of several jobs.

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
        If neither or both of `tables` and `all` are given, or if `checkpoint`, `target`,
        `format` and `slot` do not go together.
    IllegalArgumentException
        If the folder has no state of a job, the target has no tables of a job or those of several
        jobs, or the job does not know a table.
    """
    if checked("all", "a bool", all, bool) == bool(tables):
        raise ValueError("Name the tables, or set all=True.")
    if (checkpoint is None) == (target is None):
        raise ValueError("Give the checkpoint, or if it is lost, the target with all=True.")
    if target is not None and not all:
        raise ValueError("The target goes with all=True. Give the checkpoint to name tables.")
    if target is None and (format is not None or slot is not None):
        raise ValueError("The format and the slot go with the target.")
    wanted = table_names(tables or ())
    command = jobs_of(spark, "resync").ResyncCommand
    folder = None if checkpoint is None else path_text(checkpoint)
    if all:
        lost = None if target is None else path_text(target)
        command.askForAll(spark._jsparkSession, folder, lost, format, slot)
        return []
    return list(command.ask(spark._jsparkSession, folder, wanted))


def adopt(
    spark: SparkSession,
    *,
    checkpoint: str | os.PathLike[str],
    url: str,
    slot: str,
    publication: str,
    last_lsn: str,
    user: str | None = None,
    password: str | None = None,
) -> str:
    """Let a job continue with the server that `pg_upgrade` has made, with its slot.

    The job must not run. If the function cannot prove that the new server has all changes that the
    tables lack, it changes nothing and raises an error.

    Parameters
    ----------
    spark : SparkSession
        A Classic session with the JARs and the catalog of the format.
    checkpoint, url, slot, publication, user, password
        As for `replicate`, with the new server.
    last_lsn : str
        The value of ``pg_current_wal_lsn()`` at the old server after its last write.

    Returns
    -------
    str
        The LSN at which the job continues.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect.
    IllegalArgumentException
        If the folder has no state of a job, or something can be missing.
    """
    adoption = jobs_of(spark, "adopt").Adoption
    options = {
        "url": url,
        "slot": slot,
        "publication": publication,
        "user": user,
        "password": password,
        "checkpoint": checkpoint,
    }
    return str(adoption.adopt(spark._jsparkSession, java_options(options), last_lsn))


def applied(
    spark: SparkSession, checkpoint: str | os.PathLike[str], *, rows: bool = False
) -> DataFrame:
    """Return what the tables of a job have. It needs no server and no running job.

    Parameters
    ----------
    spark : SparkSession
        A Classic session. With ``rows=True``, it has the JARs and the catalog of the format.
    checkpoint : str
        The checkpoint folder of the job.
    rows : bool
        Count the rows of the tables.

    Returns
    -------
    DataFrame
        A row for each table: `table`, the name at the server; `target`, the name in the target;
        `mode`; `state`: ``copying``, ``live``, ``failed``, ``dropped`` or ``excluded``; the
        `reason` of the state; `since`, when the table failed, and `next_try`, when the job tries
        again; `lsn`: the table has all transactions with a lower commit LSN; `last_change`, the
        time of the last commit at the server that changed it; the `lag` in seconds;
        `queue_changes` and `queue_bytes`, what is read and not applied; the number of `files` and
        `deleted_rows`, `rewritten_bytes` since the start of the job and the time of the
        `last_rewrite`, if the job writes the table directly; the number of `rows`, if they are
        counted; and `written`, when the job wrote all this. A job that runs writes it every 10
        seconds.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect.
    IllegalArgumentException
        If the folder has no state of a job.
    """
    counts = checked("rows", "a bool", rows, bool)
    return LastStatus(spark, checkpoint).tables(rows=counts)


class LastStatus:
    """What the checkpoint folder says of a job. It is read once.

    Parameters
    ----------
    spark : SparkSession
        A Classic session.
    checkpoint : str
        The checkpoint folder of the job.
    """

    def __init__(self, spark: SparkSession, checkpoint: str | os.PathLike[str]) -> None:
        jobs = jobs_of(spark, "applied", "status")
        self._spark = spark
        self._status = jobs.JobStatus.read(spark._jsparkSession, path_text(checkpoint))

    def tables(self, *, rows: bool) -> DataFrame:
        """Return a row for each table: see `applied`."""
        return DataFrame(self._status.toDataFrame(rows), self._spark)

    @property
    def waits(self) -> list[str]:
        """What the job waits for, each as a sentence."""
        return list(self._status.waits())

    @property
    def problem(self) -> str | None:
        """Why the job does not read its slot; None if it does."""
        problem: str | None = self._status.problem()
        return problem

    @property
    def ended(self) -> bool:
        """Whether the job had ended when it wrote its status."""
        return bool(self._status.hasEnded())

    def slot(
        self, *, url: str, slot: str, user: str | None = None, password: str | None = None
    ) -> dict[str, str]:
        """Return what the server says about the slot of the job."""
        return dict(self._status.slot(url, user, password, slot))
