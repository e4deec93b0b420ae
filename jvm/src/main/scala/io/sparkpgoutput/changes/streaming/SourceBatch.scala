package io.sparkpgoutput.changes.streaming

import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.sql.Row

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.changes.rows.ChangeMessageDecoder
import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext

/** Processes the messages of one source in one micro-batch. */
final class SourceBatch(
    source: Any,
    options: AssemblerOptions,
    abandoned: Set[Long],
    store: SourceStore
) extends TransactionHandler {
  private val start = store.get()
  private val buffer = new TransactionBuffer(store.chunks, mutable.LongMap.from(start.chunks))
  private val commits = new StoredCommits(options.after, store.xids, store.lsns, start.commits)

  /** The positions of the Relation messages in the buffer, by the transaction's first position and oid. */
  private val bufferedRelations = mutable.LongMap.empty[mutable.LongMap[Long]]

  // It drops the abandoned transactions, so it comes behind what they are dropped from.
  private val assembler = options.assembler(withoutAbandoned, commits, this)
  private val decoder = new ChangeMessageDecoder(options.encoding)
  private var last = start.lastPosition

  /** The earlier Relation and Type messages at positions that the stream has not passed yet. */
  private val ahead = mutable.LongMap.from(
    (start.assembler.relations ++ start.assembler.types)
      .filter(sent => last.forall(sent.position > _))
      .map(sent => sent.position -> sent.message)
  )

  private var output: Iterator[Row] = Iterator.empty

  /**
   * Drops the abandoned transactions. If the stream is inside a block of such a transaction, the
   * rest of the block is not read.
   */
  private def withoutAbandoned: AssemblerState = {
    import start.assembler._
    val (dropped, kept) = streamed.partition(open => abandoned(open.xid))
    dropped.foreach(drop)
    val inBlock = dropped.filter(open => phase == StreamPhase.InStream && open.xid == streamedXid)
    start.assembler.copy(streamed = kept ++ inBlock.map(_.copy(hasBeginning = false)))
  }

  /** Returns the Type messages, because their reader forgets them after each micro-batch. */
  def begin(): Iterator[Row] =
    assembler.known.typeMessages.iterator.map(CommittedMessage.definition(_, source))

  /** Takes the next message and returns the messages that it commits. */
  def message(position: Long, message: Array[Byte]): Iterator[Row] = {
    if (last.exists(position <= _)) throw ChangesError.outOfOrder(position, last.get)
    if (message == null) throw ChangesError.nullMessage(position)
    if (ahead.nonEmpty) checkPositions(position, message)
    last = Some(position)
    output = Iterator.empty
    assembler.message(position, message)
    if (message.length > 0 && message(0) == Tag.Type) {
      output = assembler.known.typeMessages
        .find(_.position == position)
        .iterator
        .map(CommittedMessage.definition(_, source))
    }
    output
  }

  private def checkPositions(position: Long, message: Array[Byte]): Unit =
    ahead.remove(position).foreach { earlier =>
      if (!Arrays.equals(earlier, message)) throw ChangesError.positionsBeganAgain(position)
    }

  /** Stores the state. There are no messages left to return. */
  def end(): Iterator[Row] = {
    store.update(SourceState(last, commits.count, buffer.storeAll(), assembler.state))
    Iterator.empty
  }

  override def begin(transaction: Transaction): Unit = ()

  /** Decodes the message, so that a malformed one stops the query before it is stored. */
  override def change(
      transaction: Transaction,
      position: Long,
      message: Array[Byte],
      context: Int
  ): Unit = {
    decoder.read(position, message, context)
    val oids =
      if (message(0) == Tag.Truncate) decoder.relationIds.toSeq else Seq(decoder.relationId)
    oids.foreach(bufferRelation(transaction, _))
    val inStream = context == StreamContext.INSIDE
    val xid = if (inStream) decoder.xid else transaction.xid
    buffer.add(
      transaction.firstPosition,
      BufferedChange(position, message, inStream, transaction.nextOrdinal, xid)
    )
  }

  /** Adds the Relation message that holds here, unless the buffer has it already. */
  private def bufferRelation(transaction: Transaction, oid: Long): Unit = {
    val buffered =
      bufferedRelations.getOrElseUpdate(transaction.firstPosition, mutable.LongMap.empty)
    val sent = assembler.known.relation(transaction, oid)
    if (sent != null && !buffered.get(oid).contains(sent.position)) {
      buffered.update(oid, sent.position)
      buffer.add(
        transaction.firstPosition,
        BufferedChange(sent.position, sent.message, sent.inStream, 0, transaction.xid)
      )
    }
  }

  override def commit(transaction: Transaction, commit: Commit): Unit =
    output = buffer
      .changes(transaction.firstPosition)
      .filterNot(change => commit.aborted(change.xid))
      .map(CommittedMessage.of(_, transaction, commit, source)) ++
      Iterator.single(()).flatMap { _ => drop(transaction); Iterator.empty }

  override def drop(transaction: Transaction): Unit = {
    bufferedRelations.remove(transaction.firstPosition)
    buffer.remove(transaction.firstPosition)
  }
}
