"""The process of `spark-pgoutput replicate`, which spark-submit starts."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from pyspark.errors import PySparkException

from spark_pgoutput.cli import parse
from spark_pgoutput.copy_display import display
from spark_pgoutput.replicate_command import job_options
from spark_pgoutput.replication import Replication, replicate
from spark_pgoutput.submitted import failed, session


def main() -> int:
    """Run the job until it ends or is told to stop, and print what it does."""
    options = job_options(parse(sys.argv[1:]))
    spark = session(f"spark-pgoutput replicate {options['slot']}", str(options["target"]))
    try:
        job = replicate(spark, **options)  # type: ignore[arg-type]
    except (PySparkException, RuntimeError, TypeError) as error:
        return failed("replicate", error)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: _stop(job, number, frame))
    return _follow(job)


def _follow(job: Replication) -> int:
    with display() as shown:
        try:
            while not job.awaitTermination(1):
                shown.show(job.report(), job.progress())
        except PySparkException as error:
            shown.show(job.report(), [])
            return failed("replicate", error)
        shown.show(job.report(), [])
    return job.exit_code


def _stop(job: Replication, number: int, frame: FrameType | None) -> None:
    job.stop()


if __name__ == "__main__":
    sys.exit(main())
