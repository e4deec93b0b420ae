package io.sparkpgoutput.lake.fold

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.lake.batch.{ChangeKind, ChangeView}

/**
 * Counts the copies of each row that came and that went, for REPLICA IDENTITY FULL without a key. The
 * key of a change is the text of all values. Values with different texts can be equal, so the counts
 * of equal rows are added up later.
 */
final class RowCountFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {
  private var count = 0L
  private var last: Image = _

  override def take(change: ChangeView): UnsafeRow = {
    // An update that has the old row comes as two changes.
    if (change.kind == ChangeKind.Update) throw ApplyError.keyNotSent(format.name)
    val came = change.kind == ChangeKind.Insert || change.kind == ChangeKind.MovedIn
    count += (if (came) 1 else -1)
    last = if (came) Image.sent(change) else Image.old(change)
    null
  }

  override def finish(): UnsafeRow = {
    val image = last
    val found = count
    last = null
    count = 0
    if (found == 0) null
    else {
      writer.start()
      writer.add(image)
      writer.fill(areUnsent = false)
      writer.number(FoldedColumns.Count, found)
      writer.row
    }
  }
}
