"""The archive of Spark's classes, with which a JVM of the tests starts in two thirds of the time.

A JVM maps the classes of the archive into its memory, and so need not read them from Spark's JARs.
It uses the archive only if its class path begins with that of the JVM that wrote the archive, so a
JVM of another Spark starts without it. See "Application Class-Data Sharing" on the page of the
command `java` in the documentation of the JDK.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

# `make .venv/spark.jsa` writes it.
ARCHIVE = Path(sys.prefix) / "spark.jsa"

# The tests ask many small queries. For these the optimizing compiler, a parallel collector and the
# check of each class cost more than they save. The code of all queries does not fit into the 48 MB
# that such a JVM has for it: it would throw code away and compile it again. It would also collect
# the whole heap whenever the classes need more room.
_SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=512m "
    "-XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

# A JVM with another class path would report that it does not use the archive.
_QUIET = "-Xlog:cds*=off"

SHORT_LIVED_JVM = (
    f"{_SHORT_LIVED} -XX:SharedArchiveFile={ARCHIVE} {_QUIET}" if ARCHIVE.exists() else _SHORT_LIVED
)


def write(archive: str) -> None:
    """Start a JVM that loads classes, and that writes them to an archive when it ends."""
    programs = Path(sys.executable).parent
    subprocess.run(
        [
            "spark-submit",
            *(
                "--driver-java-options",
                f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={archive} {_QUIET}",
            ),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR"),
            __file__,
        ],
        check=True,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
    )


def load_classes() -> None:
    """Do what most tests do: queries, files, and a stream."""
    with tempfile.TemporaryDirectory() as folder:
        spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
        numbers = spark.range(100).withColumn("n", F.struct(F.col("id") % 10, F.expr("array(id)")))
        numbers.write.parquet(f"{folder}/numbers")
        read = spark.read.parquet(f"{folder}/numbers")
        read.groupBy("n").agg(F.max("id")).join(read, "n").orderBy("id").collect()
        spark.createDataFrame(read.limit(1).toArrow()).collect()
        stream = spark.readStream.schema(read.schema).parquet(f"{folder}/numbers")
        (
            stream.groupBy("n")
            .count()
            .writeStream.outputMode("complete")
            .foreachBatch(lambda rows, _: rows.show())
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
        spark.stop()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(sys.argv[1])
    else:
        load_classes()
