package io.sparkpgoutput.lake.fold

import java.nio.charset.StandardCharsets

import org.apache.spark.sql.catalyst.InternalRow

import io.sparkpgoutput.changes.rows.ChangeSchema._
import io.sparkpgoutput.changes.rows.{ChangeType, MissingColumns, NameArray}
import io.sparkpgoutput.lake.route.{ChangeView, RowEffect, TransactionStart}

/**
 * The rows of a table's history. Each change has the rows that `pgoutput_changes` gives it, with other
 * ordinals: twice the position of the message in its transaction, and one more after a preimage.
 *
 * @param changes the changes of a table that keeps its history
 * @param writer writes the columns of [[FoldedColumns.history]]
 */
final class HistoryRows(
    format: FoldFormat,
    writer: FoldedRowWriter,
    changes: Iterator[ChangeView]
) extends Iterator[InternalRow] {
  import HistoryRows._

  private val keys = format.definitions.map(definition =>
    NameArray.of(definition.relation.columns.filter(_.isKey).map(_.name))
  )
  private val missing =
    format.definitions.map(definition => new MissingColumns(definition.relation))
  private var change: ChangeView = _

  /** True if the preimage of the change was the last row. */
  private var isBetween = false

  override def hasNext: Boolean = isBetween || changes.hasNext

  override def next(): InternalRow =
    if (isBetween) {
      isBetween = false
      row(ChangeType.UpdatePostimage, sent)
    } else {
      change = changes.next()
      change.kind match {
        case RowEffect.Insert   => row(ChangeType.Insert, sent)
        case RowEffect.Delete   => row(ChangeType.Delete, Image.old(change))
        case RowEffect.Truncate => row(ChangeType.Truncate, null)
        case _ if change.hasOld =>
          isBetween = true
          row(ChangeType.UpdatePreimage, Image.old(change))
        case _ => row(ChangeType.UpdatePostimage, sent)
      }
    }

  private def sent =
    new Image(change.bytes, change.messageFrom, change.definition, isOld = false, isWhole = false)

  /** @param image null for a row whose columns are all NULL */
  private def row(changeType: String, image: Image): InternalRow = {
    val names = missing(change.definition)
    names.clear()
    writer.start()
    if (image != null) {
      writer.add(image)
      writer.addMissing(image.definition, names)
    }
    writer.fill(areUnsent = false)
    val transaction = new TransactionStart(change.transaction)
    val behind = if (changeType == ChangeType.UpdatePreimage) 0 else 1
    writer.bytes(name(CHANGE_TYPE), changeType.getBytes(StandardCharsets.US_ASCII))
    writer.number(name(COMMIT_VERSION), change.lsn)
    writer.number(name(COMMIT_TIMESTAMP), transaction.timestamp)
    writer.number(name(XID), transaction.xid)
    writer.bytes(name(ORIGIN), transaction.origin)
    writer.number(name(ORDINAL), 2 * change.ordinal + behind)
    writer.bytes(name(KEYS), keys(change.definition))
    writer.bytes(name(MISSING), names.names)
    writer.row
  }
}

private object HistoryRows {
  private def name(field: Int): String = schema(field).name
}
