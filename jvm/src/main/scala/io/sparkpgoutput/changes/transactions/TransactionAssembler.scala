package io.sparkpgoutput.changes.transactions

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.MessageSchema._
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext._
import io.sparkpgoutput.protocol.TextEncoding

/**
 * Assembles the transactions of a stream from its messages in order. A stream is what a reader of one
 * replication slot stored. This head explains which changes are committed: '''transactions, and those that are
 * sent again'''.
 *
 * {{{
 *   B  changes  C                           a transaction, which is sent when it has committed
 *   S xid  changes  E  …  c xid             a streamed transaction: blocks while it is open, and its commit
 *                      …  A xid subxid      a savepoint in it is rolled back; all of it if both xids are equal
 *   b  changes  P      …  K xid gid         a prepared transaction, and COMMIT PREPARED (r: ROLLBACK PREPARED)
 *   S xid  changes  E  …  p xid  …  K       a streamed transaction that is prepared
 *
 *   messages ──► TransactionAssembler ──► TransactionHandler: begin, change, commit, drop
 *                     ▲      │
 *                     └──────┘  AssemblerState: open transactions without their changes, table definitions
 * }}}
 *
 * '''Which transaction a change belongs to.''' The [[StreamPhase]] says it: between B and C or b and P it is
 * the transaction that has begun, and in a block from S to E it is the streamed one. Blocks of several
 * transactions can alternate. The handler gets each change. A streaming query keeps the change until the
 * commit. A batch query already knows the commit.
 *
 * '''How a rolled back savepoint is left out.''' In a block, each change has the xid of its subtransaction. A Stream
 * Abort has two xids. If they differ, the second one is that of a subtransaction, which is added to
 * [[Transaction.aborted]]. The handler leaves out the changes with these xids. This is enough because the server
 * sends the abort before the commit, and no two subtransactions of a transaction have the same xid. Between B and C
 * the server has left out such changes itself.
 *
 *  - A streaming query leaves them out when the transaction commits: `SourceBatch`, in `TransactionProcessor.scala`.
 *  - A batch query knows the commit and these xids from its first pass, in `SummarizedStreams.scala`. It leaves out
 *    each change when it reads the change: [[io.sparkpgoutput.changes.rows.ChangeRowWriter]].
 *
 * '''What is sent again.''' The server sends transactions in the order of their commit LSNs. When a reader has
 * lost its connection, the server sends again what the reader had not confirmed.
 *
 *  - A commit whose LSN is not above those of all earlier commits was sent before, and is left out.
 *    [[CommitHistory]] compares its xid too: if no earlier commit has this LSN and xid, the messages are not of
 *    one stream, which is an error.
 *  - A transaction that is cut off, after B or b, is dropped at the next message that is between
 *    transactions: the server sends it again from its beginning, or it was rolled back.
 *  - A first block S drops what was streamed with the same xid, as b, K and r do. A transaction from B to C also
 *    drops what was prepared with it.
 *  - A prepared transaction replaces an earlier one with the same xid and gid.
 *
 * '''What has no beginning.''' If the first messages of a stream are missing, a commit can belong to a
 * transaction whose changes are not there. That is an error, unless the commit was sent before, is not above
 * the option `after`, or `skipIncomplete` is true.
 *
 * '''Which definition of a table applies.''' A Relation message in a block applies only to its transaction until
 * the transaction commits, because other transactions can see another definition. After the commit, it applies to
 * all, because the server does not send it again. A Relation message outside of blocks applies to all at once.
 *
 * @param start the state before the first message
 * @see [[https://www.postgresql.org/docs/current/protocol-logical-replication.html]]
 * @see `src/backend/replication/logical/reorderbuffer.c` and `src/backend/replication/pgoutput/pgoutput.c`
 */
