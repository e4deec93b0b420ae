"""A session that runs jobs, one after the other: the script of the processes of `comparison`.

Each line of the standard input has the options of a job as JSON. The script prints the seconds of
the job. It runs as a file, so that `spark_pgoutput` comes from PYTHONPATH.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession

import spark_pgoutput
from spark_pgoutput import submitted


def main() -> None:
    """Run the jobs."""
    builder = SparkSession.builder.appName("spark-pgoutput's benchmarks")
    # Those of the command.
    settings = {**getattr(submitted, "JOB_SETTINGS", {}), **json.loads(sys.argv[1])}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = spark_pgoutput.configure(builder).getOrCreate()
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.monotonic()
        job = spark_pgoutput.replicate(spark, once=True, **json.loads(line))
        job.awaitTermination()
        assert job.exit_code == 0
        print(time.monotonic() - begin, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
