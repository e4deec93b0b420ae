"""The tables of a job compared with those of the server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_pgoutput import job_status
from spark_pgoutput.arguments import checked, path_text, table_names, wrong_type
from spark_pgoutput.registration import jobs_of
from spark_pgoutput.replication import POLL_SECONDS, Replication, job_options

#: A job writes its status so often.
_SECONDS_BETWEEN_LOOKS = 10.0

_RUNS = "The job runs. It answers when it has compared the tables."
_ONCE = "To run a job for the verification only, use --once (in Python, once=True)."
_WAITS = f"The request waits until the job reads the slot. {_ONCE}"


def verify(
    spark: SparkSession,
    *,
    checkpoint: str | os.PathLike[str],
    tables: str | Sequence[str] = (),
    once: bool = False,
    timeout: float | None = None,
    tell: Callable[[str], object] | None = None,
    **options: object,
) -> DataFrame:
    """Compare the tables of a job with those of the server, both as of one LSN.

    The job compares the tables, in this process or in another one, and continues its other work.
    With ``once=True``, no job may run: this call first applies everything up to now, as
    `replicate` with ``once=True`` does, and then compares the tables.

    Parameters
    ----------
    spark : SparkSession
        A Classic session. With ``once=True``, it has the JARs and the catalog of the format.
    checkpoint : str
        The checkpoint folder of the job.
    tables : str or sequence of str, optional
        The names of tables at the server, such as ``"public.orders"``; by default, all tables.
    once : bool
        Run the job until it has applied everything, instead of asking a job that runs.
    timeout : float, optional
        The seconds to wait for the job that runs; by default, there is no limit.
    tell : callable, optional
        Is called with a text for each thing that happens before the result.
    **options
        With ``once=True``, the other arguments of `replicate`, such as ``config``.

    Returns
    -------
    DataFrame
        A row for each table: `table` and `target`, its names; `result`: ``equal``, ``different``
        or ``skipped``, with the `reason`; `lsn`: both sides have the transactions with lower commit
        LSNs; `server_rows` and `target_rows`; how many rows are `only_at_server`, `only_in_target`
        or `different`; and the first 20 `keys` of such rows, each with its `kind`.

    Raises
    ------
    RuntimeError
        If the session is one of Spark Connect.
    TimeoutError
        If no job has answered in time. The job answers at its next start.
    IllegalArgumentException
        If the folder has no state of a job, the job does not know a table, or it cannot verify
        tables.
    """
    command = jobs_of(spark, "verify").VerifyCommand
    wanted = table_names(tables)
    say = tell or (lambda text: None)
    if timeout is not None and not (isinstance(timeout, (int, float)) and timeout >= 0):
        raise wrong_type("timeout", "a number of seconds", timeout)
    if checked("once", "a bool", once, bool):
        if timeout is not None:
            raise TypeError("The timeout goes with a job that runs, and not with once=True.")
        given = job_options(spark, {**options, "checkpoint": checkpoint, "once": True})
        job = Replication(spark, command.run(spark._jsparkSession, given, wanted))
        try:
            return _verified(job, say)
        finally:
            job.stop()
    if options:
        raise TypeError(f"The options {', '.join(sorted(options))} go with once=True.")
    asked = command.ask(spark._jsparkSession, path_text(checkpoint), wanted)
    return DataFrame(_answer(asked, timeout, say), spark)


def _verified(job: Replication, say: Callable[[str], object]) -> DataFrame:
    ended = False
    while not ended:
        ended = job.awaitTermination(POLL_SECONDS)
        for line in job.report():
            say(line)
    found = job.verified()
    if found is None:
        raise RuntimeError("The job was stopped before it had verified the tables.")
    return found


def _answer(asked: Any, timeout: float | None, say: Callable[[str], object]) -> Any:  # noqa: ANN401
    end = None if timeout is None else time.monotonic() + timeout
    runs: bool | None = None
    look = time.monotonic()
    while True:
        for text in asked.poll():
            say(text)
        found = asked.result()
        if found is not None:
            return found
        if time.monotonic() >= look:
            look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
            problem = _problem(asked.status())
            if runs != (problem is None):
                runs = problem is None
                say(_RUNS if problem is None else f"{problem} {_WAITS}")
        if end is not None and time.monotonic() >= end:
            raise TimeoutError(
                f"No job has answered in {timeout:g} s. The job answers while it runs, "
                f"or at its next start. {_ONCE}"
            )
        time.sleep(POLL_SECONDS)


def _problem(status: str | None) -> str | None:
    """Return why the job does not run, or does not read the slot; None if it does both."""
    if status is None:
        return "The job has not begun to read the slot."
    return job_status.problem(json.loads(status), datetime.now(timezone.utc))
