package io.sparkpgoutput.streaming

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes._
import io.sparkpgoutput.protocol.StreamContext

import CommittedMessage._

/** The rows of committed changes of one source. Not thread-safe. */
final private[sparkpgoutput] class StreamedRows(format: ChangeFormat) extends KnownRelations {
  private val rows = new ChangeRows(format)
  private val fields = new ControlFields(format.options.encoding)
  private val relations = mutable.LongMap.empty[SentMessage]
  private val types = mutable.LongMap.empty[SentMessage]
  private var commitLsn = 0L

  override def relation(transaction: Transaction, oid: Long): SentMessage = relations.getOrNull(oid)
  override def typeMessages: Iterable[SentMessage] = types.values

  /** Takes the next message; its rows are to be taken before the one after it. */
  def message(row: InternalRow): Unit = {
    val position = row.getLong(POSITION)
    val message = row.getBinary(MESSAGE)
    val inStream = row.getBoolean(IN_STREAM)
    val context = StreamContext.of(inStream)
    if (message(0) == 'Y') definition(types, position, message, inStream)
    else {
      startCommit(row.getLong(LSN))
      if (message(0) == 'R') definition(relations, position, message, inStream)
      else rows.start(this, transaction(row), position, message, context)
    }
  }

  /** Each transaction comes with all that it refers to; what another was sent does not count. */
  private def startCommit(lsn: Long): Unit = if (lsn != commitLsn) {
    relations.clear()
    commitLsn = lsn
  }

  def hasNext: Boolean = rows.hasNext

  /** The next row, in memory that the one after it is written to. */
  def next(): UnsafeRow = rows.next()

  private def definition(
      known: mutable.LongMap[SentMessage],
      position: Long,
      message: Array[Byte],
      inStream: Boolean
  ): Unit = {
    val oid =
      fields.definedOid(message, fields.read(position, message, StreamContext.of(inStream)))
    known.update(oid, SentMessage(oid, position, message, inStream))
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
