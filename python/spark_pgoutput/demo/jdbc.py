"""Queries on PostgreSQL through Spark's JDBC source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from spark_pgoutput.demo.errors import DemoError


@dataclass(frozen=True)
class Server:
    """A PostgreSQL server and the role that connects to it."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def query(self, spark: SparkSession, sql: str) -> DataFrame:
        """Return the rows of a query.

        Spark sends the query again for each action on the rows and for each task that it retries,
        so the query must not change anything on the server.
        """
        options = {
            "url": self.url,
            # Spark does not find a driver from spark.jars.packages by itself.
            "driver": "org.postgresql.Driver",
            "fetchsize": "5000",
            "query": sql,
        }
        if self.user is not None:
            options["user"] = self.user
        if self.password is not None:
            options["password"] = self.password
        return spark.read.format("jdbc").options(**options).load()


@contextmanager
def postgres_errors() -> Iterator[None]:
    """Turn errors of PostgreSQL and its driver into DemoErrors, without Spark's stack traces."""
    try:
        yield
    except Exception as error:
        complaint = re.search(r"PSQLException: (.+(?:\n  \w+: .+)*)", str(error))
        if complaint is None:
            raise
        raise DemoError(complaint[1]) from error
