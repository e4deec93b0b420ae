"""A checkpoint of a streaming query that every later version must continue from.

`python tests/support/checkpoint.py` writes it to tests/data/checkpoint.zip. Spark 4.0.0 wrote the
present file, with the first version of the format of the state. The file has an open, a prepared
and a committed transaction, and relations of the stream and of earlier messages. Users have
checkpoints of all released versions, so if the format changes, add another file and keep this one.

Spark keeps absolute paths in a checkpoint. The file has `ROOT` in place of the folder of the
stream, and `continue_from_file` puts another folder there.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql import DataFrame, SparkSession

import spark_pgoutput
from support import messages as m
from support.streams import PROVIDER, ROCKS_DB, Stream

FILE = Path(__file__).parents[1] / "data" / "checkpoint.zip"
ROOT = b"/folder-of-the-stream"
FILES = 3

OLD = m.relation("public.old", m.column("k", key=True), oid=m.ORDERS + 1)
TABLE = m.relation("public.t", m.column("k", key=True), m.column("v"))
WIDER = m.relation("public.t", m.column("k", key=True), m.column("v"), m.column("w"))

# The messages in the view of the option `relations`.
EARLIER = [OLD]
# The messages of the micro-batches before the checkpoint was copied.
WRITTEN = [
    *m.transaction(6, 100, TABLE, m.insert("1", "a")),
    *(m.begin_prepare(9, "gid", 50), m.insert("2", "b"), m.prepare(9, "gid", 50)),
    *(m.stream_start(7), m.in_stream(7, WIDER), m.in_stream(7, m.insert("3", "c", "x"))),
    *(m.in_stream(8, m.insert("4", "d", "y")), m.STREAM_STOP, m.stream_abort(7, 8)),
]
# The messages of the next micro-batch.
CONTINUED = [
    *(m.stream_start(7, first=False), m.in_stream(7, m.insert("5", "e", "z")), m.STREAM_STOP),
    *m.transaction(6, 100, m.insert("1", "a")),  # The state knows this transaction.
    *m.transaction(10, 110, m.insert("6", "f"), m.insert("7", oid=m.ORDERS + 1)),
    *(m.stream_commit(7, 120), m.commit_prepared(9, "gid", 130)),
]
EXPECTED = [
    (110, 10, "public.t", {"k": "6", "v": "f"}),
    (110, 10, "public.old", {"k": "7"}),
    (120, 7, "public.t", {"k": "3", "v": "c", "w": "x"}),
    (120, 7, "public.t", {"k": "5", "v": "e", "w": "z"}),
    (130, 9, "public.t", {"k": "2", "v": "b"}),
]


def changes(spark: SparkSession, stream: Stream) -> DataFrame:
    m.frame(spark, EARLIER).createOrReplaceTempView("earlier")
    return spark_pgoutput.changes(stream.messages, options={"relations": "earlier"})


def continue_from_file(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the changes of a query that continues from the file."""
    checkpoint = folder / "output" / "checkpoint"
    with zipfile.ZipFile(FILE) as file:
        file.extractall(checkpoint)
    for path in [*checkpoint.glob("state/*/_metadata/*/*"), *checkpoint.glob("sources/*/*")]:
        path.write_bytes(path.read_bytes().replace(ROOT, str(folder).encode()))
    stream = Stream(spark, folder, files=FILES)
    stream.add_messages(CONTINUED, len(EARLIER) + len(WRITTEN))
    found = changes(spark, stream)
    output = str(folder / "found")
    # This is not the file sink that wrote the checkpoint, because that expects its earlier files.
    writer = found.writeStream.foreachBatch(
        lambda rows, _: rows.write.mode("append").parquet(output)
    )
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return spark.read.schema(found.schema).parquet(output)


def write_file(spark: SparkSession, folder: Path) -> None:
    stream = Stream(spark, folder)
    size = -(-len(WRITTEN) // FILES)
    for start in range(0, len(WRITTEN), size):
        stream.add_messages(WRITTEN[start : start + size], len(EARLIER) + start)
    assert stream.run(changes(spark, stream)).count() == 1
    checkpoint = folder / "output" / "checkpoint"
    with zipfile.ZipFile(FILE, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(checkpoint.rglob("*")):
            if path.is_file() and path.suffix != ".crc":
                data = path.read_bytes().replace(str(folder).encode(), ROOT)
                file.writestr(str(path.relative_to(checkpoint)), data)


if __name__ == "__main__":
    builder = spark_pgoutput.configure(SparkSession.builder.master("local[2]"))
    session = builder.config(PROVIDER, ROCKS_DB).config("spark.sql.shuffle.partitions", 2)
    with tempfile.TemporaryDirectory() as name:
        write_file(session.getOrCreate(), Path(name))
