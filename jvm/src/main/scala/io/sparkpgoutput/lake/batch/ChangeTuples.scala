package io.sparkpgoutput.lake.batch

import io.sparkpgoutput.changes.rows.RowImage
import io.sparkpgoutput.protocol.{BigEndian, EncodedTuple}

/**
 * The tuples of an Insert, Update or Delete message that was checked before: a byte for the message,
 * Int32 oid of the table, and tuples with a byte before each: K for an old key, O for an old row, N
 * for the new row.
 */
final class ChangeTuples {
  private val old = new EncodedTuple
  private val sent = new EncodedTuple
  private var bytes: Array[Byte] = _
  private var oldAt = 0
  private var newAt = 0
  private var oldIsKey = false

  def start(message: Array[Byte], from: Int): Unit = {
    bytes = message
    val first = from + ChangeTuples.Head
    val hasOld = message(first) != 'N'
    oldIsKey = message(first) == 'K'
    oldAt = if (hasOld) first + 1 else 0
    newAt = if (hasOld) 0 else first + 1
  }

  /** Starts with the old row, which may have the columns of the replica identity only. */
  def readOld(isIdentity: Array[Boolean], image: RowImage): Unit = {
    begin(old, oldAt)
    image.start(isIdentity, old, oldIsKey, null, false)
  }

  /** Starts with the new row. What was not sent comes from the old row if that has it. */
  def readNew(isIdentity: Array[Boolean], image: RowImage): Unit = {
    if (oldAt > 0) {
      if (newAt == 0) newAt = endOf(oldAt) + 1
      begin(old, oldAt)
    }
    begin(sent, newAt)
    image.start(isIdentity, sent, false, if (oldAt > 0) old else null, oldIsKey)
  }

  private def begin(tuple: EncodedTuple, at: Int): Unit =
    tuple.start(bytes, at + EncodedTuple.TupleHead, BigEndian.int16(bytes, at) & 0xffff)

  private def endOf(tuple: Int): Int = {
    var left = BigEndian.int16(bytes, tuple) & 0xffff
    var at = tuple + EncodedTuple.TupleHead
    while (left > 0) {
      at = EncodedTuple.cellEnd(bytes, at, bytes.length)
      left -= 1
    }
    at
  }
}

private object ChangeTuples {
  final val Head = 1 + 4
}
