"""A replication slot, as the demo reads it with Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_pgoutput.demo.errors import DemoError


@dataclass(frozen=True)
class DemoSlot:
    """A slot, the publications whose changes are read, and the role that reads them."""

    url: str
    name: str
    publications: Sequence[str]
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def options(self) -> dict[str, str]:
        """The options of the source `pgoutput`."""
        publication = ",".join(_quoted(name) for name in self.publications)
        account = {"user": self.user, "password": self.password}
        options = {"url": self.url, **account, "slot": self.name, "publication": publication}
        return {name: value for name, value in options.items() if value is not None}

    def read_messages(self, spark: SparkSession) -> DataFrame:
        """Return the messages that the slot holds now. The slot stays as it is."""
        return spark.read.format("pgoutput").options(**self.options, output="messages").load()

    def copy_changes(self, spark: SparkSession, folder: str, checkpoint: str) -> StreamingQuery:
        """Start a stream that appends all changes up to now to a folder, and wait for its end."""
        changes = spark.readStream.format("pgoutput").options(**self.options).load()
        writer = changes.writeStream.option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(folder)
        query.awaitTermination()
        return query


def _quoted(publication: str) -> str:
    """Write a name for the option `publication`, in which commas separate names."""
    if re.search(r'[\s,"]', publication):
        return '"' + publication.replace('"', '""') + '"'
    return publication


@contextmanager
def source_errors() -> Iterator[None]:
    """Turn the errors of the source `pgoutput` into DemoErrors, without Spark's stack traces."""
    try:
        yield
    except Exception as error:
        complaint = re.search(r"\[PGOUTPUT_\w+\] (.+?)(?: SQLSTATE: \w{5}|$)", str(error), re.M)
        if complaint is None:
            raise
        raise DemoError(complaint[1]) from error
