package io.sparkpgoutput.protocol

import MessageSchema._

/** The fields that messages are made of: each is read, checked and written to the row. */
abstract private[protocol] class FieldDecoder(encoding: TextEncoding) {
  import FieldDecoder._

  final protected val in = new MessageReader
  final protected val row = new MessageRow(schema.length)

  /** The stream context is not known, and this reading is one of two that are tried. */
  final protected var guessing = false

  final protected def xid(field: Int): Unit = row.setLong(field, in.uint32(field))

  /** Xid of the transaction, only inside a stream. No transaction has 0 (`InvalidTransactionId`). */
  final protected def streamedXid(): Unit = {
    val at = in.position
    val value = in.uint32(XID)
    if (guessing && value == 0)
      in.fail(XID, null, "found %d, no transaction's", value, position = at)
    row.setLong(XID, value)
  }

  final protected def lsn(field: Int): Long = {
    val value = in.int64(field)
    row.setLong(field, value)
    value
  }

  final protected def oid(): Unit = row.setLong(RELATION_ID, in.uint32(RELATION_ID))

  /** Microseconds since 2000-01-01, to microseconds since 1970-01-01. */
  final protected def timestamp(field: Int): Unit = {
    val value = in.int64(field)
    if (value > LastTimestamp) {
      in.fail(
        field,
        null,
        "found %d, past what a TIMESTAMP holds",
        value,
        position = in.position - 8
      )
    }
    row.setLong(field, value + PostgresEpoch)
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
    text(0, row.slot(0, field), in.stringLength(field), field, null)
    in.skip(1)
  }

  /** A member of a struct: a string that a NUL byte ends. */
  final protected def string(head: Int, member: Int, field: Int, part: String): Unit = {
    text(head, row.slot(head, member), in.stringLength(field, part), field, part)
    in.skip(1)
  }

  /** Text of so many bytes, which `slot` then points to, in UTF-8. */
  final protected def text(head: Int, slot: Int, size: Int, field: Int, part: String): Unit = {
    if (encoding.isUtf8) {
      val ascii = row.putText(head, slot, in.message, in.position, size)
      if (!ascii && !TextEncoding.isValidUtf8(in.message, in.position, size)) {
        notInEncoding(field, part)
      }
    } else {
      val utf8 = encoding.toUtf8(in.message, in.position, size)
      if (utf8 == null) notInEncoding(field, part)
      else row.putBytes(head, slot, utf8, 0, utf8.length)
    }
    in.skip(size)
  }

  private def notInEncoding(field: Int, part: String): Unit =
    in.fail(field, part, s"the text is not valid $encoding")

  /** The byte that was read last is none of those that can stand there. */
  final protected def unexpected(field: Int, part: String, found: Int, wanted: String): Unit =
    in.fail(field, part, s"found %x, not $wanted", found.toLong, position = in.position - 1)
}

private object FieldDecoder {

  /** 2000-01-01 in microseconds since 1970-01-01; PostgreSQL counts from the one, Spark the other. */
  private val PostgresEpoch = 946684800000000L
  private val LastTimestamp = Long.MaxValue - PostgresEpoch
}
