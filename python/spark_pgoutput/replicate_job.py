"""The process of `spark-pgoutput replicate`, which spark-submit starts."""

from __future__ import annotations

import re
import signal
import sys
from types import FrameType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_pgoutput.cli import parse
from spark_pgoutput.replicate_command import job_options
from spark_pgoutput.replication import Replication, replicate

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def main() -> int:
    """Run the job until it ends or is told to stop, and print what it does."""
    options = job_options(parse(sys.argv[1:]))
    builder = SparkSession.builder.appName(f"spark-pgoutput replicate {options['slot']}")
    if _is_folder(str(options["target"])):
        spark_conf = _submitted()
        for name, value in _DELTA.items():
            if name not in spark_conf:
                builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    try:
        job = replicate(spark, **options)  # type: ignore[arg-type]
    except (PySparkException, RuntimeError, TypeError) as error:
        return _failed(str(error))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: _stop(job, number, frame))
    return _follow(job)


def _follow(job: Replication) -> int:
    try:
        while not job.awaitTermination(1):
            _print(job)
        _print(job)
    except PySparkException as error:
        _print(job)
        return _failed(str(error))
    return job.exit_code


def _print(job: Replication) -> None:
    for line in job.report():
        print(line, flush=True)


def _failed(message: str) -> int:
    """Print an error without the stack trace of the JVM."""
    found = re.search(r"\[PGOUTPUT_\w+\].+", message)
    print(f"spark-pgoutput replicate: {found[0] if found else message}", file=sys.stderr)
    return 1


def _stop(job: Replication, number: int, frame: FrameType | None) -> None:
    job.stop()


def _is_folder(target: str) -> bool:
    return "/" in target


def _submitted() -> set[str]:
    """Return the names of the settings that spark-submit was given."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return {name for name, _ in SparkConf().getAll()}


if __name__ == "__main__":
    sys.exit(main())
