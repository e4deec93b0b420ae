package io.sparkpgoutput.lake.batch

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/** A row of [[ChangeFields]] in an array of bytes, whose key and message are not copied. */
final class ChangeView {
  private val row = new UnsafeRow(ChangeFields.schema.length)

  /** The bytes that have the row, its key from `keyFrom` up to `keyTo`, and its message. */
  var bytes: Array[Byte] = _
  var keyFrom = 0
  var keyTo = 0
  var messageFrom = 0
  var messageTo = 0

  def start(chunk: Array[Byte], from: Int, size: Int): Unit = {
    bytes = chunk
    row.pointTo(chunk, Platform.BYTE_ARRAY_OFFSET.toLong + from, size)
    // A field of variable length is its offset in the row and its size, in 32 bits each (UnsafeRow).
    val key = row.getLong(ChangeFields.KEY)
    keyFrom = from + (key >>> 32).toInt
    keyTo = keyFrom + key.toInt
    val message = row.getLong(ChangeFields.MESSAGE)
    messageFrom = from + (message >>> 32).toInt
    messageTo = messageFrom + message.toInt
  }

  def hash: Long = row.getLong(ChangeFields.HASH)
  def lsn: Long = row.getLong(ChangeFields.LSN)
  def ordinal: Long = row.getLong(ChangeFields.ORDINAL)
  def kind: Int = row.getInt(ChangeFields.KIND)
  def isWhole: Boolean = row.getBoolean(ChangeFields.WHOLE)
  def definition: Int = row.getInt(ChangeFields.DEFINITION)

  def hasKey(other: Array[Byte], from: Int, to: Int): Boolean =
    Arrays.equals(bytes, keyFrom, keyTo, other, from, to)

  /** The message, copied. */
  def message: Array[Byte] = Arrays.copyOfRange(bytes, messageFrom, messageTo)

  /** Tells if an Update or Delete message has the old row or its key. */
  def hasOld: Boolean = bytes(messageFrom + ChangeTuples.Head) != 'N'

  /** The beginning of the transaction of a table that is kept, copied. */
  def transaction: Array[Byte] = row.getBinary(ChangeFields.TRANSACTION)

  def isAfter(position: MessagePosition): Boolean =
    lsn > position.lsn || lsn == position.lsn && ordinal > position.ordinal
}

object ChangeView {

  /** The order that [[ChangeFields.order]] says. */
  val order: java.util.Comparator[ChangeView] = (one, other) => {
    val hashes = java.lang.Long.compare(one.hash, other.hash)
    if (hashes != 0) hashes
    else {
      val keys = Arrays.compareUnsigned(
        one.bytes,
        one.keyFrom,
        one.keyTo,
        other.bytes,
        other.keyFrom,
        other.keyTo
      )
      if (keys != 0) keys
      else if (one.lsn != other.lsn) java.lang.Long.compare(one.lsn, other.lsn)
      else java.lang.Long.compare(one.ordinal, other.ordinal)
    }
  }
}
