package io.sparkpgoutput.changes.streaming

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream}
import java.nio.charset.StandardCharsets.UTF_8

import io.sparkpgoutput.changes.transactions.{
  AssemblerState,
  SchemaMessage,
  StreamPhase,
  Transaction
}
import io.sparkpgoutput.errors.CheckpointVersionException

/**
 * Reads and writes a [[SourceState]] as the bytes that a checkpoint keeps.
 *
 * Every later version of this library must read what this one writes. If the format has to change,
 * give the new format the next version and keep a reader for each version before it. Numbers are
 * big-endian. A text or a message is its length and its bytes. A list is its length and its members.
 */
object SourceStateFormat {

  /** The first byte of the state and of each chunk of changes. */
  final val Version: Byte = 1

  /** Throws an error if bytes were written in a version that this library does not know. */
  def checkVersion(found: Byte): Unit =
    if (found != Version) {
      throw new CheckpointVersionException(
        s"The checkpoint has streaming state of version $found, and this version of " +
          s"spark-pgoutput reads version $Version. Continue with the version of spark-pgoutput that " +
          "wrote the checkpoint, or a later one."
      )
    }

  def write(state: SourceState): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    new Writer(new DataOutputStream(bytes)).state(state)
    bytes.toByteArray
  }

  def read(bytes: Array[Byte]): SourceState = {
    checkVersion(bytes(0))
    new Reader(new DataInputStream(new ByteArrayInputStream(bytes, 1, bytes.length - 1))).state()
  }

  /** The index of a phase is its number in the format. */
  private val phases: IndexedSeq[StreamPhase] = IndexedSeq(
    StreamPhase.Unknown,
    StreamPhase.Between,
    StreamPhase.InTransaction,
    StreamPhase.InPrepare,
    StreamPhase.InStream
  )

  final private class Writer(out: DataOutputStream) {
    def state(state: SourceState): Unit = {
      out.writeByte(Version.toInt)
      list(state.lastPosition)(out.writeLong)
      out.writeLong(state.commits)
      list(state.chunks) { case (firstPosition, number) =>
        out.writeLong(firstPosition)
        out.writeInt(number)
      }
      assembler(state.assembler)
    }

    private def assembler(state: AssemblerState): Unit = {
      out.writeByte(phases.indexOf(state.phase))
      list(state.begun)(transaction)
      out.writeLong(state.streamedXid)
      list(state.streamed)(transaction)
      list(state.prepared)(transaction)
      list(state.relations)(schemaMessage)
      list(state.types)(schemaMessage)
      out.writeLong(state.greatestCommit)
    }

    private def transaction(transaction: Transaction): Unit = {
      import transaction._
      out.writeLong(xid)
      out.writeLong(firstPosition)
      out.writeBoolean(hasBeginning)
      out.writeLong(commitLsn)
      out.writeLong(commitTimestamp)
      list(Option(gid))(text)
      list(Option(origin))(text)
      out.writeLong(changes)
      out.writeLong(nextOrdinal)
      list(aborted)(out.writeLong)
      list(relations)(schemaMessage)
    }

    private def schemaMessage(sent: SchemaMessage): Unit = {
      out.writeLong(sent.oid)
      out.writeLong(sent.position)
      out.writeBoolean(sent.inStream)
      bytes(sent.message)
    }

    private def text(text: String): Unit = bytes(text.getBytes(UTF_8))

    private def bytes(bytes: Array[Byte]): Unit = {
      out.writeInt(bytes.length)
      out.write(bytes)
    }

    private def list[T](members: Iterable[T])(write: T => Unit): Unit = {
      out.writeInt(members.size)
      members.foreach(write)
    }
  }

  final private class Reader(in: DataInputStream) {
    def state(): SourceState = SourceState(
      lastPosition = list(in.readLong()).headOption,
      commits = in.readLong(),
      chunks = list((in.readLong(), in.readInt())),
      assembler = assembler()
    )

    private def assembler() = AssemblerState(
      phase = phases(in.readByte().toInt),
      begun = list(transaction()).headOption,
      streamedXid = in.readLong(),
      streamed = list(transaction()),
      prepared = list(transaction()),
      relations = list(schemaMessage()),
      types = list(schemaMessage()),
      greatestCommit = in.readLong()
    )

    private def transaction() = Transaction(
      xid = in.readLong(),
      firstPosition = in.readLong(),
      hasBeginning = in.readBoolean(),
      commitLsn = in.readLong(),
      commitTimestamp = in.readLong(),
      gid = list(text()).headOption.orNull,
      origin = list(text()).headOption.orNull,
      changes = in.readLong(),
      nextOrdinal = in.readLong(),
      aborted = list(in.readLong()).toSet,
      relations = list(schemaMessage())
    )

    private def schemaMessage() = {
      val (oid, position, inStream) = (in.readLong(), in.readLong(), in.readBoolean())
      SchemaMessage(oid, position, bytes(), inStream)
    }

    private def text() = new String(bytes(), UTF_8)

    private def bytes(): Array[Byte] = in.readNBytes(in.readInt())

    private def list[T](read: => T): Seq[T] = Vector.fill(in.readInt())(read)
  }
}
