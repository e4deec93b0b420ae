package io.sparkpgoutput.changes.streaming

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.{Encoder, Encoders}

import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.Lsn

/**
 * The state of one source, which is a value of the option `source`, between two micro-batches, without the changes of
 * its open transactions.
 *
 * @param lastPosition the position of the last message
 * @param commits the number of commits so far
 * @param chunks
 *   the number of stored chunks of each open transaction, by the transaction's first position
 */
final case class SourceState(
    lastPosition: Option[Long] = None,
    commits: Long = 0,
    chunks: Seq[(Long, Int)] = Nil,
    assembler: AssemblerState = AssemblerState()
)

/**
 * Reads and writes a [[SourceState]] as the bytes that a checkpoint keeps.
 *
 * Every later version of this library must read what this one writes. If the format has to change,
 * give the new format the next version and keep a reader for each earlier version. Numbers are
 * big-endian. A text or a message is its length and its bytes. A list is its length and its members.
 */
object SourceStateFormat {

  /** The first byte of the state and of each chunk of changes. */
  final val Version: Byte = 1

  /** Throws an error if bytes were written in a version that this library does not know. */
  def checkVersion(found: Byte): Unit =
    if (found != Version) {
      throw new PgOutputException(
        "PGOUTPUT_CHECKPOINT_VERSION.STREAMING_STATE",
        "found" -> found,
        "known" -> Version
      )
    }

  def write(state: SourceState): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    bytes.write(Version.toInt)
    new Writer(new DataOutputStream(bytes)).state(state)
    bytes.toByteArray
  }

  def read(bytes: Array[Byte]): SourceState = {
    checkVersion(bytes(0))
    val in = new DataInputStream(new ByteArrayInputStream(bytes, 1, bytes.length - 1))
    new Reader(in).state(throw new IllegalStateException("a reader has no value"))
  }

  /**
   * The fields of a state, in their order. Each method takes a value and returns it: the writer also writes
   * it, and the reader does not evaluate it and returns what it reads. So both follow one description.
   */
  abstract private class StateFields {
    def byte(value: => Int): Int
    def int(value: => Int): Int
    def long(value: => Long): Long
    def bytes(value: => Array[Byte]): Array[Byte]
    def list[T](members: => Iterable[T])(member: (=> T) => T): Seq[T]

    def state(state: => SourceState): SourceState = SourceState(
      lastPosition = option(state.lastPosition)(long),
      commits = long(state.commits),
      chunks = list(state.chunks)(chunk => (long(chunk._1), int(chunk._2))),
      assembler = assembler(state.assembler)
    )

    private def assembler(state: => AssemblerState): AssemblerState = AssemblerState(
      phase = StreamPhase(byte(state.phase.id)),
      begun = option(state.begun)(transaction),
      streamedXid = long(state.streamedXid),
      streamed = list(state.streamed)(transaction),
      prepared = list(state.prepared)(transaction),
      definitions = list(state.definitions.filterNot(_.isType))(schemaMessage) ++
        list(state.definitions.filter(_.isType))(schemaMessage),
      greatestCommit = long(state.greatestCommit)
    )

    private def transaction(open: => Transaction): Transaction = Transaction(
      xid = long(open.xid),
      firstPosition = long(open.firstPosition),
      hasBeginning = boolean(open.hasBeginning),
      commitLsn = long(open.commitLsn),
      commitTimestamp = long(open.commitTimestamp),
      gid = option(Option(open.gid))(text).orNull,
      origin = option(Option(open.origin))(text).orNull,
      changes = long(open.changes),
      nextOrdinal = long(open.nextOrdinal),
      aborted = list(open.aborted)(long).toSet,
      relations = list(open.relations)(schemaMessage)
    )

    private def schemaMessage(sent: => SchemaMessage): SchemaMessage = {
      val (oid, position) = (long(sent.oid), long(sent.position))
      val inStream = boolean(sent.inStream)
      SchemaMessage(oid, position, bytes(sent.message), inStream)
    }

    private def boolean(value: => Boolean): Boolean = byte(if (value) 1 else 0) != 0

    private def text(text: => String): String = new String(bytes(text.getBytes(UTF_8)), UTF_8)

    private def option[T](value: => Option[T])(member: (=> T) => T): Option[T] =
      list[T](value)(member).headOption
  }

  final private class Writer(out: DataOutputStream) extends StateFields {
    override def byte(value: => Int): Int = { out.writeByte(value); value }
    override def int(value: => Int): Int = { out.writeInt(value); value }
    override def long(value: => Long): Long = { out.writeLong(value); value }

    override def bytes(value: => Array[Byte]): Array[Byte] = {
      val written = value
      out.writeInt(written.length)
      out.write(written)
      written
    }

    override def list[T](members: => Iterable[T])(member: (=> T) => T): Seq[T] = {
      val all = members.toVector
      out.writeInt(all.size)
      all.foreach(one => member(one))
      all
    }
  }

  final private class Reader(in: DataInputStream) extends StateFields {
    override def byte(value: => Int): Int = in.readByte().toInt
    override def int(value: => Int): Int = in.readInt()
    override def long(value: => Long): Long = in.readLong()
    override def bytes(value: => Array[Byte]): Array[Byte] = in.readNBytes(in.readInt())

    override def list[T](members: => Iterable[T])(member: (=> T) => T): Seq[T] =
      Vector.fill(in.readInt())(member(members.head))
  }
}

/**
 * The state of a source as version 0.1.0 wrote it.
 *
 * This version does not continue from that state. It declares the state variable of 0.1.0 with its
 * fields, in their order, for two reasons: Spark refuses to open a checkpoint if a variable of the
 * same name has another schema, and the content of the variable says where a new checkpoint has to
 * start.
 */
object OldState {
  final val Variable = "source"

  /** Made once, because Spark looks for the fields of all these classes by reflection. */
  val encoder: Encoder[State] = Encoders.product[State]

  final case class State(
      lastPosition: Option[Long],
      commits: Long,
      chunks: Seq[(Long, Int)],
      follower: Follower
  )

  final case class Follower(
      place: Int,
      begun: Option[Open],
      streamedXid: Long,
      streamed: Seq[Open],
      prepared: Seq[Open],
      relations: Seq[Definition],
      types: Seq[Definition],
      greatestCommit: Long
  )

  final case class Open(
      xid: Long,
      firstPosition: Long,
      hasBeginning: Boolean,
      commitLsn: Long,
      commitTimestamp: Long,
      gid: String,
      origin: String,
      changes: Long,
      nextOrdinal: Long,
      aborted: Seq[Long],
      relations: Seq[Definition]
  )

  final case class Definition(oid: Long, position: Long, message: Array[Byte], inStream: Boolean)

  /** The error that says where a new checkpoint has to start. */
  def error(state: State): PgOutputException = {
    import state.follower._
    val open = begun ++ streamed ++ prepared
    new PgOutputException(
      "PGOUTPUT_OLD_CHECKPOINT",
      "position" -> open.map(_.firstPosition).minOption
        .getOrElse(state.lastPosition.fold(0L)(_ + 1)),
      "lsn" -> Lsn.format(greatestCommit)
    )
  }
}
