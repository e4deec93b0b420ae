package io.sparkpgoutput.protocol

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.nio.charset.{Charset, StandardCharsets}

import io.sparkpgoutput.protocol.Fields.Fields

/**
 * Writes messages as PostgreSQL does, so that tests can decode them.
 *
 * It follows the PostgreSQL documentation, chapter "Logical Replication Message Formats", in its order. It
 * has no code in common with the decoder.
 */
object MessageEncoder {

  def encode(
      message: Fields,
      inStream: Boolean,
      charset: Charset = StandardCharsets.UTF_8
  ): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    new MessageEncoder(message, inStream, charset, new DataOutputStream(bytes)).message()
    bytes.toByteArray
  }
}

/** Writes the members of one message, or of one struct in it; `DataOutputStream` is big-endian. */
final private class MessageEncoder(
    members: Fields,
    inStream: Boolean,
    charset: Charset,
    out: DataOutputStream
) {
  def message(): Unit = member[String]("type") match {
    case "BEGIN"   => letter('B'); int64("lsn"); timestamp("timestamp"); int32("xid")
    case "MESSAGE" => logicalMessage()
    case "COMMIT"  => letter('C'); commit()
    case "ORIGIN"  => letter('O'); int64("lsn"); string("origin")
    case "RELATION" =>
      letter('R'); streamedXid(); int32("relation_id"); struct("relation")(_.relation())
    case "TYPE"   => letter('Y'); streamedXid(); struct("pg_type")(_.pgType())
    case "INSERT" => letter('I'); change(); tuple("new", 'N')
    case "UPDATE" => letter('U'); change(); tuple("key", 'K'); tuple("old", 'O'); tuple("new", 'N')
    case "DELETE" => letter('D'); change(); tuple("key", 'K'); tuple("old", 'O')
    case "TRUNCATE"          => truncate()
    case "STREAM_START"      => letter('S'); int32("xid"); flag("first_segment")
    case "STREAM_STOP"       => letter('E')
    case "STREAM_COMMIT"     => letter('c'); int32("xid"); commit()
    case "STREAM_ABORT"      => streamAbort()
    case "BEGIN_PREPARE"     => letter('b'); prepare()
    case "PREPARE"           => letter('P'); byte(0); prepare()
    case "COMMIT_PREPARED"   => letter('K'); commit(); int32("xid"); string("gid")
    case "ROLLBACK_PREPARED" => rollbackPrepared()
    case "STREAM_PREPARE"    => letter('p'); byte(0); prepare()
  }

  private def logicalMessage(): Unit = {
    letter('M')
    streamedXid()
    flag("transactional")
    int64("lsn")
    string("prefix")
    sized(Fields.unhex(member[String]("content")))
  }

  private def commit(): Unit = { byte(0); int64("lsn"); int64("end_lsn"); timestamp("timestamp") }

  private def relation(): Unit = {
    string("namespace")
    string("name")
    letter(member[String]("replica_identity").head)
    val columns = member[Seq[Fields]]("columns")
    out.writeShort(columns.size)
    columns.foreach(within(_).relationColumn())
  }

  private def relationColumn(): Unit = {
    flag("key")
    string("name")
    int32("type_id")
    out.writeInt(member[Int]("type_modifier"))
  }

  private def pgType(): Unit = { int32("id"); string("namespace"); string("name") }

  private def change(): Unit = { streamedXid(); int32("relation_id") }

  private def truncate(): Unit = {
    letter('T')
    streamedXid()
    val relations = member[Seq[Long]]("relation_ids")
    out.writeInt(relations.size)
    val cascade = if (member[Boolean]("cascade")) 1 else 0
    val restartIdentity = if (member[Boolean]("restart_identity")) 2 else 0
    byte(cascade | restartIdentity)
    relations.foreach(oid => out.writeInt(oid.toInt))
  }

  private def streamAbort(): Unit = {
    letter('A')
    int32("xid")
    int32("subxid")
    if (members.contains("lsn")) { int64("lsn"); timestamp("timestamp") }
  }

  private def prepare(): Unit = {
    int64("lsn"); int64("end_lsn"); timestamp("timestamp"); int32("xid"); string("gid")
  }

  private def rollbackPrepared(): Unit = {
    letter('r')
    byte(0)
    int64("lsn"); int64("end_lsn"); timestamp("prepare_timestamp"); timestamp("timestamp")
    int32("xid")
    string("gid")
  }

  /** A tuple that the message may have. */
  private def tuple(name: String, marker: Char): Unit = if (members.contains(name)) {
    letter(marker)
    struct(name)(_.cells())
  }

  private def cells(): Unit = {
    val kinds = member[String]("kinds")
    out.writeShort(kinds.length)
    kinds.indices.foreach { column =>
      letter(kinds(column))
      kinds(column) match {
        case 't' => sized(member[Seq[String]]("text").apply(column).getBytes(charset))
        case 'b' => sized(Fields.unhex(member[Seq[String]]("binary").apply(column)))
        case _   =>
      }
    }
  }

  private def streamedXid(): Unit = if (inStream) int32("xid")

  private def byte(value: Int): Unit = out.write(value)
  private def letter(value: Char): Unit = byte(value.toInt)
  private def flag(name: String): Unit = out.writeBoolean(member[Boolean](name))
  private def int32(name: String): Unit = out.writeInt(member[Long](name).toInt)
  private def int64(name: String): Unit = out.writeLong(member[Long](name))
  private def timestamp(name: String): Unit = out.writeLong(member[Long](name) - 946684800000000L)

  private def string(name: String): Unit = {
    out.write(member[String](name).getBytes(charset))
    byte(0)
  }

  private def sized(value: Array[Byte]): Unit = { out.writeInt(value.length); out.write(value) }

  private def struct(name: String)(write: MessageEncoder => Unit): Unit =
    write(within(member[Fields](name)))

  private def within(struct: Fields) = new MessageEncoder(struct, inStream, charset, out)
  private def member[T](name: String): T = members(name).asInstanceOf[T]
}
