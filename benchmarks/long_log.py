"""What it costs to open, to list and to write a table that has had very many commits.

``python -m benchmarks.long_log`` makes a log of Delta with 600,000 commits, of which the last
checkpoint and what retention leaves are there, and metadata of Iceberg with many snapshots. It does
so in seconds, by copies of the files of one commit, and opens each table in a new JVM.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPOSITORY = Path(__file__).parents[1]
_CHECKPOINT_INTERVAL = 100  # what the job sets


def _session(folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    sys.path.append(str(REPOSITORY / "tests"))
    from support import lake

    settings = lake.settings(folder, lake.DELTA)
    jar = REPOSITORY / "python" / "spark_pgoutput" / "jars" / "spark-pgoutput.jar"
    settings["spark.jars"] += f",{jar}"
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.config("spark.ui.enabled", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def make_delta(spark: SparkSession, folder: Path, commits: int, kept: int, removed: int) -> Path:
    """Make a table of Delta with a long log.

    Parameters
    ----------
    spark : SparkSession
        A session with Delta.
    folder : Path
        Where the table is made.
    commits : int
        The number of commits. There is a checkpoint at the last multiple of 100.
    kept : int
        How many of the commits have a file yet.
    removed : int
        How many removed files the checkpoint names. A table keeps these names for some time, by
        default for as long as it keeps the files.

    Returns
    -------
    Path
        The folder of the table.
    """
    table = folder / "delta_table"
    properties = (
        "'delta.checkpointInterval' = '1', 'delta.enableDeletionVectors' = 'true', "
        "'delta.columnMapping.mode' = 'name'"
    )
    columns = "(id INT, v STRING)"
    spark.sql(f"CREATE TABLE delta.`{table}` {columns} USING delta TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO delta.`{table}` SELECT /*+ REPARTITION(1) */ 1, 'a'")
    now = int(time.time() * 1000)
    names = [
        {"path": f"part-{uuid.uuid4()}.parquet", "deletionTimestamp": now, "dataChange": True}
        for _ in range(removed)
    ]
    (table / "_delta_log" / f"{2:020}.json").write_text(
        "\n".join(json.dumps({"remove": name}) for name in names)
    )
    assert spark._jvm is not None
    logs = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    logs.clearCache()
    logs.forTable(spark._jsparkSession, str(table)).checkpoint()
    spark.sql(
        f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES "
        f"('delta.checkpointInterval' = '{_CHECKPOINT_INTERVAL}')"
    )
    log = table / "_delta_log"
    # The checkpoint has the version 2. The properties of the version 3 come with the first copy.
    actions = [json.loads(line) for line in (log / f"{3:020}.json").read_text().splitlines()]
    metadata = next(action for action in actions if "metaData" in action)
    added = [json.loads(line) for line in (log / f"{1:020}.json").read_text().splitlines()]
    add = next(action for action in added if "add" in action)
    info = next(action for action in added if "commitInfo" in action)
    checkpoint = log / f"{2:020}.checkpoint.parquet"
    last = json.loads((log / "_last_checkpoint").read_text())
    at = commits - commits % _CHECKPOINT_INTERVAL
    shutil.copy(checkpoint, folder / "checkpoint")
    shutil.rmtree(log)
    log.mkdir()
    shutil.move(folder / "checkpoint", log / f"{at:020}.checkpoint.parquet")
    (log / "_last_checkpoint").write_text(json.dumps({"version": at, "size": last["size"]}))
    data = table / add["add"]["path"]
    previous = add["add"]["path"]
    for version in range(commits - kept + 1, commits + 1):
        info["commitInfo"]["timestamp"] = now - 1000 * (commits - version)
        actions = [info, {"txn": {"appId": "job", "version": version, "lastUpdated": now}}]
        if version == at + 1:
            actions.append(metadata)
        if version > at:
            # Each commit replaces the file of the previous commit, as a small cut of one file does.
            path = f"part-{version}.parquet"
            os.link(data, table / path)
            remove = {"path": previous, "deletionTimestamp": now, "dataChange": True}
            actions += [{"remove": remove}, {"add": {**add["add"], "path": path}}]
            previous = path
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return table


def make_iceberg(spark: SparkSession, folder: Path, snapshots: int) -> Path:
    """Make a table of Iceberg with many snapshots, which all have the same manifests."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.long")
    spark.sql("DROP TABLE IF EXISTS ice.long.log")
    modes = ", ".join(f"'write.{c}.mode' = 'merge-on-read'" for c in ("merge", "update", "delete"))
    spark.sql(f"CREATE TABLE ice.long.log (id INT, v STRING) TBLPROPERTIES ({modes})")
    spark.sql("INSERT INTO ice.long.log SELECT 1, 'a'")
    table = folder / "ice" / "long" / "log"
    newest = max(
        (table / "metadata").glob("v*.metadata.json"), key=lambda file: file.stat().st_mtime
    )
    metadata = json.loads(newest.read_text())
    only = metadata["snapshots"][0]
    now = metadata["last-updated-ms"]
    ids = range(1, snapshots + 1)

    def snapshot(number: int) -> dict[str, Any]:
        parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
        own = {"snapshot-id": number, "sequence-number": number}
        return {**only, **parent, **own, "timestamp-ms": now - 1000 * (snapshots - number)}

    metadata["snapshots"] = [snapshot(number) for number in ids]
    metadata["snapshot-log"] = [
        {"snapshot-id": found["snapshot-id"], "timestamp-ms": found["timestamp-ms"]}
        for found in metadata["snapshots"]
    ]
    metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = snapshots
    metadata["last-sequence-number"] = snapshots
    newest.write_text(json.dumps(metadata))
    for checksum in (table / "metadata").glob(".*.crc"):
        checksum.unlink()
    return table


