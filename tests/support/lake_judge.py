"""Compares tables of a lake with those of the server, by a reader that is not of this project."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from psycopg import sql
from pyspark.sql import SparkSession

from support import lake_history
from support.lake_job import LakeJob
from support.lake_options import NO_OPTIONS, hash_rows
from support.servers import Server


def assert_equal(
    spark: SparkSession, job: LakeJob, tables: Mapping[str, str] = lake_history.TABLES
) -> None:
    """Check that the tables of the target are those of the server."""
    found = differences(spark, job, tables)
    assert not found, "\n".join(f"{table}: {text}" for table, text in found.items())


def differences(spark: SparkSession, job: LakeJob, tables: Mapping[str, str]) -> dict[str, str]:
    """Return the tables that differ, with some of the rows that only one side has.

    This compares only the rows and columns that the publication and the options of a table let
    through. It ignores rows that are marked as deleted, and versions that have ended.

    Parameters
    ----------
    tables : mapping of str to str
        The names of the tables in the target, by those of the server.
    """
    job.use(spark)
    found = {}
    for source, name in tables.items():
        columns, there = wanted(job, source, *published(job.server, source))
        here = lake_rows(spark, job.sql_name(name), columns)
        if there != here:
            missing, surplus = there - here, here - there
            found[source] = (
                f"{missing.total()} rows only at the server, such as {list(missing)[:2]}; "
                f"{surplus.total()} rows only in the lake, such as {list(surplus)[:2]}"
            )
    return found


def wanted(
    job: LakeJob, table: str, sent: Iterable[str], condition: str = "true"
) -> tuple[list[str], Counter[tuple[object, ...]]]:
    """Return the columns of a table that its options let through, and the rows for the target.

    Parameters
    ----------
    sent : iterable of str
        The columns that the server sends.
    condition : str, optional
        The row filter.
    """
    options = job.table_options.get(table, NO_OPTIONS)
    columns = [column for column in sent if column not in options.excludeColumns]
    rows = server_rows(job.server, table, columns, condition).elements()
    return columns, Counter(hash_rows(rows, columns, options))


def columns_of(server: Server, table: str) -> list[str]:
    """Return the names of a table's columns."""
    with server.connect() as connection:
        cursor = connection.execute(
            sql.SQL("SELECT * FROM {} LIMIT 0").format(sql.Identifier(table))
        )
        return [column.name for column in cursor.description or ()]


def published(server: Server, table: str) -> tuple[list[str], str]:
    """Return the column list and the row filter of a table that is in one publication."""
    columns = columns_of(server, table)
    if server.version < 15:
        return columns, "true"
    with server.connect() as connection:
        query = "SELECT attnames, rowfilter FROM pg_publication_tables WHERE tablename = %s"
        found = connection.execute(query, [table]).fetchone()
    listed, condition = found or (columns, None)
    return [column for column in columns if column in listed], condition or "true"


def server_rows(
    server: Server, table: str, columns: list[str] | None = None, condition: str = "true"
) -> Counter[tuple[object, ...]]:
    """Count the rows of a table at the server, as psycopg reads them."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns or columns_of(server, table)))
    with server.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        query = sql.SQL("SELECT {} FROM {} WHERE ").format(names, sql.Identifier(table))
        rows = connection.execute(query.as_bytes(connection) + condition.encode())
        return Counter(tuple(map(plain, row)) for row in rows)


def lake_rows(spark: SparkSession, table: str, columns: list[str]) -> Counter[tuple[object, ...]]:
    """Count the rows of a table in the lake, without deleted rows and ended versions."""
    quoted = [f"`{column.replace('`', '``')}`" for column in columns]
    living = spark.sql(f"SELECT * FROM {table}")
    for column, condition in (("_deleted_at", "_deleted_at IS NULL"), ("_to_lsn", "_is_current")):
        if column in living.columns:
            living = living.where(condition)
    return Counter(tuple(map(plain, row)) for row in living.select(*quoted).collect())


def properties(spark: SparkSession, job: LakeJob, table: str) -> dict[str, str]:
    """Return the properties of a table in the lake."""
    rows = spark.sql(f"SHOW TBLPROPERTIES {job.sql_name(table)}").collect()
    return {row.key: row.value for row in rows}


def plain(value: Any) -> object:  # noqa: ANN401
    """Return a value in a form that is the same for both readers, also for NaN and times."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0  # -0.0 is 0.0 in both
    if isinstance(value, datetime):
        return value.astimezone().timestamp() if value.tzinfo else value.timestamp()
    if isinstance(value, list):
        return tuple(map(plain, value))
    return value
