package io.sparkpgoutput.lake.fold

import org.apache.spark.sql.catalyst.InternalRow

import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.lake.batch.{ChangeKind, ChangeView}

/** The new rows of a table whose rows cannot be told apart. The server sends nothing else of it. */
final class InsertFold(format: FoldFormat, writer: FoldedRowWriter, changes: Iterator[ChangeView])
    extends Iterator[InternalRow] {

  override def hasNext: Boolean = changes.hasNext

  override def next(): InternalRow = {
    val change = changes.next()
    if (change.kind != ChangeKind.Insert) throw ApplyError.keyNotSent(format.name)
    writer.start()
    writer.add(Image.sent(change))
    writer.fill(areUnsent = false)
    writer.row
  }
}
