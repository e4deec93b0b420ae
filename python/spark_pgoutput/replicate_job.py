"""The process of `spark-pgoutput replicate`, which spark-submit starts."""

from __future__ import annotations

import sys
import threading

from py4j.protocol import Py4JError

from spark_pgoutput.cli import parse
from spark_pgoutput.copy_display import display
from spark_pgoutput.replicate_command import job_options
from spark_pgoutput.replication import Replication, replicate
from spark_pgoutput.submitted import FAILURES, failed, session, signalled


def main() -> int:
    """Run the job until it ends or is told to stop, and print what it does."""
    options = job_options(parse(sys.argv[1:]))
    spark = session(f"spark-pgoutput replicate {options['slot']}", str(options["target"]))
    try:
        job = replicate(spark, **options)  # type: ignore[arg-type]
    except FAILURES as error:
        return failed("replicate", error)
    return _follow(job, signalled())


def _follow(job: Replication, stopping: threading.Event) -> int:
    with display() as shown:
        try:
            while not job.awaitTermination(1):
                if stopping.is_set():
                    job.stop()
                shown.show(job.report(), job.progress())
        except FAILURES as error:
            shown.show(job.report(), [])
            return failed("replicate", error)
        except Py4JError:
            # Ctrl+C in a terminal goes to the JVM, too, which then ends the job and itself.
            if not stopping.is_set():
                raise
            return 1
        shown.show(job.report(), [])
    return job.exit_code


if __name__ == "__main__":
    sys.exit(main())
