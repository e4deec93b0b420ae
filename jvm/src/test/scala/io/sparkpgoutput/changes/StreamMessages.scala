package io.sparkpgoutput.changes

import io.sparkpgoutput.protocol.Fields.Fields
import io.sparkpgoutput.protocol.{Fields, MessageEncoder, Messages}

/**
 * Messages of a stream. A change, a Relation and a Type with an xid are in a stream block. Those without an
 * xid are outside.
 */
object StreamMessages {
  final val Table = 16402L

  /** A column of a table. A key column is part of the replica identity. */
  final case class Column(name: String, isKey: Boolean = false, typeId: Long = 25)

  val columns: Seq[Column] = Seq(Column("id", isKey = true))

  def begin(xid: Long, lsn: Long): Array[Byte] =
    outside("BEGIN", "lsn" -> lsn, "timestamp" -> timestamp(lsn), "xid" -> xid)

  def commit(lsn: Long): Array[Byte] = outside("COMMIT", committed(lsn): _*)

  def origin(name: String): Array[Byte] = outside("ORIGIN", "lsn" -> 0L, "origin" -> name)

  def relation(
      columns: Seq[Column] = columns,
      oid: Long = Table,
      name: String = "t",
      namespace: String = "public",
      xid: Long = 0,
      identity: Char = 'd'
  ): Array[Byte] = placed(
    xid,
    "RELATION",
    "relation_id" -> oid,
    "relation" -> Fields(
      "namespace" -> namespace,
      "name" -> name,
      "replica_identity" -> identity.toString,
      "columns" -> columns.map { column =>
        Fields(
          "key" -> column.isKey,
          "name" -> column.name,
          "type_id" -> column.typeId,
          "type_modifier" -> -1
        )
      }
    )
  )

  def pgType(oid: Long, namespace: String, name: String): Array[Byte] =
    outside("TYPE", "pg_type" -> Fields("id" -> oid, "namespace" -> namespace, "name" -> name))

  /** Cells are texts. Null is a NULL, and [[Unchanged]] is a value that was not sent. */
  def insert(cells: Seq[String], xid: Long = 0, oid: Long = Table): Array[Byte] =
    placed(xid, "INSERT", "relation_id" -> oid, "new" -> tuple(cells))

  def insert(cell: String): Array[Byte] = insert(Seq(cell))
  def insert(cell: String, xid: Long): Array[Byte] = insert(Seq(cell), xid)

  def update(
      cells: Seq[String],
      key: Seq[String] = Nil,
      old: Seq[String] = Nil,
      xid: Long = 0,
      oid: Long = Table
  ): Array[Byte] = placed(
    xid,
    "UPDATE",
    Seq("relation_id" -> oid, "new" -> tuple(cells)) ++ images(key, old): _*
  )

  def delete(
      key: Seq[String] = Nil,
      old: Seq[String] = Nil,
      xid: Long = 0,
      oid: Long = Table
  ): Array[Byte] = placed(xid, "DELETE", ("relation_id" -> oid) +: images(key, old): _*)

  def truncate(oids: Seq[Long], xid: Long = 0): Array[Byte] = placed(
    xid,
    "TRUNCATE",
    "relation_ids" -> oids,
    "cascade" -> false,
    "restart_identity" -> false
  )

  def logicalMessage(transactional: Boolean, xid: Long = 0): Array[Byte] = placed(
    xid,
    "MESSAGE",
    "transactional" -> transactional,
    "lsn" -> 90L,
    "prefix" -> "prefix",
    "content" -> "00ff"
  )

  def streamStart(xid: Long, first: Boolean = false): Array[Byte] =
    outside("STREAM_START", "xid" -> xid, "first_segment" -> first)

  val streamStop: Array[Byte] = outside("STREAM_STOP")

  def streamCommit(xid: Long, lsn: Long): Array[Byte] =
    outside("STREAM_COMMIT", ("xid" -> xid) +: committed(lsn): _*)

  def streamAbort(xid: Long, subxid: Long): Array[Byte] =
    outside("STREAM_ABORT", "xid" -> xid, "subxid" -> subxid)

  def beginPrepare(xid: Long, gid: String): Array[Byte] = decision("BEGIN_PREPARE", xid, gid, 50)
  def prepare(xid: Long, gid: String): Array[Byte] = decision("PREPARE", xid, gid, 50)
  def streamPrepare(xid: Long, gid: String): Array[Byte] = decision("STREAM_PREPARE", xid, gid, 50)

  def commitPrepared(xid: Long, gid: String, lsn: Long): Array[Byte] =
    decision("COMMIT_PREPARED", xid, gid, lsn)

  def rollbackPrepared(xid: Long, gid: String): Array[Byte] =
    decision("ROLLBACK_PREPARED", xid, gid, 60, "prepare_timestamp" -> 0L)

  /** The cell of a TOASTed value that was not sent. */
  val Unchanged: String = new String("unchanged")

  /** A commit's time, in microseconds since 1970. */
  def timestamp(lsn: Long): Long = 1700000000000000L + lsn

  private def committed(lsn: Long) =
    Seq[(String, Any)]("lsn" -> lsn, "end_lsn" -> (lsn + 1), "timestamp" -> timestamp(lsn))

  private def decision(name: String, xid: Long, gid: String, lsn: Long, more: (String, Any)*) =
    outside(name, committed(lsn) ++ Seq("xid" -> xid, "gid" -> gid) ++ more: _*)

  private def images(key: Seq[String], old: Seq[String]): Seq[(String, Any)] =
    Seq("key" -> key, "old" -> old).collect {
      case (name, cells) if cells.nonEmpty =>
        name -> tuple(cells)
    }

  private def tuple(cells: Seq[String]): Fields = Messages.tupleOf(cells.map { cell =>
    if (cell == null) ("n", null, null)
    else if (cell eq Unchanged) ("u", null, null)
    else ("t", cell, null)
  })

  private def outside(name: String, members: (String, Any)*) = placed(0, name, members: _*)

  private def placed(xid: Long, name: String, members: (String, Any)*): Array[Byte] = {
    val fields = Fields(members: _*) + ("type" -> name)
    if (xid == 0) MessageEncoder.encode(fields, inStream = false)
    else MessageEncoder.encode(fields + ("xid" -> xid), inStream = true)
  }
}
