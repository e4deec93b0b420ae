"""Tables kept equal: from the publications of a server into Delta or Iceberg."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from spark_pgoutput import config_file
from spark_pgoutput.arguments import checked, option_texts
from spark_pgoutput.config_file import ConfigFile
from spark_pgoutput.job_options import HIDDEN, LISTS, merged, with_prefixes
from spark_pgoutput.password import first_line, has_password
from spark_pgoutput.registration import jobs_of

POLL_SECONDS = 1.0


def replicate(
    spark: SparkSession,
    *,
    config: str | os.PathLike[str] | None = None,
    url: str | None = None,
    slot: str | None = None,
    publication: str | None = None,
    target: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    user: str | None = None,
    password: str | None = None,
    once: bool | None = None,
    mode: str | Mapping[str, str] | None = None,
    on_delete: str | Mapping[str, str] | None = None,
    **options: object,
) -> Replication:
    """Keep the tables of publications equal in Delta or Iceberg.

    The job makes the slot, copies the tables, and then applies each transaction. It can end at any
    point: the next call with the same arguments continues it. The call checks everything and
    returns; the job runs in the background.

    Parameters
    ----------
    spark : SparkSession
        A Classic session with the JARs and the catalog of the format.
    config : str, optional
        A YAML file with any of the other arguments. An argument of the call wins over the file.
        The session must have the settings of Spark that the file names.
    url : str
        For example ``"jdbc:postgresql://db.example.org/shop"``. This and the next four arguments
        are required, here or in the file.
    slot : str
        The name of the replication slot. Each job needs its own.
    publication : str
        The names of the publications, with commas between them.
    target : str
        A namespace of a catalog, such as ``"lakehouse.shop"``, or a folder for Delta tables.
    checkpoint : str
        A folder for the state of the job.
    user : str, optional
        The role that connects; by default, the one of the URL.
    password : str, optional
        By default, the password of the URL, the environment variable PGPASSWORD, or the
        password of a pgpass file, whichever comes first.
    once : bool, optional
        If true, the job ends when it has applied all changes that existed at its start.
    mode : str or mapping of str to str, optional
        With ``"mirror"``, the default, the target has the rows of the tables. With ``"versions"``,
        it has each version of each row, and with ``"history"``, it has all of their changes. With
        ``"both"``, it has the rows of ``orders``, and its changes in ``orders_history``. A mapping
        gives the modes of single tables, such as ``{"orders": "versions"}``; its key ``"*"``
        stands for all others.
    on_delete : str or mapping of str to str, optional
        With ``"delete"``, the default, a row that the server deletes is deleted in the target.
        With ``"mark"``, it stays, and its column ``_deleted_at`` says when it was deleted. A
        mapping gives the values of single tables, as for `mode`.
    **options
        The other options, such as ``format="delta"``, ``onTableError="stop"`` or
        ``excludeTables=["staging.*"]``; the mappings ``names`` (tables to names in the target),
        ``types`` (columns to Spark types), ``pg_types`` (PostgreSQL's types to Spark types),
        ``partition`` and ``cluster`` (tables to lists of columns, or of functions such as
        ``"days(created_at)"``), ``properties`` (of the tables) and ``columns`` (the columns that
        the job leaves out or hashes), such as
        ``{"public.users": {"excludeColumns": ["ssn"], "hash": ["email"]}}``.

    Returns
    -------
    Replication
        The job.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect.
    ValueError
        If something in the file is wrong.
    IllegalArgumentException
        If an option is wrong, if something is missing at the server or in the target, or if the
        job cannot go on without a gap.
    """
    jobs = jobs_of(spark, "replicate")
    given: dict[str, object] = {
        "config": config,
        "url": url,
        "user": user,
        "password": password,
        "slot": slot,
        "publication": publication,
        "target": target,
        "checkpoint": checkpoint,
        "once": once,
        "mode": mode,
        "on_delete": on_delete,
        **options,
    }
    started = jobs.Replication.start(spark._jsparkSession, job_options(spark, given))
    return Replication(spark, started)


def job_options(spark: SparkSession, given: Mapping[str, object]) -> dict[str, str]:
    """Write the arguments of `replicate` as options, with those of the file of ``config``."""
    options = {name: value for name, value in given.items() if name != "config"}
    if (config := given.get("config")) is not None:
        options = _with_file(spark, config_file.read(str(config)), options)
    return java_options(options)


def _with_file(
    spark: SparkSession, file: ConfigFile, given: Mapping[str, object]
) -> dict[str, object]:
    """Return the arguments of a call, and those of a file that the call does not set."""
    settings = {**file.spark, **{name: os.environ[each] for name, each in file.secrets.items()}}
    lacking = [
        name
        for name, value in settings.items()
        if not set(value.split(",")) <= set(spark.conf.get(name, "").split(","))  # type: ignore[union-attr]
    ]
    if lacking:
        warnings.warn(
            f"The session lacks settings of the config file: {', '.join(lacking)}. Give them to "
            "its builder before it starts.",
            stacklevel=4,
        )
    options = dict(file.options)
    if not has_password(str(given.get("url") or "")):
        if file.password_file is not None:
            options["password"] = first_line(file.password_file)
        elif file.password_variable is not None:
            options["password"] = os.environ[file.password_variable]
    return merged(options, given)


def java_options(options: Mapping[str, object]) -> dict[str, str]:
    """Write all options as texts, and each entry of a mapping as an option of its own.

    As with libpq, the password comes from PGPASSWORD if neither an option nor the URL has it.
    """
    found: dict[str, str] = {}
    for name, value in options.items():
        entries: dict[str, Any] = {
            key: ",".join(checked(name, "a list of texts", each, str) for each in entry)
            if isinstance(entry, (list, tuple)) and (key == name or name in LISTS)
            else entry
            for key, entry in with_prefixes(name, value).items()
        }
        for key, text in option_texts(entries).items():
            # The same list of hidden columns in Scala's spelling shows none of the others.
            is_list = key in found and key.startswith(tuple(HIDDEN.values()))
            found[key] = f"{found[key]},{text}" if is_list else text
    is_given = "password" in found or has_password(found.get("url", ""))
    if not is_given and "PGPASSWORD" in os.environ:
        found["password"] = os.environ["PGPASSWORD"]
    return found


class CopyProgress(NamedTuple):
    """The progress of the copy of a table.

    Executors report what their tasks have read every 10 seconds, and at the end of each task.
    """

    table: str
    """The name of the table at the server."""

    rows: int
    """The number of rows that were read."""

    bytes: int
    """The number of bytes that were read from COPY."""

    share: float
    """The part of the table's size that was read, from 0 to 1."""


class Replication:
    """A job that keeps tables equal."""

    def __init__(self, spark: SparkSession, job: Any) -> None:  # noqa: ANN401
        self._spark = spark
        self._job = job

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        """Wait for the end of the job, and raise its error if it failed.

        Parameters
        ----------
        timeout : float, optional
            The seconds to wait; by default, there is no limit.

        Returns
        -------
        bool
            True if the job has ended.
        """
        left = timeout
        while left is None or left > 0:
            step = POLL_SECONDS if left is None else min(left, POLL_SECONDS)
            if self._job.awaitTermination(int(step * 1000)):  # short, so that Ctrl+C works
                return True
            left = None if left is None else left - step
        return bool(self._job.awaitTermination(0))

    def stop(self) -> None:
        """End the job, and wait for its end.

        What is not applied is still in the slot, and the next start applies it.
        """
        self._job.stop()

    def exception(self) -> str | None:
        """Return the error that ended the job; None if there is none."""
        error: str | None = self._job.error()
        return error

    def verified(self) -> DataFrame | None:
        """Return what `verify` with ``once=True`` has found; None before the end."""
        found = self._job.verified()
        return None if found is None else DataFrame(found, self._spark)

    def status(self) -> DataFrame:
        """Return what the tables have, as `applied` does."""
        return DataFrame(self._job.status(), self._spark)

    @property
    def exit_code(self) -> int:
        """0 if the job has applied everything, 3 if a table has failed, and 1 if the job failed."""
        return int(self._job.exitCode())

    def failed(self) -> list[str]:
        """Return a line for each table that has failed: its name and the reason."""
        return list(self._job.failed())

    def progress(self) -> list[CopyProgress]:
        """Return the progress of the copies that run, in the order of their tables."""
        return [
            CopyProgress(copy.table(), copy.rows(), copy.bytes(), copy.share())
            for copy in self._job.progress()
        ]

    def report(self) -> list[str]:
        """Return what happened since the last call, in lines of text."""
        return list(self._job.report())
