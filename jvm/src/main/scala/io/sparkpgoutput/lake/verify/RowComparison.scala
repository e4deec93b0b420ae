package io.sparkpgoutput.lake.verify

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, RowOrdering}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.pgoutput.RowsOfRdd
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.storage.StorageLevel

import io.sparkpgoutput.lake.target.TablePlace

/**
 * Compares the rows of two DataFrames with the same columns. It reads both once and hashes them by ranges
 * of keys. If ranges differ, it reads both again and compares the rows in these ranges. Both must have the
 * same rows each time.
 *
 * Rows without a key are compared as a multiset: all columns are the key.
 *
 * @param key the names of the columns that tell rows apart; empty if there are none
 * @param tasks how many tasks read at the same time at the most, so that others have cores left
 */
final class RowComparison(schema: StructType, key: Seq[String], tasks: Int) {
  import RowComparison._

  private val columns = schema.indices
  private val keyColumns = if (key.isEmpty) columns else key.map(schema.fieldIndex)
  private val keySchema = StructType(keyColumns.map(schema(_)))

  def compare(server: DataFrame, target: DataFrame): TableDifference = {
    val there = ranges(server)
    val here = ranges(target)
    val differing = there.differing(here)
    val none = TableDifference(there.rows, here.rows, 0, 0, 0, Nil)
    if (differing.contains(true)) {
      val rows = inRanges(server, differing, 1).unionAll(inRanges(target, differing, -1))
      tell(none, byKey(rows))
    } else none
  }

  private def ranges(rows: DataFrame): KeyRanges = {
    val (schema, keyColumns, columns) = (this.schema, this.keyColumns, this.columns)
    read(rows)
      .mapPartitions { rows =>
        val keys = new RowHash(schema, keyColumns)
        val all = new RowHash(schema, columns)
        val found = KeyRanges.empty
        rows.foreach(row => found.add(keys.of(row), all.of(row)))
        Iterator(found)
      }
      .fold(KeyRanges.empty)(_ add _)
  }

  /** Returns the rows whose keys are in some ranges: their hashes, and their keys. */
  private def inRanges(rows: DataFrame, wanted: Array[Boolean], count: Long): DataFrame = {
    val (schema, keyColumns, columns) = (this.schema, this.keyColumns, this.columns)
    val withKey = rows.select(col("*"), struct(keyColumns.map(at => named(schema(at))): _*))
    val found = read(withKey).mapPartitions { rows =>
      val keys = new RowHash(schema, keyColumns)
      val all = new RowHash(schema, columns)
      rows.map(row => row -> keys.of(row))
        .filter { case (_, key) => wanted(KeyRanges.range(key)) }
        .map[InternalRow] { case (row, key) =>
          val values = row.getStruct(schema.length, keyColumns.length).copy()
          new GenericInternalRow(Array[Any](key, all.of(row), count, values))
        }
    }
    RowsOfRdd.toDataFrame(rows.sparkSession, found, hashed)
  }

  private def read(rows: DataFrame): RDD[InternalRow] = RowsOfRdd.of(rows).coalesce(tasks)

  private def hashed = new StructType()
    .add(Key, LongType)
    .add(Row, LongType)
    .add(Count, LongType)
    .add(Values, keySchema)

  /** Returns for each key with a difference how many of its rows are only on one side. */
  private def byKey(rows: DataFrame): DataFrame = {
    val surplus = col(Count)
    rows
      .groupBy(Key, Row)
      .agg(sum(surplus).as(Count), first(Values).as(Values))
      .where(surplus =!= 0)
      .groupBy(Key)
      .agg(
        sum(greatest(surplus, lit(0L))).as(Server),
        sum(greatest(-surplus, lit(0L))).as(Target),
        first(Values).as(Values)
      )
  }

  private def tell(none: TableDifference, differing: DataFrame): TableDifference = {
    val kept = differing.persist(StorageLevel.MEMORY_AND_DISK)
    try {
      val both = least(col(Server), col(Target))
      val sums = kept.agg(sum(both), sum(col(Server) - both), sum(col(Target) - both)).head()
      def count(column: Int) = if (sums.isNullAt(column)) 0L else sums.getLong(column)
      none.copy(
        different = count(0),
        onlyServer = count(1),
        onlyTarget = count(2),
        keys = firstKeys(kept)
      )
    } finally kept.unpersist(): Unit
  }

  private def firstKeys(differing: DataFrame): Seq[DifferingKey] = {
    val ordered = keySchema.filter(field => RowOrdering.isOrderable(field.dataType))
      .map(field => col(s"$Values.${TablePlace.quoted(field.name)}"))
    val shown = left(to_json(col(Values), NullsToo), lit(MostCharacters))
    differing
      .orderBy(ordered: _*)
      .limit(MostKeys)
      .select(col(Server), col(Target), shown)
      .collect()
      .toSeq
      .map { row =>
        val kind =
          if (row.getLong(1) == 0) DifferingKey.OnlyServer
          else if (row.getLong(0) == 0) DifferingKey.OnlyTarget
          else DifferingKey.Different
        DifferingKey(kind, row.getString(2))
      }
  }
}

private object RowComparison {
  final private val MostKeys = 20
  final private val MostCharacters = 300
  final private val Key = "key"
  final private val Row = "row"
  final private val Count = "count"
  final private val Server = "server"
  final private val Target = "target"
  final private val Values = "values"
  private val NullsToo = new java.util.HashMap[String, String](
    java.util.Map.of("ignoreNullFields", "false")
  )

  private def named(field: StructField): Column =
    col(TablePlace.quoted(field.name)).as(field.name)
}
