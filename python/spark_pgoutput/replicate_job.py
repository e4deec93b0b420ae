"""The process of `spark-pgoutput replicate`, which spark-submit starts."""

from __future__ import annotations

import sys
import threading

from spark_pgoutput.cli import parse
from spark_pgoutput.copy_display import display
from spark_pgoutput.printable import printable
from spark_pgoutput.replicate_command import job_options
from spark_pgoutput.replication import Replication, replicate
from spark_pgoutput.submitted import FAILURES, run, session


def main() -> int:
    """Run the job until it ends or gets a signal to stop, and print what it does."""
    arguments = parse(sys.argv[1:])
    options = job_options(arguments)

    def work(stopping: threading.Event) -> int:
        slot = str(options["slot"])
        # Otherwise, each start would give the metrics other names.
        more = {"spark.metrics.namespace": slot}
        spark = session(
            f"spark-pgoutput replicate {slot}", str(options["target"]), arguments.secrets, more
        )
        return _follow(replicate(spark, **options), stopping)  # type: ignore[arg-type]

    return run("replicate", work)


def _follow(job: Replication, stopping: threading.Event) -> int:
    with display() as shown:
        try:
            while not job.awaitTermination(1):
                if stopping.is_set():
                    job.stop()
                shown.show(job.report(), job.progress())
        except FAILURES:
            shown.show(job.report(), [])
            raise
        shown.show(job.report(), [])
    for line in job.failed():
        print(printable(f"Failed: {line}"), flush=True)
    return job.exit_code


if __name__ == "__main__":
    sys.exit(main())
