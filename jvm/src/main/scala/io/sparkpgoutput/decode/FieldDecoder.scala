package io.sparkpgoutput.decode

import io.sparkpgoutput.protocol.{MessageReader, MessageSchema, PostgresEpoch, TextEncoding}

import MessageSchema._

/** Reads, checks and writes to the row the fields that messages are made of. */
abstract class FieldDecoder(
    encoding: TextEncoding,
    selection: FieldSelection,
    filter: MessageFilter
) {
  import FieldDecoder._

  private val isUtf8 = encoding.isUtf8

  final protected val struct = new StructLayout(schema, selection)
  final protected val in = new MessageReader
  final protected val row = new MessageRowWriter(struct)

  final protected var tag = 0

  /** True if the filter keeps the message, as far as it has been read. */
  final protected var kept = false

  /** True if the stream context is not known. Then this reading is one of two attempts. */
  final protected var inferringContext = false

  final protected def xid(field: Int): Unit = row.setLong(field, in.uint32(field))

  /**
   * Xid of the transaction, only inside a stream. No transaction has the xid 0
   * (`InvalidTransactionId`).
   */
  final protected def streamedXid(): Unit = {
    val at = in.position
    val value = in.uint32(XID)
    if (inferringContext && value == 0)
      in.fail(XID, null, "found %d, which is not the xid of a transaction", value, position = at)
    row.setLong(XID, value)
  }

  final protected def lsn(field: Int): Long = {
    val value = in.int64(field)
    row.setLong(field, value)
    value
  }

  /** Oid of the relation, by which the filter may drop the message. */
  final protected def oid(): Unit = {
    val value = in.uint32(RELATION_ID)
    kept = filter.keeps(tag, value)
    row.setLong(RELATION_ID, value)
  }

  /** Microseconds since 2000-01-01, to microseconds since 1970-01-01. */
  final protected def timestamp(field: Int): Unit = {
    val value = in.int64(field)
    if (value > LastTimestamp) {
      val problem = "found %d, which is more than a TIMESTAMP holds"
      in.fail(field, null, problem, value, position = in.position - 8)
    }
    row.setLong(field, value + PostgresEpoch.Micros)
  }

  /** Flags, currently unused, must be 0. */
  final protected def zeroFlags(): Unit = in.flags(0)

  final protected def flag(field: Int): Boolean = {
    val value = in.flags(1, field) == 1
    row.setBoolean(field, value)
    value
  }

  final protected def string(field: Int): Unit = {
    row.setNotNull(field)
    string(0, struct.slot(0, field), field, null)
  }

  /** A member of the struct at `head`: a string that a NUL byte ends. */
  final protected def string(head: Int, slot: Int, field: Int, part: String): Unit = {
    val size = in.stringLength(field, part)
    val end = text(row.position, head, slot, in.position, size)
    if (end < 0) notInEncoding(field, part) else row.moveTo(end)
    in.skip(size + 1)
  }

  /** Returns whether the rest of the message needs no conversion to UTF-8 and no check. */
  final protected def textIsCopied: Boolean = isUtf8 && in.restIsAscii

  /**
   * Writes text, in UTF-8, at a position of the row.
   *
   * @return the position after it; -1 if the bytes are not valid in the encoding
   */
  final protected def text(position: Int, head: Int, slot: Int, from: Int, size: Int): Int =
    if (isUtf8) {
      val end = row.write(position, head, slot, in.message, from, size)
      if (textIsCopied || TextEncoding.isValidUtf8(in.message, from, size)) end else -1
    } else convertedText(position, head, slot, from, size)

  private def convertedText(position: Int, head: Int, slot: Int, from: Int, size: Int): Int = {
    val utf8 = encoding.toUtf8(in.message, from, size)
    if (utf8 == null) -1 else row.write(position, head, slot, utf8, 0, utf8.length)
  }

  final protected def notInEncoding(field: Int, part: String): Unit =
    in.fail(field, part, s"the text is not valid $encoding")

  /** The byte that was read last cannot stand there. */
  final protected def unexpected(field: Int, part: String, found: Int, wanted: String): Unit =
    in.fail(field, part, s"found %x, expected $wanted", found.toLong, position = in.position - 1)
}

private object FieldDecoder {
  private val LastTimestamp = Long.MaxValue - PostgresEpoch.Micros
}
