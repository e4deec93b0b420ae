package io.sparkpgoutput.protocol

import java.nio.ByteBuffer

/**
 * One of the 19 messages of pgoutput, protocol versions 1 to 4.
 *
 * @param tag the message's first byte, one of [[MessageType.Tag]]
 * @param name its name in the column `type`
 * @param inStream
 *   whether it can be between Stream Start and Stream Stop, where the xid of its transaction
 *   follows the tag
 * @see
 *   PostgreSQL documentation, "Logical Replication Message Formats"; `LogicalRepMsgType` in
 *   `logicalproto.h`
 */
final class MessageType private (val tag: Char, val name: String, val inStream: Boolean) {
  val nameBytes: Array[Byte] = name.getBytes("US-ASCII")
}

object MessageType {

  /** The first bytes of the messages. They are constants, so that a `match` compiles to a switch. */
  object Tag {
    final val Begin = 'B'
    final val Message = 'M'
    final val Commit = 'C'
    final val Origin = 'O'
    final val Relation = 'R'
    final val Type = 'Y'
    final val Insert = 'I'
    final val Update = 'U'
    final val Delete = 'D'
    final val Truncate = 'T'
    final val StreamStart = 'S'
    final val StreamStop = 'E'
    final val StreamCommit = 'c'
    final val StreamAbort = 'A'
    final val BeginPrepare = 'b'
    final val Prepare = 'P'
    final val CommitPrepared = 'K'
    final val RollbackPrepared = 'r'
    final val StreamPrepare = 'p'
  }

  /** All types, in the documentation's order. */
  val all: Seq[MessageType] = Seq(
    outside(Tag.Begin, "BEGIN"),
    either(Tag.Message, "MESSAGE"),
    outside(Tag.Commit, "COMMIT"),
    outside(Tag.Origin, "ORIGIN"),
    either(Tag.Relation, "RELATION"),
    either(Tag.Type, "TYPE"),
    either(Tag.Insert, "INSERT"),
    either(Tag.Update, "UPDATE"),
    either(Tag.Delete, "DELETE"),
    either(Tag.Truncate, "TRUNCATE"),
    outside(Tag.StreamStart, "STREAM_START"),
    outside(Tag.StreamStop, "STREAM_STOP"),
    outside(Tag.StreamCommit, "STREAM_COMMIT"),
    outside(Tag.StreamAbort, "STREAM_ABORT"),
    outside(Tag.BeginPrepare, "BEGIN_PREPARE"),
    outside(Tag.Prepare, "PREPARE"),
    outside(Tag.CommitPrepared, "COMMIT_PREPARED"),
    outside(Tag.RollbackPrepared, "ROLLBACK_PREPARED"),
    outside(Tag.StreamPrepare, "STREAM_PREPARE")
  )

  private val byTag: Array[MessageType] = Array.tabulate(256)(tag => all.find(_.tag == tag).orNull)

  /** The type of a message that begins with this byte; null if no message does. */
  def of(tag: Byte): MessageType = byTag(tag & 0xff)

  private def outside(tag: Char, name: String) = new MessageType(tag, name, inStream = false)
  private def either(tag: Char, name: String) = new MessageType(tag, name, inStream = true)
}

/**
 * The place of a message: between Stream Start and Stream Stop, or outside. Inside, an xid follows the
 * tag of the messages that can carry one. It is a number, because generated code passes it on.
 */
object StreamContext {
  final val UNKNOWN = 0
  final val OUTSIDE = 1
  final val INSIDE = 2

  def of(inStream: Boolean): Int = if (inStream) INSIDE else OUTSIDE
}

/**
 * The header before a message of pgoutput in CopyData: the tag; Int64 start of the WAL data; Int64 end of the
 * WAL; Int64 clock.
 */
object XLogDataHeader {
  final val Size = 1 + 3 * 8
}

/** The fields of a Begin message: Int64 LSN of the commit; Int64 time of the commit; Int32 xid. */
object BeginMessage {
  final val Size = 1 + 8 + 8 + 4

  /** Returns whether a message of pgoutput is a Begin message. */
  def is(message: Array[Byte]): Boolean =
    message.length >= Size && message(0) == MessageType.Tag.Begin

  def lsn(message: Array[Byte]): Long = BigEndian.int64(message, 1)

  /** In microseconds since 1970. */
  def timestamp(message: Array[Byte]): Long =
    BigEndian.int64(message, 1 + 8) + PostgresEpoch.Micros

  def xid(message: Array[Byte]): Long = BigEndian.uint32(message, 1 + 8 + 8)
}

/** The fields of a Truncate message: Int32 number of tables; Int8 options; Int32 oid of each table. */
object TruncateMessage {
  final private val Head = 1 + 4 + 1

  /** Calls a function for the oid of each table. */
  def foreachTable(message: Array[Byte])(call: Long => Unit): Unit =
    (0 until BigEndian.int32(message, 1)).foreach(index =>
      call(BigEndian.uint32(message, Head + 4 * index))
    )

  /** A Truncate message of one table, without options. */
  def of(oid: Long): Array[Byte] =
    ByteBuffer.allocate(Head + 4).put(MessageType.Tag.Truncate.toByte).putInt(1).put(0.toByte)
      .putInt(oid.toInt).array
}
