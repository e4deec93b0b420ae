package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeRowWriter}
import io.sparkpgoutput.changes.streaming.CommittedMessage._
import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext

/** Reads the committed changes of one source from [[CommittedMessage]]s. Not thread-safe. */
final class StreamChangeReader(format: ChangeFormat) {
  private val rows = new ChangeRowWriter(format)
  private val fields = new ControlMessageDecoder(format.options.encoding)
  private val known = new KnownRelations
  private var commitLsn = 0L

  /** Takes the next message and returns its rows. Take all rows before the next message. */
  def message(row: InternalRow): Iterator[UnsafeRow] = {
    val position = row.getLong(POSITION)
    val message = row.getBinary(MESSAGE)
    val context = StreamContext.of(row.getBoolean(IN_STREAM))
    if (message(0) != Tag.Type) startCommit(row.getLong(LSN))
    if (SchemaMessage.is(message)) known.add(fields.definition(position, message, context))
    else rows.start(known, transaction(row), position, message, context)
    rows
  }

  /**
   * Each transaction comes with the Relation messages that it needs. Earlier Relation messages do
   * not count.
   */
  private def startCommit(lsn: Long): Unit = if (lsn != commitLsn) {
    known.clearRelations()
    commitLsn = lsn
  }

  private def transaction(row: InternalRow): Transaction = {
    def text(field: Int) = if (row.isNullAt(field)) null else row.getUTF8String(field).toString
    val found = Transaction(
      row.getLong(XID),
      firstPosition = 0,
      hasBeginning = true,
      gid = text(GID),
      origin = text(ORIGIN),
      nextOrdinal = row.getLong(ORDINAL)
    )
    found.commit = Commit(row.getLong(LSN), row.getLong(TIMESTAMP), found.gid, Set.empty)
    found
  }
}
