"""Connections of the source to a server, through Py4J."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from support import scala
from support.servers import Server

APPLICATION = "tests of the source"


class SourceClient:
    """The JVM's connections to one database of a server.

    Parameters
    ----------
    spark : SparkSession
        A session whose JVM has the JAR.
    server : Server
        The server.
    database : str, optional
        The database to connect to.
    user, password : str, optional
        The role that connects. The default is the superuser.
    """

    def __init__(
        self,
        spark: SparkSession,
        server: Server,
        database: str = Server.database,
        user: str = Server.user,
        password: str | None = None,
    ) -> None:
        self.jvm: Any = spark._jvm
        url = f"jdbc:postgresql://{server.host}:{server.port}/{database}"
        self.address = self.java("connection.ServerAddress")(
            url, self.option(user), self.option(password or server.password)
        )
        connections = self.java("connection.Connections")
        self.sql = connections.open(self.address, APPLICATION)
        self.replication = connections.openReplication(self.address, APPLICATION)
        self.server = self.java("slot.Server").of(self.replication)

    def java(self, name: str) -> Any:  # noqa: ANN401 - a class of the JVM
        """Return a class of the source's package."""
        return operator.attrgetter(f"io.sparkpgoutput.source.{name}")(self.jvm)

    def option(self, value: object) -> Any:  # noqa: ANN401 - an object of the JVM
        """Return a value as Scala's Option."""
        return self.jvm.scala.Option.apply(value)

    def seq(self, values: Iterable[object]) -> Any:  # noqa: ANN401 - an object of the JVM
        """Return values as Scala's Seq."""
        return scala.seq(self.jvm, values)

    def close(self) -> None:
        """Close the connections."""
        self.sql.abort()
        self.replication.abort()


@contextmanager
def source_client(
    spark: SparkSession, server: Server, *arguments: str, **named: str
) -> Iterator[SourceClient]:
    """Open a client, and close it at the end of the block."""
    client = SourceClient(spark, server, *arguments, **named)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def fails(condition: str, *parts: str) -> Iterator[None]:
    """Expect an error with this condition, whose text has these parts."""
    error: IllegalArgumentException | None = None
    try:
        yield
    except IllegalArgumentException as caught:
        error = caught
    assert error, f"no error, but {condition} was expected"
    assert error.getCondition() == condition, str(error)
    missing = [part for part in parts if part not in str(error)]
    assert not missing, f"{missing} not in: {error}"
