package io.sparkpgoutput.lake.verify

import java.time.ZoneOffset

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  GenericInternalRow,
  RowOrdering,
  SpecializedGetters,
  XXH64
}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.pgoutput.{ClonedSession, RowsOfRdd}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame, Encoders, Row, SparkSession}
import org.apache.spark.storage.StorageLevel
import org.apache.spark.unsafe.Platform

import io.sparkpgoutput.lake.copy.{CopySource, SlotSnapshot, TableCopy}
import io.sparkpgoutput.lake.core.TableState
import io.sparkpgoutput.lake.target.{TablePlace, Target}
import io.sparkpgoutput.protocol.Lsn

/**
 * A table at a version of the target that has all transactions below an LSN, and no others.
 *
 * @param version the result of [[Target.version]] at that time
 */
final case class PinnedTable(state: TableState, version: String) {

  /**
   * Compares the table with that of the server. The rows of the server are read as a copy reads them, so a value is
   * the same on both sides if a copy would write it. It uses at most half of the cores, so that the stream has the
   * other half.
   *
   * @throws LakeException if the table was truncated, rewritten or altered since the snapshot
   */
  def compare(
      session: SparkSession,
      source: CopySource,
      target: Target,
      snapshot: SlotSnapshot
  ): TableDifference = {
    val clone = ClonedSession.of(session)
    val table = state.table
    Using.resource(TableCopy.join(snapshot, source, table)) { copy =>
      clone.sparkContext.setJobDescription(s"verification of ${table.source.name}")
      val tasks = math.max(1, clone.sparkContext.defaultParallelism / 2)
      new RowComparison(table.schema, table.source.key, tasks)
        .compare(copy.rows(clone), rows(clone, target))
    }
  }

  /**
   * Returns the rows of the version, in the columns and types that a copy has now. Columns that users
   * have added, or that the server does not have any more, are left out, and so are rows that are marked as deleted,
   * and versions that are not current.
   */
  private def rows(session: SparkSession, target: Target): DataFrame = {
    val all = target.readVersion(session, state.target, version)
    // In Iceberg, a version from before the job has added the column does not have it, and no such row is marked.
    val end = state.table.endLsn.filter(name => all.columns.exists(_.equalsIgnoreCase(name)))
    val current = end.fold(all)(name => all.where(col(name).isNull))
    current.select(state.table.schema.map { field =>
      // Iceberg has the columns of the version, which can have other names and narrower types.
      val names = field.name +: state.formerNames.collect { case (former, field.name) =>
        former
      }.toSeq
      val column: Column = names.flatMap(name =>
        current.schema.fieldNames.find(_.equalsIgnoreCase(name))
      ).headOption.fold(lit(null))(name => col(TablePlace.quoted(name)))
      column.cast(field.dataType).as(field.name)
    }: _*)
  }
}

/**
 * What a verification has found out about a table.
 *
 * @param table the name at the server
 * @param lsn both sides have the transactions with lower commit LSNs, and no others
 * @param outcome the difference, or why the table was not compared, a sentence
 * @param canPass whether a verification with another snapshot can have another outcome
 */
final case class VerifiedTable(
    table: String,
    target: String,
    lsn: Long,
    outcome: Either[String, TableDifference],
    canPass: Boolean = false
) {

  /** The result in one word. */
  def result: String = outcome match {
    case Right(difference) => if (difference.isNone) "equal" else "different"
    case Left(_)           => "skipped"
  }
}

object VerifiedTable {
  private val schema = new StructType()
    .add("table", StringType)
    .add("target", StringType)
    .add("result", StringType)
    .add("reason", StringType)
    .add("lsn", StringType)
    .add("server_rows", LongType)
    .add("target_rows", LongType)
    .add("only_at_server", LongType)
    .add("only_in_target", LongType)
    .add("different", LongType)
    .add("keys", ArrayType(new StructType().add("kind", StringType).add("key", StringType)))

  /** Returns a row for each table. */
  def toDataFrame(session: SparkSession, tables: Seq[VerifiedTable]): DataFrame =
    session.createDataFrame(tables.map(row).asJava, schema)

  /** Writes tables as text, a line for each. */
  def toText(session: SparkSession, tables: Seq[VerifiedTable]): String =
    toDataFrame(session, tables).toJSON.collect().mkString("\n")

  /** Reads what [[toText]] has written, as [[toDataFrame]] gives it. */
  def fromText(session: SparkSession, text: String): DataFrame = session.read.schema(schema)
    .json(session.createDataset(text.linesIterator.toSeq)(Encoders.STRING))

