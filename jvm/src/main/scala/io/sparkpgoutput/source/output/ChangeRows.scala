package io.sparkpgoutput.source.output

import org.apache.spark.sql.catalyst.InternalRow

import io.sparkpgoutput.changes.batch.WholeTransactionReader
import io.sparkpgoutput.changes.rows.ChangeFormat

/** Makes the rows of changes. */
final class ChangeRows(format: ChangeFormat) extends SlotRows {
  private val reader = new WholeTransactionReader(format)

  override def startBatch(): Unit = ()
  override def message(message: Array[Byte]): Iterator[InternalRow] = reader.message(message)
}