final class TransactionAssembler(
    options: AssemblerOptions,
    start: AssemblerState,
    commits: CommitHistory,
    handler: TransactionHandler
) {
  private val fields = new ControlMessageDecoder(options.encoding)

  /** The relations and types after the last message. */
  val known = new KnownRelations
  private var phase: StreamPhase.Value = start.phase
  private var begun: Transaction = start.begun.orNull
  private val streamed = mutable.LongMap.from(start.streamed.map(t => t.xid -> t))
  private val prepared = mutable.HashMap.from(start.prepared.map(t => (t.xid, t.gid) -> t))
  private var current: Transaction =
    if (phase == StreamPhase.InStream) streamed(start.streamedXid) else begun

  start.definitions.foreach(known.add)
  commits.continueFrom(start.greatestCommit)

  /** The state after the last message. Its transactions are copies, because they may continue. */
  def state: AssemblerState = AssemblerState(
    phase,
    Option(begun).map(_.copy()),
    if (phase == StreamPhase.InStream) current.xid else 0,
    streamed.values.map(_.copy()).toSeq,
    prepared.values.map(_.copy()).toSeq,
    known.all,
    commits.greatest
  )

  /** Takes the next message. It ignores a message of zero bytes, which means that there is no message. */
  def message(position: Long, message: Array[Byte]): Unit =
    if (message.length > 0) (message(0).toChar: @switch) match {
      case Tag.Insert | Tag.Update | Tag.Delete | Tag.Truncate => change(position, message)
      case Tag.Relation | Tag.Type                             => schema(position, message)
      case Tag.Message                                         => logicalMessage(position, message)
      case _                                                   => control(position, message)
    }

  private def control(position: Long, message: Array[Byte]): Unit = {
    val row = fields.decode(position, message, OUTSIDE)
    val tag = message(0).toChar
    // Origin is in a transaction, and Commit and Prepare end one. The others are between transactions.
    if (tag != Tag.Origin && tag != Tag.Commit && tag != Tag.Prepare) betweenTransactions()
    (tag: @switch) match {
      case Tag.StreamStop       => ()
      case Tag.Begin            => begin(position, row)
      case Tag.Commit           => commit(position, row)
      case Tag.Origin           => if (current != null) current.origin = row.getString(ORIGIN)
      case Tag.StreamStart      => streamStart(position, row)
      case Tag.StreamCommit     => streamCommit(position, row)
      case Tag.StreamAbort      => streamAbort(row)
      case Tag.BeginPrepare     => beginPrepare(position, row)
      case Tag.Prepare          => prepare(row)
      case Tag.CommitPrepared   => commitPrepared(position, row)
      case Tag.RollbackPrepared => decide(row).foreach(handler.drop)
      case Tag.StreamPrepare    => streamPrepare(row)
    }
  }

  /**
   * Takes a number of changes that follow one another, instead of their messages.
   *
   * @param first the message of the first change; null if an earlier message has shown the phase
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

  private def schema(position: Long, message: Array[Byte]): Unit = {
    val sent = fields.definition(position, message, context)
    if (phase == StreamPhase.InStream && !sent.isType) current.define(sent) else known.add(sent)
  }

  /** A logical message that cannot be in this phase shows that a transaction was cut off. */
  private def logicalMessage(position: Long, message: Array[Byte]): Unit = phase match {
    case StreamPhase.InStream => if (fields.isOutside(position, message)) betweenTransactions()
    case _ => if (!fields.decode(position, message, context).getBoolean(TRANSACTIONAL)) {
        betweenTransactions()
      }
  }

  private def begin(position: Long, row: UnsafeRow): Unit = {
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
      commit(close(), position, lsn, row.getLong(TIMESTAMP))
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
    val xid = row.getLong(XID)
    val isFirst = row.getBoolean(FIRST_SEGMENT)
    if (isFirst) streamed.remove(xid).foreach(handler.drop)
    current = streamed.getOrElseUpdate(xid, Transaction(xid, position, hasBeginning = isFirst))
    if (isFirst) handler.begin(current)
    phase = StreamPhase.InStream
  }

  private def streamCommit(position: Long, row: UnsafeRow): Unit = {
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
    val xid = row.getLong(XID)
    val subxid = row.getLong(SUBXID)
    if (xid == subxid) streamed.remove(xid).foreach(handler.drop)
    else streamed.get(xid).foreach(_.aborted += subxid)
  }

  private def beginPrepare(position: Long, row: UnsafeRow): Unit = {
    val xid = row.getLong(XID)
    streamed.remove(xid).foreach(handler.drop)
    open(StreamPhase.InPrepare, new Transaction(xid, position, true, gid = row.getString(GID)))
  }

  private def prepare(row: UnsafeRow): Unit = {
    val same = phase == StreamPhase.InPrepare &&
      begun.xid == row.getLong(XID) && begun.gid == row.getString(GID)
    if (same) keepPrepared(close()) else betweenTransactions()
  }

  private def streamPrepare(row: UnsafeRow): Unit =
    streamed.remove(row.getLong(XID)).filter(_.hasBeginning).foreach { transaction =>
      transaction.gid = row.getString(GID)
      keepPrepared(transaction)
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

  /** Removes the prepared transaction that a message commits or rolls back. */
  private def decide(row: UnsafeRow): Option[Transaction] = {
    val xid = row.getLong(XID)
    streamed.remove(xid).foreach(handler.drop)
    prepared.remove((xid, row.getString(GID)))
  }

  private def open(phase: StreamPhase.Value, transaction: Transaction): Unit = {
    this.phase = phase
    begun = transaction
    current = transaction
    handler.begin(transaction)
  }

  /** Ends the transaction of Begin or Begin Prepare, if there is one, and returns it. */
  private def close(): Transaction = {
    val ended = begun
    phase = StreamPhase.Between
    begun = null
    current = null
    ended
  }

  /**
   * The next message is between transactions. A transaction that has begun, and was neither committed
   * nor prepared, is cut off. A streamed transaction can still continue.
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
      if (!commits.isAbove(lsn)) throw CommitHistory.wentBack(position, xid, lsn)
      incomplete(s"$message of a transaction", position, xid, gid)
      commits.accepts(lsn, xid.getOrElse(CommitHistory.UnknownXid), position)
    }

  private def incomplete(what: String, position: Long, xid: Option[Long], gid: Option[String]) =
    if (!options.skipIncomplete) {
      val ids = xid.map(id => s"xid $id") ++ gid.map(id => s"gid '$id'")
      throw new PgOutputException(
        "PGOUTPUT_INCOMPLETE_TRANSACTION.NO_BEGINNING",
        "position" -> position,
        "message" -> (if (ids.isEmpty) what else ids.mkString(s"$what (", ", ", ")"))
      )
    }
}

object TransactionAssembler {

  /**
   * The number of ordinals that a change takes in its transaction. It is two, for a pre-image and a
   * post-image, or at least the number of tables of a Truncate.
   */
  def ordinals(message: Array[Byte]): Long =
    if (message(0) == Tag.Truncate) math.max(2L, message.length.toLong / 4) else 2L
}

/** Handles the transactions of a stream, in the order in which [[TransactionAssembler]] finds them. */
trait TransactionHandler {

  /** A transaction begins. If a part of it was sent before, that part was dropped. */
  def begin(transaction: Transaction): Unit = ()

  /**
   * A transaction has a change: an Insert, Update, Delete or Truncate message, not yet decoded.
   *
   * @param context a [[io.sparkpgoutput.protocol.StreamContext]] other than UNKNOWN
   */
  def change(transaction: Transaction, position: Long, message: Array[Byte], context: Int): Unit

  /** A transaction is committed. */
  def commit(transaction: Transaction, commit: Commit): Unit = ()

  /** A transaction is rolled back, or its changes were returned before. */
  def drop(transaction: Transaction): Unit = ()
}

/**
 * The options for assembling transactions.
 *
 * @param after the same as in [[CommitHistory]]
 * @param skipIncomplete
 *   true leaves out a committed transaction whose beginning is missing; false makes it an error
 */
final case class AssemblerOptions(after: Long, skipIncomplete: Boolean, encoding: TextEncoding)

/**
 * The part of the protocol to which the next message of a stream belongs. Checkpoints have the numbers of the
 * phases, so their order never changes.
 */
object StreamPhase extends Enumeration {

  /** The first messages are missing, so the stream may begin anywhere. */
  val Unknown: Value = Value

  /** Between transactions. */
  val Between: Value = Value

  /** Between Begin and Commit. */
  val InTransaction: Value = Value

  /** Between Begin Prepare and Prepare. */
  val InPrepare: Value = Value

  /** Between Stream Start and Stream Stop. */
  val InStream: Value = Value
}
