package io.sparkpgoutput.source.output

import org.apache.spark.sql.catalyst.InternalRow

/** Makes rows of the messages of a session, one message after the other. Not thread-safe. */
trait SlotRows {

  /** A batch begins. */
  def startBatch(): Unit

  /** Takes the next message and returns its rows. Take all rows before the next message. */
  def message(message: Array[Byte]): Iterator[InternalRow]
}