  private def row(table: VerifiedTable): Row = {
    val name = Seq[Any](table.table, table.target, table.result)
    val lsn = Lsn.format(table.lsn)
    Row.fromSeq(name ++ (table.outcome match {
      case Left(reason) => Seq[Any](reason, lsn, null, null, null, null, null, null)
      case Right(difference) =>
        import difference.{keys => _, _}
        val keys = difference.keys.map(key => Row(key.kind, key.key))
        Seq[Any](null, lsn, serverRows, targetRows, onlyServer, onlyTarget, different, keys)
    }))
  }
}

/**
 * Compares the rows of two DataFrames with the same columns. It reads both once and hashes them by ranges
 * of keys. If ranges differ, it reads both again and compares the rows in these ranges. Both must have the
 * same rows each time.
 *
 * Rows without a key are compared as a multiset: all columns are the key.
 *
 * @param key the names of the columns that identify a row; empty if there are none
 * @param tasks the number of tasks that read at the same time, at most, so that other work has cores left
 */
final class RowComparison(schema: StructType, key: Seq[String], tasks: Int) {
  import RowComparison._

  private val keyColumns = if (key.isEmpty) schema.indices else key.map(schema.fieldIndex)
  private val keySchema = StructType(keyColumns.map(schema(_)))
  private val keyHash = new RowHash(schema, keyColumns)
  private val rowHash = new RowHash(schema, schema.indices)

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
    val (keyHash, rowHash) = (this.keyHash, this.rowHash)
    read(rows).aggregate(KeyRanges.empty)(
      (ranges, row) => ranges.add(keyHash.of(row), rowHash.of(row)),
      (ranges, others) => ranges.add(others)
    )
  }

  /** Returns the rows whose keys are in some ranges: their hashes, and their keys. */
  private def inRanges(rows: DataFrame, wanted: Array[Boolean], count: Long): DataFrame = {
    val (keyHash, rowHash) = (this.keyHash, this.rowHash)
    val (rowLength, keyLength) = (schema.length, keySchema.length)
    val withKey = rows.select(col("*"), struct(keySchema.map(named): _*))
    val hashes = read(withKey).mapPartitions { rows =>
      rows.map(row => row -> keyHash.of(row))
        .filter { case (_, key) => wanted(KeyRanges.range(key)) }
        .map[InternalRow] { case (row, key) =>
          val values = row.getStruct(rowLength, keyLength).copy()
          new GenericInternalRow(Array[Any](key, rowHash.of(row), count, values))
        }
    }
    RowsOfRdd.toDataFrame(rows.sparkSession, hashes, hashed)
  }

  private def read(rows: DataFrame): RDD[InternalRow] = RowsOfRdd.of(rows).coalesce(tasks)

  private def hashed = new StructType()
    .add(Key, LongType)
    .add(HashOfRow, LongType)
    .add(Count, LongType)
    .add(Values, keySchema)

  /** Returns for each key with a difference how many of its rows are only on one side. */
  private def byKey(rows: DataFrame): DataFrame = {
    val surplus = col(Count)
    rows
      .groupBy(Key, HashOfRow)
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
          if (row.getLong(1) == 0) "only at the server"
          else if (row.getLong(0) == 0) "only in the target"
          else "different"
        DifferingKey(kind, row.getString(2))
      }
  }
}

private object RowComparison {
  final private val MostKeys = 20
  final private val MostCharacters = 300
  final private val Key = "key"
  final private val HashOfRow = "row"
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

/**
 * The hash of some columns of a row. Equal values have equal hashes, whatever has read or written them.
 * NaN is NaN and -0 is 0, as in comparisons by PostgreSQL and by Spark. The order of a map does not
 * count. NULL differs from every value, unlike in the function `xxhash64` of Spark.
 *
 * @param columns the ordinals of the columns
 */
final private class RowHash(schema: StructType, columns: Seq[Int]) extends Serializable {
  private val ordinals = columns.toArray
  private val types = ordinals.map(schema(_).dataType)

  def of(row: InternalRow): Long = {
    var hash = RowHash.Seed
    var column = 0
    while (column < ordinals.length) {
      hash = RowHash.cell(row, ordinals(column), types(column), hash)
      column += 1
    }
    hash
  }
}

private object RowHash {
  final private val Seed = 42L
  final private val IsNull = 0
  final private val IsValue = 1

  private def cell(row: SpecializedGetters, at: Int, dataType: DataType, seed: Long): Long =
    if (row.isNullAt(at)) XXH64.hashInt(IsNull, seed)
    else value(row, at, dataType, XXH64.hashInt(IsValue, seed))