def measure(folder: Path, kind: str) -> dict[str, float]:
    """Open a table in this process, as a job does, and write a commit of the format's own."""
    spark = _session(folder)
    jvm = spark._jvm
    assert jvm is not None
    some = getattr(jvm.scala, "Some")  # noqa: B009 - mypy knows no packages of the JVM
    spark.range(1).collect()  # The session itself takes seconds to start.
    runtime = jvm.java.lang.Runtime.getRuntime()

    def heap() -> float:
        jvm.java.lang.System.gc()
        return float(runtime.totalMemory() - runtime.freeMemory()) / 2**20

    found: dict[str, float] = {}

    def timed(name: str, body: Callable[[], Any]) -> Any:  # noqa: ANN401
        begin = time.monotonic()
        result = body()
        found[name] = round(time.monotonic() - begin, 3)
        return result

    before = heap()
    place, table = (str(folder), "delta_table") if kind == "delta" else ("ice.long", "log")
    target = jvm.io.sparkpgoutput.lake.target.Targets.of(spark._jsparkSession, place, some(kind))
    timed("first look [s]", lambda: target.look(table))
    timed("second look [s]", lambda: target.look(table))
    sql = f"delta.`{folder / table}`" if kind == "delta" else "ice.long.log"
    timed("first query [s]", lambda: spark.table(sql).count())
    for number in ("first", "second"):
        timed(f"{number} commit [s]", lambda: spark.sql(f"INSERT INTO {sql} SELECT 2, 'b'"))
    timed("look after commits [s]", lambda: target.look(table))
    found["heap [MiB]"] = round(heap() - before, 1)
    spark.stop()
    return found


def main() -> None:
    """Make the tables, and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=600_000)
    parser.add_argument("--kept", type=int, nargs="*", default=[100, 20_000])
    parser.add_argument("--removed", type=int, default=20_000)
    parser.add_argument("--snapshots", type=int, nargs="*", default=[100, 2_000, 20_000])
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "KIND"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(Path(options.measure[0]), options.measure[1])))
        return
    cases = [("delta", kept) for kept in options.kept]
    cases += [("iceberg", number) for number in options.snapshots]
    for kind, number in cases:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            sizes = (options.commits, number, options.removed)
            make = [sys.executable, "-c", _MAKE, name, kind, *map(str, sizes)]
            subprocess.run(make, cwd=REPOSITORY, check=True)
            child = [sys.executable, "-m", "benchmarks.long_log", "--measure", name, kind]
            done = subprocess.run(child, cwd=REPOSITORY, check=True, capture_output=True, text=True)
            what = "files of commits" if kind == "delta" else "snapshots"
            files = sum(1 for _ in folder.rglob("*") if _.is_file())
            print(f"{kind}, {number:,} {what} ({files:,} files): {done.stdout.strip()}", flush=True)


# In a process of its own, so that the measured one knows nothing of the table.
_MAKE = """
import sys; from pathlib import Path; from benchmarks import long_log
folder, kind = Path(sys.argv[1]), sys.argv[2]
commits, number, removed = map(int, sys.argv[3:])
spark = long_log._session(folder)
if kind == "delta": long_log.make_delta(spark, folder, commits, number, removed)
else: long_log.make_iceberg(spark, folder, number)
"""

if __name__ == "__main__":
    main()
