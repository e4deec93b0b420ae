package io.sparkpgoutput.lake.apply

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.StreamMessages.{Column, Unchanged}
import io.sparkpgoutput.changes.{StreamMessages, TableName}
import io.sparkpgoutput.lake.catalog.{MirroredTable, ReplicaIdentity, SourceTable, TableMode}
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.target.{ColumnChange, TablePlace, Target, TargetWrite}
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * A table of a server, and what the server sends when it changes. The code is slow and obvious. A value that
 * begins with T is TOASTed.
 *
 * @param key the columns of its primary key, or none
 * @param dataTypes the columns of the target that come from the server, also those that the server adds later
 */
final class ServerTable(
    val oid: Long,
    val name: String,
    val identity: ReplicaIdentity,
    var key: Seq[String],
    var columns: Seq[(String, Long)],
    var dataTypes: Seq[(String, DataType)]
) {
  type Row = Seq[String]
  val rows: mutable.ArrayBuffer[Row] = mutable.ArrayBuffer.empty

  /** The number of each row, which it keeps when it is updated. */
  private val numbers = mutable.ArrayBuffer.empty[Long]
  private var lastNumber = 0L

  /** The changes of rows. */
  val changes: mutable.ArrayBuffer[RowChange] = mutable.ArrayBuffer.empty

  /** The LSN of the commit of the next changes. */
  var commit = 0L

  /** The LSNs of the commits that truncated the table. */
  val truncations: mutable.ArrayBuffer[Long] = mutable.ArrayBuffer.empty

  /** The changes before the first of them. */
  def changesBeforeTruncate: Seq[RowChange] = changes.take(truncatedAt).toSeq
  private var truncatedAt = 0

  /** The mode of the table in the target. */
  var mode: TableMode = TableMode.Mirror
  def marks: Boolean = mode == TableMode.Marking
  def hasVersions: Boolean = mode == TableMode.Versions

  /** The changes of columns. */
  val altered: mutable.ArrayBuffer[ColumnChange] = mutable.ArrayBuffer.empty

  /** The column of the target for each name that the server has changed. */
  var formerNames: Map[String, String] = Map.empty

  val isFull: Boolean = identity == ReplicaIdentity.Full

  def names: Seq[String] = columns.map(_._1)
  def at(name: String): Int = names.indexOf(name)

  /** The values of the key, as PostgreSQL compares them: 1.0 and 1.00 are the same number. */
  def keyOf(row: Row): Seq[Any] =
    key.map(name => ServerValues.inKey(value(name, row(at(name)))))

  /** A value with the type of the target. Two values are equal if they are equal in PostgreSQL. */
  def value(name: String, text: String): Any = ServerValues.value(dataTypes.toMap.apply(name), text)

  def target: MirroredTable = MirroredTable(
    SourceTable(
      oid,
      TableName("public", name),
      columns = Nil,
      unsent = Nil,
      key,
      identity,
      SourceTable.Operations,
      rowFilter = None,
      fileNode = 0,
      isPartitioned = false,
      leaves = Nil,
      horizon = 0
    ),
    name,
    StructType(dataTypes.map { case (column, dataType) => StructField(column, dataType) }),
    TypeRegistry(),
    mode
  )

  def relation: Array[Byte] = StreamMessages.relation(
    columns.map { case (column, typeId) => Column(column, isFull || key.contains(column), typeId) },
    oid,
    name,
    identity = identity.code
  )

  def insert(row: Row): Array[Byte] = {
    rows += row
    lastNumber += 1
    numbers += lastNumber
    changes += RowChange(commit, lastNumber, None, Some(named(row)))
    StreamMessages.insert(row, oid = oid)
  }

  private def named(row: Row) = names.zip(row).toMap

  def delete(row: Row): Array[Byte] = {
    val index = rows.indexOf(row)
    rows.remove(index)
    // Some tests put rows without a number into `rows`.
    if (index < numbers.length)
      changes += RowChange(commit, numbers.remove(index), Some(named(row)), None)
    if (isFull) StreamMessages.delete(old = row, oid = oid)
    else StreamMessages.delete(key = keyTuple(row), oid = oid)
  }

  def update(before: Row, after: Row): Array[Byte] = {
    val index = rows.indexOf(before)
    rows(index) = after
    val sent = after.zip(before).map { case (now, then) =>
      if (ServerValues.isToasted(now) && now == then) Unchanged else now
    }
    if (index < numbers.length) {
      // If a column of the key is unchanged, the old key that is sent has its value.
      val unsent =
        if (isFull) Nil
        else names.zip(sent).collect { case (name, Unchanged) if !key.contains(name) => name }
      changes += RowChange(
        commit,
        numbers(index),
        Some(named(before)),
        Some(named(after)),
        unsent.toSet
      )
    }
    if (isFull) StreamMessages.update(sent, old = before, oid = oid)
    else {
      val isKey = names.map(key.contains)
      // The server compares bytes: 1.0 and 1.00 are two keys. A TOASTed key is always sent.
      val moves = before.zip(after).zip(isKey).exists { case ((then, now), inKey) =>
        inKey && (then != now || ServerValues.isToasted(then))
      }
      StreamMessages.update(sent, key = if (moves) keyTuple(before) else Nil, oid = oid)
    }
  }

  private def keyTuple(row: Row) =
    names.zip(row).map { case (column, text) => if (key.contains(column)) text else null }

  def truncate(): Unit = {
    if (truncations.isEmpty) truncatedAt = changes.length
    truncations += commit
    numbers.zip(rows).foreach { case (number, row) =>
      changes += RowChange(commit, number, Some(named(row)), None, byTruncate = true)
    }
    rows.clear()
    numbers.clear()
  }

  /** Adds a column that the target does not have. */
  def add(column: String, typeId: Long, dataType: DataType): Unit = {
    dataTypes :+= column -> dataType
    altered += ColumnChange.Add(column, dataType)
    add(column, typeId)
  }

  def rename(from: String, to: String): Unit = {
    def renamed(name: String) = if (name == from) to else name
    key = key.map(renamed)
    columns = columns.map { case (name, typeId) => renamed(name) -> typeId }
    dataTypes = dataTypes.map { case (name, dataType) => renamed(name) -> dataType }
    formerNames = formerNames.map { case (name, now) => name -> renamed(now) } + (from -> to)
    altered += ColumnChange.Rename(from, to)
  }

  def widen(column: String, typeId: Long, dataType: DataType): Unit = {
    columns = columns.map { case (name, before) =>
      name -> (if (name == column) typeId else before)
    }
    dataTypes =
      dataTypes.map { case (name, before) => name -> (if (name == column) dataType else before) }
    altered += ColumnChange.Widen(column, dataType)
  }

  /** Drops a column. From then on, only the target has the column. */
  def forget(column: String): Unit = {
    drop(column)
    dataTypes = dataTypes.filter(_._1 != column)
    formerNames += column -> column
  }

  def add(column: String, typeId: Long): Unit = {
    columns :+= column -> typeId
    rows.mapInPlace(_ :+ null)
    ()
  }

  def drop(column: String): Unit = {
    val index = at(column)
    columns = columns.patch(index, Nil, 1)
    rows.mapInPlace(_.patch(index, Nil, 1))
    ()
  }

  /** Makes the table in a target, with the mark 1. */
  def madeIn(spark: SparkSession, copy: Target): MarkName = {
    val mark = MarkName("job", oid, 0)
    if (copy.exists(name)) copy.drop(name)
    copy.create(name, target.schema, key, Map.empty)
    copy.commit(spark, name, mark, None, 1)(TargetWrite.Append(copy.read(spark, name).limit(0)))
    mark
  }

  /** The rows as sorted texts. Their values have the types of the target. */
  def content: Seq[String] = ServerTable.sorted(rows.toSeq.map { row =>
    names.zip(row).map { case (column, text) => value(column, text) }
  })

  /** The rows of the table in a target, in the form of [[content]]. */
  def contentOf(copy: Target, spark: SparkSession, where: String = "true"): Seq[String] =
    ServerTable.sorted(
      copy.read(spark, name).where(where)
        .select(names.map(column => col(TablePlace.quoted(column))): _*)
        .collect().toSeq.map(_.toSeq)
    )
}

/**
 * What a transaction did to a row.
 *
 * @param commit the LSN of the transaction
 * @param number the number of the row
 * @param before its values by the names of the columns; None for an INSERT
 * @param after its values; None for a DELETE or a TRUNCATE
 * @param unsent the columns whose values the server did not send
 * @param byTruncate whether the server sent a TRUNCATE, and no message about this row
 */
final case class RowChange(
    commit: Long,
    number: Long,
    before: Option[Map[String, String]],
    after: Option[Map[String, String]],
    unsent: Set[String] = Set.empty,
    byTruncate: Boolean = false
)

object ServerTable {
  def sorted(rows: Seq[Seq[Any]]): Seq[String] = rows.map(_.mkString("|")).sorted
}