  private def value(row: SpecializedGetters, at: Int, dataType: DataType, seed: Long): Long =
    dataType match {
      case BooleanType            => XXH64.hashInt(if (row.getBoolean(at)) 1 else 0, seed)
      case ByteType               => XXH64.hashInt(row.getByte(at).toInt, seed)
      case ShortType              => XXH64.hashInt(row.getShort(at).toInt, seed)
      case IntegerType | DateType => XXH64.hashInt(row.getInt(at), seed)
      case LongType | TimestampType | TimestampNTZType => XXH64.hashLong(row.getLong(at), seed)
      case FloatType                                   => double(row.getFloat(at).toDouble, seed)
      case DoubleType                                  => double(row.getDouble(at), seed)
      case decimal: DecimalType =>
        val unscaled = row.getDecimal(at, decimal.precision, decimal.scale).toJavaBigDecimal
        bytes(unscaled.setScale(decimal.scale).unscaledValue.toByteArray, seed)
      case BinaryType => bytes(row.getBinary(at), seed)
      case _: StringType =>
        val text = row.getUTF8String(at)
        XXH64.hashUnsafeBytes(text.getBaseObject, text.getBaseOffset, text.numBytes, seed)
      case VariantType => bytes(row.getVariant(at).toJson(ZoneOffset.UTC).getBytes("UTF-8"), seed)
      case StructType(fields) =>
        val struct = row.getStruct(at, fields.length)
        fields.indices.foldLeft(seed)((hash, field) =>
          cell(struct, field, fields(field).dataType, hash)
        )
      case ArrayType(element, _) =>
        val array = row.getArray(at)
        (0 until array.numElements())
          .foldLeft(XXH64.hashInt(array.numElements(), seed))((hash, index) =>
            cell(array, index, element, hash)
          )
      case MapType(key, value, _) =>
        val map = row.getMap(at)
        val entries = (0 until map.numElements()).map(index =>
          cell(map.valueArray(), index, value, cell(map.keyArray(), index, key, Seed))
        )
        XXH64.hashLong(entries.sum, XXH64.hashInt(entries.length, seed))
      case other => throw new IllegalStateException(s"No target has columns of type ${other.sql}.")
    }

  private def double(value: Double, seed: Long) =
    XXH64.hashLong(if (value == 0) 0L else java.lang.Double.doubleToLongBits(value), seed)

  private def bytes(value: Array[Byte], seed: Long) =
    XXH64.hashUnsafeBytes(value, Platform.BYTE_ARRAY_OFFSET.toLong, value.length, seed)
}

/**
 * The number of rows of one side in each range of keys, and the sum of their hashes. The ranges are
 * ranges of the hashes of keys, so all of them have about the same size. The order of the rows does
 * not matter. Each copy of a row counts.
 */
final private class KeyRanges(private val counts: Array[Long], private val sums: Array[Long])
    extends Serializable {

  def add(key: Long, row: Long): KeyRanges = {
    val range = KeyRanges.range(key)
    counts(range) += 1
    sums(range) += row
    this
  }

  /** Adds the rows of another part of the same side. */
  def add(other: KeyRanges): KeyRanges = {
    (0 until KeyRanges.Count).foreach { range =>
      counts(range) += other.counts(range)
      sums(range) += other.sums(range)
    }
    this
  }

  def rows: Long = counts.sum

  /** Returns for each range whether the other side has other rows. */
  def differing(other: KeyRanges): Array[Boolean] = Array.tabulate(KeyRanges.Count)(range =>
    counts(range) != other.counts(range) || sums(range) != other.sums(range)
  )
}

private object KeyRanges {
  final private val Bits = 12
  final private val Count = 1 << Bits

  def empty: KeyRanges = new KeyRanges(new Array[Long](Count), new Array[Long](Count))

  /** The range of a key, by its hash. */
  def range(key: Long): Int = (key >>> (java.lang.Long.SIZE - Bits)).toInt
}

/**
 * The difference between the rows of a table and the rows of the server.
 *
 * @param serverRows the number of rows at the server
 * @param targetRows the number of rows in the target
 * @param onlyServer the number of rows whose keys the target lacks
 * @param onlyTarget
 *   the number of rows whose keys the server lacks, and of rows that the target has too often
 * @param different the number of rows that have the same key and other values
 * @param keys the first keys of such rows
 */
final case class TableDifference(
    serverRows: Long,
    targetRows: Long,
    onlyServer: Long,
    onlyTarget: Long,
    different: Long,
    keys: Seq[DifferingKey]
) {
  def isNone: Boolean = onlyServer == 0 && onlyTarget == 0 && different == 0
}

/**
 * The key of a row that differs.
 *
 * @param key the columns of the key as JSON; all columns if the table has no key
 */
final case class DifferingKey(kind: String, key: String)
