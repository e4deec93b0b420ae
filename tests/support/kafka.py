"""A broker of Kafka as a service of this machine, and a stream that sends messages of slots to it.

``python -m support.kafka ARGUMENTS`` sends messages in a process that a test kills. The arguments
are those of `send` as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_pgoutput
from support import lake
from support.infrastructure import service
from support.processes import TESTS, free_port, run, started

JARS = lake.INFRASTRUCTURE / "kafka"

needs_kafka = pytest.mark.skipif(
    not (lake.RUNS_HERE and JARS.exists()), reason="make .infra/installed"
)

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"


class Broker:
    """A broker. It makes a topic with two partitions when a client first writes to the topic.

    Parameters
    ----------
    address : str
        Where clients connect.
    logs : Path
        The folder of its records.
    """

    def __init__(self, address: str, logs: Path) -> None:
        self.address = address
        self._logs = logs

    def size(self, topic: str) -> int:
        """Return how many bytes of records a topic has."""
        return sum(log.stat().st_size for log in self._logs.glob(f"{topic}-?/*.log"))


@contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    """Start a broker, which is its own controller."""
    port, controller = free_port(), free_port()
    logs = folder / "logs"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": str(logs),
        "num.partitions": "2",
        "offsets.topic.replication.factor": "1",
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", "-Xmx384m", "-cp", f"{JARS}/*"]
    formatting = ["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(properties)]
    run([*java, *formatting], folder)
    with service([*java, "kafka.Kafka", str(properties)], folder, port):
        yield Broker(f"127.0.0.1:{port}", logs)


def send(
    spark: SparkSession,
    source: Mapping[str, str],
    address: str,
    topic: str,
    partition: int,
    checkpoint: str,
) -> None:
    """Send the messages that a slot has now.

    Parameters
    ----------
    source : mapping of str to str
        The options of the slot.
    address : str
        The broker.
    topic, partition : str, int
        Where the messages go.
    checkpoint : str
        The folder of the stream's state.
    """
    messages = spark.readStream.format("pgoutput").options(**source, output="messages").load()
    query = (
        messages.selectExpr("data AS value", f"{partition} AS partition")
        .writeStream.format("kafka")
        .options(**{"kafka.bootstrap.servers": address, "topic": topic})
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@contextmanager
def sending(folder: Path, **arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Send messages in another process until the end of the block at the latest."""
    command = [sys.executable, "-m", "support.kafka", json.dumps(arguments)]
    folder.mkdir(exist_ok=True)
    with started(command, folder, PYTHONPATH=TESTS) as process:
        yield process


if __name__ == "__main__":
    builder = SparkSession.builder.master("local[1]")
    jars = sorted(map(str, lake.INFRASTRUCTURE.glob("spark/*.jar")))
    session = builder.config("spark.jars", ",".join(jars))
    send(spark_pgoutput.configure(session).getOrCreate(), **json.loads(sys.argv[1]))
