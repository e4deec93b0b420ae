package io.sparkpgoutput.protocol

/**
 * One of the 19 messages of pgoutput, protocol versions 1 to 4.
 *
 * @param tag
 *   the message's first byte, one of [[MessageType.Tag]]
 * @param name
 *   its name in the column `type`
 * @param kind
 *   what the message is about
 * @param inStream
 *   whether it can stand between Stream Start and Stream Stop, where the xid of its transaction
 *   follows the tag
 * @see
 *   PostgreSQL documentation, "Logical Replication Message Formats"; `LogicalRepMsgType` in
 *   `logicalproto.h`
 */
final class MessageType private (
    val tag: Char,
    val name: String,
    val kind: MessageKind,
    val inStream: Boolean
) {
  val nameBytes: Array[Byte] = name.getBytes("US-ASCII")
}

/** The kinds of messages, by their subject. */
sealed abstract class MessageKind

object MessageKind {

  /** The message changes rows of a table: INSERT, UPDATE, DELETE or TRUNCATE. */
  case object Change extends MessageKind

  /** The message describes a table or a type: RELATION or TYPE. */
  case object Schema extends MessageKind

  /** The message begins, describes or ends a transaction, or a block of a streamed one. */
  case object Transaction extends MessageKind

  /** The message was written with `pg_logical_emit_message`: MESSAGE. */
  case object Logical extends MessageKind
}

object MessageType {
  import MessageKind._

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
    outside(Tag.Begin, "BEGIN", Transaction),
    either(Tag.Message, "MESSAGE", Logical),
    outside(Tag.Commit, "COMMIT", Transaction),
    outside(Tag.Origin, "ORIGIN", Transaction),
    either(Tag.Relation, "RELATION", Schema),
    either(Tag.Type, "TYPE", Schema),
    either(Tag.Insert, "INSERT", Change),
    either(Tag.Update, "UPDATE", Change),
    either(Tag.Delete, "DELETE", Change),
    either(Tag.Truncate, "TRUNCATE", Change),
    outside(Tag.StreamStart, "STREAM_START", Transaction),
    outside(Tag.StreamStop, "STREAM_STOP", Transaction),
    outside(Tag.StreamCommit, "STREAM_COMMIT", Transaction),
    outside(Tag.StreamAbort, "STREAM_ABORT", Transaction),
    outside(Tag.BeginPrepare, "BEGIN_PREPARE", Transaction),
    outside(Tag.Prepare, "PREPARE", Transaction),
    outside(Tag.CommitPrepared, "COMMIT_PREPARED", Transaction),
    outside(Tag.RollbackPrepared, "ROLLBACK_PREPARED", Transaction),
    outside(Tag.StreamPrepare, "STREAM_PREPARE", Transaction)
  )

  private val byTag: Array[MessageType] = {
    val types = new Array[MessageType](256)
    all.foreach(messageType => types(messageType.tag.toInt) = messageType)
    types
  }

  /** The type of a message that begins with this byte; null if no message does. */
  def of(tag: Byte): MessageType = byTag(tag & 0xff)

  private def outside(tag: Char, name: String, kind: MessageKind) =
    new MessageType(tag, name, kind, inStream = false)
  private def either(tag: Char, name: String, kind: MessageKind) =
    new MessageType(tag, name, kind, inStream = true)
}
