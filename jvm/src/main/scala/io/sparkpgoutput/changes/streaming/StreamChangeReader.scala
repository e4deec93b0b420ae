package io.sparkpgoutput.changes.streaming

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeRowWriter}
import io.sparkpgoutput.changes.streaming.CommittedMessage._
import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext

/** Reads the committed changes of one source from [[CommittedMessage]]s. Not thread-safe. */
final class StreamChangeReader(format: ChangeFormat) extends KnownRelations {
  private val rows = new ChangeRowWriter(format)
  private val fields = new ControlMessageDecoder(format.options.encoding)
  private val relations = mutable.LongMap.empty[SchemaMessage]
  private val types = mutable.LongMap.empty[SchemaMessage]
  private var commitLsn = 0L

  override def relation(transaction: Transaction, oid: Long): SchemaMessage =
    relations.getOrNull(oid)
  override def typeMessages: Iterable[SchemaMessage] = types.values

  /** Takes the next message and returns its rows. Take all rows before the next message. */
  def message(row: InternalRow): Iterator[UnsafeRow] = {
    val position = row.getLong(POSITION)
    val message = row.getBinary(MESSAGE)
    val context = StreamContext.of(row.getBoolean(IN_STREAM))
    if (message(0) == Tag.Type) keep(types, fields.definition(position, message, context))
    else {
      startCommit(row.getLong(LSN))
      if (message(0) == Tag.Relation) keep(relations, fields.definition(position, message, context))
      else rows.start(this, transaction(row), position, message, context)
    }
    rows
  }

  /** Each transaction comes with the Relation messages that it needs. Those of others do not count. */
  private def startCommit(lsn: Long): Unit = if (lsn != commitLsn) {
    relations.clear()
    commitLsn = lsn
  }

  private def keep(known: mutable.LongMap[SchemaMessage], sent: SchemaMessage): Unit =
    known.update(sent.oid, sent)

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
