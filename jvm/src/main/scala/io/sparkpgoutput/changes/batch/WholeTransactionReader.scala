package io.sparkpgoutput.changes.batch

import scala.annotation.switch

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeRowWriter}
import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.protocol.MessageSchema.{LSN, ORIGIN, TIMESTAMP, XID}
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext.OUTSIDE

/**
 * Reads the changes of whole transactions in the order of their commits, as a server sends them
 * without streaming and without two-phase commit. A Begin message has the LSN and the time of the
 * commit, so one pass is enough, and the reader keeps nothing but relations and types. Not
 * thread-safe.
 *
 * The position of a message is the number of messages before it.
 */
final class WholeTransactionReader(format: ChangeFormat) {
  private val decoder = new ControlMessageDecoder(format.options.encoding)
  private val rows = new ChangeRowWriter(format)
  private val known = new KnownRelations

  /** The transaction whose Commit message is still to come, or null. */
  private var transaction: Transaction = _
  private var lastCommit = 0L
  private var position = -1L

  /** Takes the next message and returns its rows. Take all rows before the next message. */
  def message(message: Array[Byte]): Iterator[UnsafeRow] = {
    position += 1
    if (message.length > 0) (message(0).toChar: @switch) match {
      case Tag.Insert | Tag.Update | Tag.Delete | Tag.Truncate => change(message)
      case Tag.Begin                                           => begin(message)
      case Tag.Commit                                          => commit(message)
      case Tag.Relation | Tag.Type => known.add(decoder.definition(position, message, OUTSIDE))
      case Tag.Origin              => open("an ORIGIN").origin = fields(message).getString(ORIGIN)
      // PostgreSQL 18 sends Stream Abort for a rolled back transaction without streaming too.
      case Tag.Message | Tag.StreamAbort => fields(message)
      case _ =>
        fields(message)
        throw notWhole("a message of a streamed or prepared transaction")
    }
    rows
  }

  private def fields(message: Array[Byte]) = decoder.decode(position, message, OUTSIDE)

  private def open(what: String): Transaction = {
    if (transaction == null) throw notWhole(s"$what outside of a transaction")
    transaction
  }

  private def begin(message: Array[Byte]): Unit = {
    val row = fields(message)
    val lsn = row.getLong(LSN)
    if (transaction != null) throw notWhole("a BEGIN before the COMMIT of another transaction")
    if (!Lsn.isBelow(lastCommit, lsn))
      throw CommitHistory.wentBack(position, Some(row.getLong(XID)), lsn)
    transaction = Transaction(row.getLong(XID), position, hasBeginning = true, lsn)
    transaction.commit = Commit(lsn, row.getLong(TIMESTAMP), null, Set.empty)
  }

  private def change(message: Array[Byte]): Unit = {
    rows.start(known, open("a change"), position, message, OUTSIDE)
    transaction.nextOrdinal += TransactionAssembler.ordinals(message)
  }

  private def commit(message: Array[Byte]): Unit = {
    lastCommit = open("a COMMIT").commitLsn
    if (fields(message).getLong(LSN) != lastCommit)
      throw notWhole("a COMMIT of another transaction than the last BEGIN's")
    transaction = null
  }

  private def notWhole(what: String) = new PgOutputException(
    "PGOUTPUT_INCOMPLETE_TRANSACTION.NOT_WHOLE",
    "position" -> position,
    "message" -> what
  )
}
