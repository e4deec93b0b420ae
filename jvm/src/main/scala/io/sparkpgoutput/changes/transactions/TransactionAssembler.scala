package io.sparkpgoutput.changes.transactions

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.protocol.MessageSchema._
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext._

/**
 * Assembles the transactions of a stream from its messages in order. It tells a handler which
 * transaction each change belongs to, and when a transaction is committed or dropped.
 *
 * A stream is what a reader of one replication slot stored. If the reader lost its connection and
 * came back, a transaction is cut off there, and the server sends again what was not confirmed.
 *
 * @param start the state before the first message
 * @see PostgreSQL documentation, "Logical Streaming Replication Protocol"; `reorderbuffer.c`
 */
final class TransactionAssembler(
    start: AssemblerState,
    fields: ControlMessageDecoder,
    commits: CommitHistory,
    handler: TransactionHandler,
    skipIncomplete: Boolean
) {

  /** The relations and types after the last message. */
  val known = new KnownRelations
  private var phase: StreamPhase = start.phase
  private var begun: Transaction = start.begun.orNull
  private val streamed = mutable.LongMap.from(start.streamed.map(t => t.xid -> t))
  private val prepared = mutable.HashMap.from(start.prepared.map(t => (t.xid, t.gid) -> t))
  private var current: Transaction =
    if (phase == StreamPhase.InStream) streamed(start.streamedXid) else begun

  (start.relations ++ start.types).foreach(known.add)
  commits.continueFrom(start.greatestCommit)

  /** The state after the last message. Its transactions are copies, because they may continue. */
  def state: AssemblerState = AssemblerState(
    phase,
    Option(begun).map(_.copy()),
    if (phase == StreamPhase.InStream) current.xid else 0,
    streamed.values.map(_.copy()).toSeq,
    prepared.values.map(_.copy()).toSeq,
    known.relationMessages.toSeq,
    known.typeMessages.toSeq,
    commits.greatest
  )

  /** Takes the next message. It ignores a message of zero bytes, which stands for no message. */
  def message(position: Long, message: Array[Byte]): Unit =
    if (message.length > 0) (message(0).toChar: @switch) match {
      case Tag.Insert | Tag.Update | Tag.Delete | Tag.Truncate => change(position, message)
      case Tag.Relation | Tag.Type                             => schema(position, message)
      case Tag.Message                                         => logicalMessage(position, message)
      case _                                                   => control(position, message)
    }

  private def control(position: Long, message: Array[Byte]): Unit = {
    val row = fields.decode(position, message, OUTSIDE)
    (message(0).toChar: @switch) match {
      case Tag.Begin            => begin(position, row)
      case Tag.Commit           => commit(position, row)
      case Tag.Origin           => if (current != null) current.origin = row.getString(ORIGIN)
      case Tag.StreamStart      => streamStart(position, row)
      case Tag.StreamStop       => betweenTransactions()
      case Tag.StreamCommit     => streamCommit(position, row)
      case Tag.StreamAbort      => streamAbort(row)
      case Tag.BeginPrepare     => beginPrepare(position, row)
      case Tag.Prepare          => prepare(row)
      case Tag.CommitPrepared   => commitPrepared(position, row)
      case Tag.RollbackPrepared => rollbackPrepared(row)
      case Tag.StreamPrepare    => streamPrepare(row)
    }
  }

  /**
   * Takes a number of changes that follow one another, instead of their messages.
   *
   * @param first the message of the first change
   * @param ordinals the sum of their [[TransactionAssembler.ordinals]]
   */
  def changes(position: Long, first: Array[Byte], number: Long, ordinals: Long): Unit =
    if (current != null) {
      current.changes += number
      current.nextOrdinal += ordinals
    } else if (phase != StreamPhase.Unknown || fields.isOutside(position, first)) {
      incomplete("a change outside of any transaction", position, None, None)
    }

  private def change(position: Long, message: Array[Byte]): Unit = {
    if (current != null && current.hasBeginning) handler.change(current, position, message, context)
    changes(position, message, 1, TransactionAssembler.ordinals(message))
  }

  /** Takes a whole transaction from Begin to Commit, instead of its messages. */
  def wholeTransaction(lsn: Long, xid: Long, position: Long): Unit = {
    betweenTransactions()
    forget(xid)
    commits.accepts(lsn, xid, position)
  }

  private def context: Int =
    if (phase == StreamPhase.InStream) INSIDE
    else if (phase == StreamPhase.Unknown) UNKNOWN else OUTSIDE

  /** Until its commit, a Relation message in a stream block is valid for its transaction only. */
  private def schema(position: Long, message: Array[Byte]): Unit = {
    val sent = fields.definition(position, message, context)
    if (phase == StreamPhase.InStream && !sent.isType) current.define(sent) else known.add(sent)
  }

  /** A logical message shows if something was cut off, because it cannot stand everywhere. */
  private def logicalMessage(position: Long, message: Array[Byte]): Unit = phase match {
    case StreamPhase.InStream => if (fields.isOutside(position, message)) betweenTransactions()
    case _ => if (!fields.decode(position, message, context).getBoolean(TRANSACTIONAL)) {
        betweenTransactions()
      }
  }

  private def begin(position: Long, row: UnsafeRow): Unit = {
    betweenTransactions()
    val xid = row.getLong(XID)
    forget(xid)
    open(
      StreamPhase.InTransaction,
      new Transaction(xid, position, true, row.getLong(LSN), row.getLong(TIMESTAMP))
    )
  }

  /** A transaction that comes from Begin to Commit is neither streamed nor prepared any more. */
  private def forget(xid: Long): Unit = {
    if (streamed.nonEmpty) streamed.remove(xid).foreach(handler.drop)
    if (prepared.nonEmpty)
      prepared.keys.toSeq.filter(_._1 == xid).foreach(prepared.remove(_).foreach(handler.drop))
  }

  private def commit(position: Long, row: UnsafeRow): Unit = {
    val lsn = row.getLong(LSN)
    if (phase == StreamPhase.InTransaction && begun.commitLsn == lsn) {
      val transaction = begun
      close()
      commit(transaction, position, lsn, row.getLong(TIMESTAMP))
    } else {
      betweenTransactions()
      withoutBeginning("COMMIT", position, lsn, None, None)
    }
  }

  private def commit(transaction: Transaction, position: Long, lsn: Long, timestamp: Long): Unit =
    if (commits.accepts(lsn, transaction.xid, position)) {
      handler.commit(transaction, Commit(lsn, timestamp, transaction.gid, transaction.aborted))
    } else handler.drop(transaction)

  private def streamStart(position: Long, row: UnsafeRow): Unit = {
    betweenTransactions()
    val xid = row.getLong(XID)
    if (row.getBoolean(FIRST_SEGMENT)) {
      streamed.remove(xid).foreach(handler.drop)
      streamed.update(xid, new Transaction(xid, position, hasBeginning = true))
      handler.begin(streamed(xid))
    } else if (!streamed.contains(xid)) {
      streamed.update(xid, new Transaction(xid, position, hasBeginning = false))
    }
    current = streamed(xid)
    phase = StreamPhase.InStream
  }

  private def streamCommit(position: Long, row: UnsafeRow): Unit = {
    betweenTransactions()
    val xid = row.getLong(XID)
    val lsn = row.getLong(LSN)
    val transaction = streamed.remove(xid)
    // The server will not send the Relation messages of the blocks again (`cleanup_rel_sync_cache` in
    // `pgoutput.c`). It may have sent later ones outside of the blocks.
    transaction.foreach(_.relations.foreach(known.addIfLast))
    transaction match {
      case Some(t) if t.hasBeginning => commit(t, position, lsn, row.getLong(TIMESTAMP))
      case _ => withoutBeginning("STREAM_COMMIT", position, lsn, Some(xid), None)
    }
  }

  /** Rolls back a subtransaction, or the whole transaction if both xids are the same. */
  private def streamAbort(row: UnsafeRow): Unit = {
    betweenTransactions()
    val xid = row.getLong(XID)
    val subxid = row.getLong(SUBXID)
    if (xid == subxid) streamed.remove(xid).foreach(handler.drop)
    else streamed.get(xid).foreach(_.aborted += subxid)
  }

  private def beginPrepare(position: Long, row: UnsafeRow): Unit = {
    betweenTransactions()
    val xid = row.getLong(XID)
    streamed.remove(xid).foreach(handler.drop)
    open(StreamPhase.InPrepare, new Transaction(xid, position, true, gid = row.getString(GID)))
  }

  private def prepare(row: UnsafeRow): Unit = {
    val same = phase == StreamPhase.InPrepare &&
      begun.xid == row.getLong(XID) && begun.gid == row.getString(GID)
    if (same) {
      val transaction = begun
      close()
      keepPrepared(transaction)
    } else betweenTransactions()
  }

  private def streamPrepare(row: UnsafeRow): Unit = {
    betweenTransactions()
    streamed.remove(row.getLong(XID)).filter(_.hasBeginning).foreach { transaction =>
      transaction.gid = row.getString(GID)
      keepPrepared(transaction)
    }
  }

  /** A transaction that is sent again replaces what was sent before. */
  private def keepPrepared(transaction: Transaction): Unit =
    prepared.put((transaction.xid, transaction.gid), transaction).foreach(handler.drop)

  private def commitPrepared(position: Long, row: UnsafeRow): Unit = {
    val lsn = row.getLong(LSN)
    decide(row) match {
      case Some(transaction) => commit(transaction, position, lsn, row.getLong(TIMESTAMP))
      case None =>
        val gid = Some(row.getString(GID))
        withoutBeginning("COMMIT_PREPARED", position, lsn, Some(row.getLong(XID)), gid)
    }
  }

  private def rollbackPrepared(row: UnsafeRow): Unit = decide(row).foreach(handler.drop)

  /** Removes the prepared transaction that a message commits or rolls back. */
  private def decide(row: UnsafeRow): Option[Transaction] = {
    betweenTransactions()
    val xid = row.getLong(XID)
    streamed.remove(xid).foreach(handler.drop)
    prepared.remove((xid, row.getString(GID)))
  }

  private def open(phase: StreamPhase, transaction: Transaction): Unit = {
    this.phase = phase
    begun = transaction
    current = transaction
    handler.begin(transaction)
  }

  /** The transaction of Begin or Begin Prepare is complete. */
  private def close(): Unit = {
    phase = StreamPhase.Between
    begun = null
    current = null
  }

  /**
   * The next message stands between transactions. If a transaction has begun that was neither
   * committed nor prepared, the reader lost its connection. The server sends the transaction again,
   * or rolled it back. A streamed transaction may still continue.
   */
  private def betweenTransactions(): Unit = {
    if (begun != null) handler.drop(begun)
    close()
  }

  /** A commit of a transaction whose beginning is missing. */
  private def withoutBeginning(
      message: String,
      position: Long,
      lsn: Long,
      xid: Option[Long],
      gid: Option[String]
  ): Unit =
    if (!commits.repeats(lsn, xid) && commits.isAfter(lsn)) {
      if (!commits.isAbove(lsn)) throw ChangesError.wentBack(lsn, xid, position)
      incomplete(s"$message of a transaction", position, xid, gid)
      commits.accepts(lsn, xid.getOrElse(CommitHistory.UnknownXid), position)
    }

  private def incomplete(what: String, position: Long, xid: Option[Long], gid: Option[String]) =
    if (!skipIncomplete) throw ChangesError.incomplete(what, position, xid, gid)
}

object TransactionAssembler {

  /**
   * The number of ordinals that a change takes in its transaction. It is two, for a pre-image and a
   * post-image, or at least the number of tables of a Truncate.
   */
  def ordinals(message: Array[Byte]): Long =
    if (message(0) == Tag.Truncate) math.max(2L, message.length.toLong / 4) else 2L
}
