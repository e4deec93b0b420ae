"""The targets of the JVM, for tests in Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession

from support import scala

# Py4J sends a number as a Long only if it does not fit into an Integer.
LSN = 1 << 32

# The exceptions of a commit that conflicts with another commit, in Delta and in Iceberg.
_CONFLICT = re.compile(
    r"\.(Concurrent\w+|(Metadata|Protocol)Changed|Commit\w*Failed|Validation)Exception$"
)


class LakeTarget:
    """A target of a session.

    Parameters
    ----------
    spark : SparkSession
        The session.
    name : str
        A namespace or a folder.
    table_format : str, optional
        ``delta`` or ``iceberg``.
    """

    def __init__(self, spark: SparkSession, name: str, table_format: str | None = None) -> None:
        self.spark = spark
        jvm: Any = spark._jvm  # Py4J's objects have no types
        self.jvm = jvm
        self.classes = self.jvm.io.sparkpgoutput.lake.target
        self.target = self.classes.Targets.of(
            spark._jsparkSession, name, self.jvm.scala.Option.apply(table_format)
        )

    def sql_name(self, table: str) -> str:
        return str(self.target.sqlName(table))

    def tables(self) -> list[str]:
        return list(self.jvm.scala.jdk.javaapi.CollectionConverters.asJava(self.target.tables()))

    def properties(self, table: str) -> dict[str, str]:
        converters = self.jvm.scala.jdk.javaapi.CollectionConverters
        return dict(converters.asJava(self.target.properties(table)))

    def create(
        self,
        table: str,
        schema: str,
        key: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        struct = self.jvm.org.apache.spark.sql.types.StructType.fromDDL(schema)
        columns, given = scala.seq(self.jvm, key), scala.map_of(self.jvm, properties or {})
        no_shape = self.jvm.io.sparkpgoutput.lake.catalog.TableShape.none()
        self.target.create(table, struct, columns, given, no_shape)

    def alter(self, table: str, change: str, name: str, to: str) -> None:
        """Make one change of the columns: Add, Rename or Widen."""
        made = getattr(self.classes, f"ColumnChange${change}")
        data_type = self.jvm.org.apache.spark.sql.types.DataType
        to_argument = to if change == "Rename" else data_type.fromDDL(to)
        self.target.alter(table, scala.seq(self.jvm, [made(name, to_argument)]))

    def mark_name(self, job: str = "job", oid: int = LSN, generation: int = 0) -> JavaObject:
        return self.jvm.io.sparkpgoutput.lake.core.MarkName(job, oid, generation)

    def mark(self, table: str) -> int | None:
        found = self.target.mark(table, self.mark_name())
        return int(found.get()) if found.isDefined() else None

    def read(self, table: str) -> DataFrame:
        return DataFrame(self.target.read(self.spark._jsparkSession, table), self.spark)

    def append(self, table: str, rows: str, expected: int | None, lsn: int) -> None:
        self._commit("Append", table, rows, expected, lsn)

    def overwrite(self, table: str, rows: str, expected: int | None, lsn: int) -> None:
        self._commit("Overwrite", table, rows, expected, lsn)

    def replace(self, table: str, rows: str, generation: int, lsn: int) -> None:
        """Commit a new copy of a table."""
        no_shape = self.jvm.scala.Option.empty()
        self._commit("Replace", table, rows, None, lsn, no_shape, generation=generation)

    def drop(self, table: str) -> None:
        self.target.drop(table)

    def generation(self, table: str) -> int | None:
        found = self.target.generation(table, "job", LSN)
        return int(found.get()) if found.isDefined() else None

    def merge(
        self,
        table: str,
        rows: str,
        expected: int | None,
        lsn: int,
        condition: str = "t.id = s.id",
        clauses: str = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        session: JavaObject | None = None,
    ) -> None:
        more = (condition, clauses, self.jvm.scala.Option.empty())
        self._commit("Merge", table, rows, expected, lsn, *more, session=session)

    def _commit(
        self,
        kind: str,
        table: str,
        rows: str,
        expected: int | None,
        lsn: int,
        *more: object,
        generation: int = 0,
        session: JavaObject | None = None,
    ) -> None:
        session = session or self.spark._jsparkSession.cloneSession()
        write = getattr(self.classes, f"TargetWrite${kind}")(session.sql(rows), *more)
        mark = self.jvm.scala.Option.apply(expected)
        self.target.commit(session, table, self.mark_name(generation=generation), mark, lsn, write)


def compact(target: LakeTarget, table: str, *, expire_before: str | None = None) -> None:
    """Compact the table. With `expire_before`, also remove Iceberg's older snapshots."""
    name = target.sql_name(table)
    target.spark.sql(compaction(target.target.format(), name))
    if expire_before and target.target.format() == "iceberg":
        catalog, argument = _of_procedure(name)
        target.spark.sql(
            f"CALL {catalog}.system.expire_snapshots({argument}, "
            f"older_than => TIMESTAMP '{expire_before}', retain_last => 1)"
        )


def compaction(format: str, name: str) -> str:
    """Return the statement that compacts a table with a name in SQL."""
    if format == "delta":
        return f"OPTIMIZE {name}"
    catalog, argument = _of_procedure(name)
    options = "options => map('rewrite-all', 'true')"
    return f"CALL {catalog}.system.rewrite_data_files({argument}, {options})"


def _of_procedure(name: str) -> tuple[str, str]:
    """Return the catalog of a table of Iceberg, and the argument that names the table."""
    catalog, table = name.split(".", 1)
    return catalog, f"table => '{table.replace('`', '')}'"


def is_compacted(target: LakeTarget, table: str, *, expire_before: str | None = None) -> bool:
    """Compact the table as `compact` does. Return False if a commit of a job conflicts."""
    try:
        compact(target, table, expire_before=expire_before)
    except (CapturedException, Py4JJavaError) as error:
        thrown = error.java_exception if isinstance(error, Py4JJavaError) else error._origin
        if not any(_CONFLICT.search(name) for name in _causes(thrown)):
            raise
        return False
    return True


def _causes(thrown: Any) -> list[str]:  # noqa: ANN401
    """Return the classes of an exception of Java and of its causes."""
    found = []
    while thrown is not None:
        found.append(str(thrown.getClass().getName()))
        thrown = thrown.getCause()
    return found
