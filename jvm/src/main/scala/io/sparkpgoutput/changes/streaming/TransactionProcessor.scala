package io.sparkpgoutput.changes.streaming

import scala.collection.mutable

import org.apache.spark.sql.streaming._
import org.apache.spark.sql.{Encoders, Row}

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.changes.rows.ChangeMessageDecoder
import io.sparkpgoutput.changes.transactions.{
  AssemblerOptions,
  AssemblerState,
  Commit,
  StreamPhase,
  Transaction,
  TransactionHandler
}
import io.sparkpgoutput.errors.MessageOrderException
import io.sparkpgoutput.protocol.StreamContext

/**
 * Gives the changes of committed transactions, of each source in the order of the commits: holds
 * back, in the state store, those of transactions that are open. What it gives is a stream again:
 * each transaction's changes with the Relation messages that they refer to.
 *
 * @param abandoned
 *   the xids of streamed transactions that will not come to an end
 * @param earlier
 *   what is known of sources from messages before the stream
 */
final class TransactionProcessor(
    options: AssemblerOptions,
    abandoned: Set[Long],
    earlier: Map[Any, AssemblerState]
) extends StatefulProcessor[Row, Row, Row] {
  @transient private var state: ValueState[SourceState] = _
  @transient private var chunks: MapState[ChunkKey, Array[Byte]] = _
  @transient private var xids: MapState[Long, Long] = _
  @transient private var lsns: MapState[Int, Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    val handle = getHandle
    state = handle.getValueState("source", Encoders.product[SourceState], TTLConfig.NONE)
    chunks =
      handle.getMapState("chunks", Encoders.product[ChunkKey], Encoders.BINARY, TTLConfig.NONE)
    xids = handle.getMapState("xids", Encoders.scalaLong, Encoders.scalaLong, TTLConfig.NONE)
    lsns = handle.getMapState("lsns", Encoders.scalaInt, Encoders.scalaLong, TTLConfig.NONE)
  }

  /** Everything happens as the rows are taken, for a transaction need not fit into memory. */
  override def handleInputRows(
      source: Row,
      messages: Iterator[Row],
      timers: TimerValues
  ): Iterator[Row] = {
    lazy val batch = new SourceBatch(source.get(0))
    Iterator.single(()).flatMap(_ => batch.begin()) ++
      messages.flatMap(row => batch.message(position(row), row.getAs[Array[Byte]](1))) ++
      Iterator.single(()).flatMap(_ => batch.end())
  }

  private def position(row: Row): Long =
    if (row.isNullAt(0)) throw MessageOrderException.nullPosition else row.getLong(0)

  /** The messages of one source in one micro-batch. */
  final private class SourceBatch(source: Any) extends TransactionHandler {
    private val start = Option(state.get()).getOrElse(
      SourceState(None, 0, Nil, earlier.getOrElse(source, AssemblerState()))
    )
    private val buffer = new TransactionBuffer(chunks, mutable.LongMap.from(start.chunks))
    private val commits = new StoredCommits(options.after, xids, lsns, start.commits)
    private val assembler = options.assembler(followed, commits, this)
    private val tuples = new ChangeMessageDecoder(options.encoding)
    private var last = start.lastPosition

    /** By transaction and oid the positions of the Relation messages that are in the buffer. */
    private val sentRelations = mutable.HashMap.empty[(Long, Long), Long]
    private var output: Iterator[Row] = Iterator.empty

    /** Without what is abandoned; of a block that goes on, what comes is not read any more. */
    private def followed: AssemblerState = {
      import start.assembler._
      val (dropped, kept) = streamed.partition(open => abandoned(open.xid))
      dropped.foreach(drop)
      val inBlock = dropped.filter(open => place == StreamPhase.InStream && open.xid == streamedXid)
      start.assembler.copy(streamed = kept ++ inBlock.map(_.copy(hasBeginning = false)))
    }

    /** The types, which the rows' reader does not keep from one micro-batch to the next. */
    def begin(): Iterator[Row] =
      assembler.typeMessages.iterator.map(CommittedMessage.definition(_, source))

    /** Takes the next message; gives what is committed by it. */
    def message(position: Long, message: Array[Byte]): Iterator[Row] = {
      if (last.exists(position <= _)) throw outOfOrder(position)
      if (message == null) throw ChangesError.malformed("the message is NULL", position)
      last = Some(position)
      output = Iterator.empty
      assembler.message(position, message)
      if (message.length > 0 && message(0) == 'Y') {
        output = assembler.typeMessages.find(_.position == position).iterator
          .map(CommittedMessage.definition(_, source))
      }
      output
    }

    def end(): Iterator[Row] = {
      state.update(SourceState(last, commits.count, buffer.storeAll(), assembler.state))
      Iterator.empty
    }

    override def begin(transaction: Transaction): Unit = ()

    override def change(
        transaction: Transaction,
        position: Long,
        message: Array[Byte],
        context: Int
    ): Unit = {
      tuples.read(position, message, context)
      val oids = if (message(0) == 'T') tuples.relationIds.toSeq else Seq(tuples.relationId)
      oids.foreach(bufferRelation(transaction, _))
      val inStream = context == StreamContext.INSIDE
      val xid = if (inStream) tuples.xid else transaction.xid
      buffer.add(
        transaction.firstPosition,
        BufferedChange(position, message, inStream, transaction.nextOrdinal, xid)
      )
    }

    /** The Relation message that holds here, where the buffer has another or none. */
    private def bufferRelation(transaction: Transaction, oid: Long): Unit = {
      val key = (transaction.firstPosition, oid)
      val sent = assembler.relation(transaction, oid)
      if (sent != null && !sentRelations.get(key).contains(sent.position)) {
        sentRelations.update(key, sent.position)
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

    override def drop(transaction: Transaction): Unit = buffer.remove(transaction.firstPosition)

    private def outOfOrder(position: Long) = new MessageOrderException(
      s"position $position is not above the last one of its source, ${last.mkString}: a stream is " +
        "read in order; give each source a value of its own in the column that the option 'source' " +
        "names, or start with another checkpoint."
    )
  }
}
