package io.sparkpgoutput.source.reader

import org.apache.spark.sql.catalyst.InternalRow

import io.sparkpgoutput.protocol.BeginMessage
import io.sparkpgoutput.source.output.SlotRows

/**
 * The rows of messages, one after the other, and how many there are.
 *
 * @param nextMessage returns null at the end
 */
final class TransactionRows(rows: SlotRows, nextMessage: () => Array[Byte]) {
  private var pending: Iterator[InternalRow] = Iterator.empty
  private var row: InternalRow = _
  private var isAtEnd = false

  /** The numbers of rows, of transactions and of bytes so far. */
  var count, transactions, bytes = 0L

  /** The time of the last commit in microseconds since 1970; 0 if there is none. */
  var lastCommit = 0L

  rows.startBatch()

  def get: InternalRow = row

  def next(): Boolean = {
    while (!pending.hasNext && !isAtEnd) {
      val message = nextMessage()
      if (message == null) isAtEnd = true else pending = read(message)
    }
    val more = pending.hasNext
    if (more) {
      row = pending.next()
      count += 1
    }
    more
  }

  private def read(message: Array[Byte]): Iterator[InternalRow] = {
    bytes += message.length
    val found = rows.message(message)
    if (BeginMessage.is(message)) {
      transactions += 1
      lastCommit = BeginMessage.timestamp(message)
    }
    found
  }
}
