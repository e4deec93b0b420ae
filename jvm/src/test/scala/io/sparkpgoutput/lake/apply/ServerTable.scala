package io.sparkpgoutput.lake.apply

import scala.collection.mutable

import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.StreamMessages.{Column, Unchanged}
import io.sparkpgoutput.changes.{StreamMessages, TableName}
import io.sparkpgoutput.lake.catalog.{MirroredTable, ReplicaIdentity, SourceTable}
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * A table of a server, and what the server sends when it changes: slow and obvious. A value that begins
 * with T is TOASTed.
 *
 * @param key the columns of its primary key, or none
 * @param dataTypes the columns of the target, those too that the server's table does not have now
 */
final class ServerTable(
    val oid: Long,
    val name: String,
    val identity: ReplicaIdentity,
    val key: Seq[String],
    var columns: Seq[(String, Long)],
    val dataTypes: Seq[(String, DataType)]
) {
  type Row = Seq[String]
  val rows: mutable.ArrayBuffer[Row] = mutable.ArrayBuffer.empty
  val isFull: Boolean = identity == ReplicaIdentity.Full

  def names: Seq[String] = columns.map(_._1)
  def at(name: String): Int = names.indexOf(name)

  /** The values of the key, as PostgreSQL compares them: 1.0 and 1.00 are the same number. */
  def keyOf(row: Row): Seq[Any] = key.map(name => value(name, row(at(name))))

  /** A value with the type of the target, which is equal if PostgreSQL's are. */
  def value(name: String, text: String): Any = dataTypes.toMap.apply(name) match {
    case _ if text == null    => null
    case IntegerType          => text.toInt
    case LongType             => text.toLong
    case DoubleType           => text.toDouble
    case decimal: DecimalType => new java.math.BigDecimal(text).setScale(decimal.scale)
    case _                    => text
  }

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
    TypeRegistry()
  )

  def relation: Array[Byte] = StreamMessages.relation(
    columns.map { case (column, typeId) => Column(column, isFull || key.contains(column), typeId) },
    oid,
    name,
    identity = identity.code
  )

  def insert(row: Row): Array[Byte] = {
    rows += row
    StreamMessages.insert(row, oid = oid)
  }

  def delete(row: Row): Array[Byte] = {
    rows.remove(rows.indexOf(row))
    if (isFull) StreamMessages.delete(old = row, oid = oid)
    else StreamMessages.delete(key = keyTuple(row), oid = oid)
  }

  def update(before: Row, after: Row): Array[Byte] = {
    rows(rows.indexOf(before)) = after
    val sent = after.zip(before).map { case (now, then) =>
      if (now != null && now.startsWith("T") && now == then) Unchanged else now
    }
    if (isFull) StreamMessages.update(sent, old = before, oid = oid)
    else {
      val isKey = names.map(key.contains)
      // The server compares bytes: 1.0 and 1.00 are two keys. A TOASTed key is always sent.
      val moves = before.zip(after).zip(isKey).exists { case ((then, now), inKey) =>
        inKey && (then != now || then.startsWith("T"))
      }
      StreamMessages.update(sent, key = if (moves) keyTuple(before) else Nil, oid = oid)
    }
  }

  private def keyTuple(row: Row) =
    names.zip(row).map { case (column, text) => if (key.contains(column)) text else null }

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

  /** The rows with the types of the target, in the order of the server's columns, in some order. */
  def content: Seq[String] = ServerTable.sorted(rows.toSeq.map { row =>
    names.zip(row).map { case (column, text) => value(column, text) }
  })
}

object ServerTable {
  def sorted(rows: Seq[Seq[Any]]): Seq[String] = rows.map(_.mkString("|")).sorted
}
