package io.sparkpgoutput.changes.transactions

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.protocol.MessageSchema._
import io.sparkpgoutput.protocol.StreamContext._

/**
 * Follows a stream of messages, in order: tells which transaction each change belongs to, and what
 * becomes of transactions.
 *
 * A stream is what a reader of one replication slot stored. Where the reader lost its connection and
 * came back, the stream has a seam: something is cut off, and what was not confirmed comes again.
 *
 * @param start
 *   what is known from the messages before
 * @param skipIncomplete
 *   whether a committed transaction, of which the beginning is not there, is left out or an error
 * @see
 *   PostgreSQL documentation, "Logical Streaming Replication Protocol"; `reorderbuffer.c`
 */
final class TransactionAssembler(
    start: AssemblerState,
    fields: ControlMessageDecoder,
    commits: CommitHistory,
    handler: TransactionHandler,
    skipIncomplete: Boolean
) extends KnownRelations {
  private var phase: StreamPhase = start.phase
  private var begun: Transaction = start.begun.orNull
  private val streamed = mutable.LongMap.from(start.streamed.map(t => t.xid -> t))
  private val prepared = mutable.HashMap.from(start.prepared.map(t => (t.xid, t.gid) -> t))
  private val relations = mutable.LongMap.from(start.relations.map(sent => sent.oid -> sent))
  private val types = mutable.LongMap.from(start.types.map(sent => sent.oid -> sent))
  private var current: Transaction =
    if (phase == StreamPhase.InStream) streamed(start.streamedXid) else begun

  commits.continueFrom(start.greatestCommit)

  /** What is known after the last message. Transactions are copied, for they go on. */
  def state: AssemblerState = AssemblerState(
    phase,
    Option(begun).map(_.copy()),
    if (phase == StreamPhase.InStream) current.xid else 0,
    streamed.values.map(_.copy()).toSeq,
    prepared.values.map(_.copy()).toSeq,
    relations.values.toSeq,
    types.values.toSeq,
    commits.greatest
  )

  override def typeMessages: Iterable[SchemaMessage] = types.values

  override def relation(transaction: Transaction, oid: Long): SchemaMessage = {
    val own = transaction.relation(oid)
    if (own == null) relations.getOrNull(oid) else own
  }

  /** Takes the next message. One of zero bytes, of a dropped origin, is none. */
  def message(position: Long, message: Array[Byte]): Unit =
    if (message.length > 0) (message(0).toChar: @switch) match {
      case 'I' | 'U' | 'D' | 'T' => change(position, message)
      case 'R' | 'Y'             => definition(position, message)
      case 'M'                   => logicalMessage(position, message)
      case _                     => control(position, message)
    }

  private def control(position: Long, message: Array[Byte]): Unit = {
    val row = fields.read(position, message, OUTSIDE)
    (message(0).toChar: @switch) match {
      case 'B' => begin(position, row)
      case 'C' => commit(position, row)
      case 'O' => if (current != null) current.origin = row.getString(ORIGIN)
      case 'S' => streamStart(position, row)
      case 'E' => cutOff() // what it ends, or was cut off before
      case 'c' => streamCommit(position, row)
      case 'A' => streamAbort(row)
      case 'b' => beginPrepare(position, row)
      case 'P' => prepare(row)
      case 'K' => commitPrepared(position, row)
      case 'r' => rollbackPrepared(row)
      case 'p' => streamPrepare(row)
    }
  }

  /**
   * Takes, in phase of their messages, a number of changes that follow one another.
   *
   * @param first
   *   the first of them
   * @param ordinals
   *   how many [[TransactionAssembler.ordinals]] they take in all
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

  /** Takes, in phase of its messages, a whole transaction from Begin to Commit. */
  def wholeTransaction(lsn: Long, xid: Long, position: Long): Unit = {
    cutOff()
    forget(xid)
    commits.accepts(lsn, xid, position)
  }

  private def context: Int =
    if (phase == StreamPhase.InStream) INSIDE
    else if (phase == StreamPhase.Unknown) UNKNOWN else OUTSIDE

  /** Relation, Type: in a stream block a Relation holds for its transaction only, until its commit. */
  private def definition(position: Long, message: Array[Byte]): Unit = {
    val sent = fields.definition(position, message, context)
    if (message(0) == 'Y') types.update(sent.oid, sent)
    else if (phase == StreamPhase.InStream) current.define(sent)
    else relations.update(sent.oid, sent)
  }

  /** Message: is no change, but tells where something was cut off, for it cannot stand everywhere. */
  private def logicalMessage(position: Long, message: Array[Byte]): Unit = phase match {
    case StreamPhase.InStream => if (fields.isOutside(position, message)) cutOff()
    case _ => if (!fields.read(position, message, context).getBoolean(TRANSACTIONAL)) cutOff()
  }

  private def begin(position: Long, row: UnsafeRow): Unit = {
    cutOff()
    val xid = row.getLong(XID)
    forget(xid)
    open(
      StreamPhase.InTransaction,
      new Transaction(xid, position, true, row.getLong(LSN), row.getLong(TIMESTAMP))
    )
  }

  /** A transaction that comes as B..C is neither streamed nor prepared any more. */
  private def forget(xid: Long): Unit = {
    if (streamed.nonEmpty) streamed.remove(xid).foreach(handler.drop)
    if (prepared.nonEmpty) {
      prepared.keysIterator.filter(
        _._1 == xid
      ).toSeq.foreach(prepared.remove(_).foreach(handler.drop))
    }
  }

  private def commit(position: Long, row: UnsafeRow): Unit = {
    val lsn = row.getLong(LSN)
    if (phase == StreamPhase.InTransaction && begun.commitLsn == lsn) {
      val transaction = begun
      close()
      commit(transaction, position, lsn, row.getLong(TIMESTAMP))
    } else {
      cutOff()
      withoutBeginning("COMMIT", position, lsn, None, None)
    }
  }

  private def commit(transaction: Transaction, position: Long, lsn: Long, timestamp: Long): Unit =
    if (commits.accepts(lsn, transaction.xid, position)) {
      handler.commit(
        transaction,
        Commit(lsn, timestamp, transaction.gid, transaction.aborted)
      )
    } else handler.drop(transaction)

  private def streamStart(position: Long, row: UnsafeRow): Unit = {
    cutOff()
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
    cutOff()
    val xid = row.getLong(XID)
    val lsn = row.getLong(LSN)
    val transaction = streamed.remove(xid)
    transaction.foreach(t => keepRelations(t.relations))
    transaction match {
      case Some(t) if t.hasBeginning => commit(t, position, lsn, row.getLong(TIMESTAMP))
      case _ => withoutBeginning("STREAM_COMMIT", position, lsn, Some(xid), None)
    }
  }

  /**
   * What a streamed transaction was sent is not sent again after its commit
   * (`cleanup_rel_sync_cache` in `pgoutput.c`), but may have been, outside of it, before.
   */
  private def keepRelations(sent: Seq[SchemaMessage]): Unit = sent.foreach { relation =>
    if (!relations.get(relation.oid).exists(_.position > relation.position)) {
      relations.update(relation.oid, relation)
    }
  }

  /** A subtransaction's, or with the same xid twice the whole transaction's. */
  private def streamAbort(row: UnsafeRow): Unit = {
    cutOff()
    val xid = row.getLong(XID)
    val subxid = row.getLong(SUBXID)
    if (xid == subxid) streamed.remove(xid).foreach(handler.drop)
    else streamed.get(xid).foreach(_.aborted += subxid)
  }

  private def beginPrepare(position: Long, row: UnsafeRow): Unit = {
    cutOff()
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
    } else cutOff()
  }

  private def streamPrepare(row: UnsafeRow): Unit = {
    cutOff()
    streamed.remove(row.getLong(XID)).filter(_.hasBeginning).foreach { transaction =>
      transaction.gid = row.getString(GID)
      keepPrepared(transaction)
    }
  }

  /** A transaction that is sent again replaces what was sent of it before. */
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

  /** Removes the prepared transaction that a message decides about. */
  private def decide(row: UnsafeRow): Option[Transaction] = {
    cutOff()
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

  /** Nothing is open at this phase any more. */
  private def close(): Unit = {
    phase = StreamPhase.Between
    begun = null
    current = null
  }

  /**
   * What comes now stands between transactions. Where one was open that was neither committed nor
   * prepared, the reader had lost its connection: what was sent comes again, or was rolled back. A
   * streamed one can still go on.
   */
  private def cutOff(): Unit = {
    if (begun != null) handler.drop(begun)
    close()
  }

  /** A commit of what the stream does not have from its beginning on. */
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
   * How many numbers the rows of a change take in its transaction: two, for a pre-image and a
   * post-image, or at least as many as a Truncate names tables.
   */
  def ordinals(message: Array[Byte]): Long =
    if (message(0) == 'T') math.max(2L, message.length.toLong / 4) else 2L
}
