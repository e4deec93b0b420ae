"""First copies of tables of a server, through Py4J."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from support.lake_catalog import LakeCatalog
from support.source import SourceClient

JavaObject = Any
APPLICATION = "tests of the copy"


class Copy:
    """A copy that is open.

    Parameters
    ----------
    spark : SparkSession
        The session that reads the rows.
    copy : JavaObject
        The copy in the JVM.
    """

    def __init__(self, spark: SparkSession, copy: JavaObject) -> None:
        self._spark = spark
        self.copy = copy
        self.lsn: int = copy.lsn()

    def read_on_driver(self) -> int:
        """Read the rows on the connection of the snapshot, and return their number."""
        schema = self.copy.table().schema()
        return int(self.copy.localRows(self._spark._jsparkSession, schema).size())

    @property
    def rows(self) -> DataFrame:
        """The rows of the table."""
        return DataFrame(self.copy.rows(self._spark._jsparkSession), self._spark)


@contextmanager
def open_copy(
    spark: SparkSession,
    client: SourceClient,
    publications: Sequence[str],
    table: str,
    types: Mapping[str, str] | None = None,
    found: JavaObject | None = None,
    connections: JavaObject | None = None,
) -> Iterator[Copy]:
    """Open a copy of a table, and close it at the end of the block.

    Parameters
    ----------
    spark : SparkSession
        The session that reads the rows.
    client : SourceClient
        The connections to the server.
    publications : sequence of str
        The publications that send the table.
    table : str
        The name of the table.
    types : mapping of str to str, optional
        Types of columns, if they are not the default ones.
    found : JavaObject, optional
        The table as the catalog has it. By default, this function looks for it.
    connections : JavaObject, optional
        Connections of earlier copies. By default, the copy opens its own.
    """
    catalog = LakeCatalog(client)
    name = table if "." in table else f"public.{table}"
    source = found if found is not None else catalog.tables(*publications)[name]
    mirrored = catalog.mirrored(source, types=types)
    server = copy_source(client, publications)
    copies = client.jvm.io.sparkpgoutput.lake.copy
    with ExitStack() as stack:
        if connections is None:
            connections = stack.enter_context(closing(copies.SnapshotConnections(server)))
        no_limit = client.jvm.scala.Option.empty()
        copy = copies.TableCopy.open(server, mirrored, connections, no_limit)
        yield Copy(spark, stack.enter_context(closing(copy)))


def copy_source(client: SourceClient, publications: Sequence[str]) -> JavaObject:
    """Return the server as copies know it."""
    source = client.jvm.io.sparkpgoutput.lake.copy.CopySource
    options, hiding = (getattr(source, f"apply$default${number}")() for number in (4, 5))
    return source(client.address, APPLICATION, client.seq(publications), options, hiding)
