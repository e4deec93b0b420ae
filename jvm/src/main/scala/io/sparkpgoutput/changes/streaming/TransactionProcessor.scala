package io.sparkpgoutput.changes.streaming

import scala.collection.mutable

import org.apache.spark.sql.functions.{collect_list, struct}
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.{DataFrame, Encoders, Row}

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.rows.ChangeMessageDecoder
import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.{Lsn, StreamContext, TextEncoding}

/**
 * Returns the changes of committed transactions in the order of the commits, for each source. This head explains
 * what the checkpoint of a stream of `pgoutput_changes` holds: '''the open transactions'''. The head of
 * `SlotStream` says it for `format("pgoutput")`.
 *
 * {{{
 *   messages, by source ──► SourceBatch: TransactionAssembler ──► CommittedMessage ──► StreamChangeReader: rows
 *                              ▲   │
 *                              │   ▼   SourceStore: the variables of Spark's state store, for each source
 *                    state    position of the last message, open transactions, definitions: SourceStateFormat
 *                    chunks   the changes of open transactions, about 128 KiB in a full one: TransactionBuffer
 *                    xids, lsns   the last 100,000 commits: StoredCommits
 *                    source   the state that version 0.1.0 wrote, to say where to begin again: OldState
 * }}}
 *
 * While a micro-batch runs, the changes of a transaction are in memory. When they have 128 KiB or more, they go to
 * the state store as a full chunk. At the end of the micro-batch, the state store also gets the rest of each
 * transaction that is still open, as a chunk that is smaller. So a transaction that begins and commits in one
 * micro-batch has only its full chunks there, if it has any.
 *
 * When a transaction commits, its changes come out, with the Relation messages that they refer to. So what comes
 * out is a stream of whole transactions, and the code that a batch uses makes rows of it. Its chunks are then
 * removed. Spark keeps a version of the state for each micro-batch, so after a failure the same messages meet the
 * same state.
 *
 * The bytes in the state store are a contract with later versions. [[SourceStateFormat]] says how they may
 * change.
 *
 * The initial state of a source is its row of [[InitialState]].
 *
 * @param abandoned the xids of the streamed transactions to give up, by the value of their source
 * @see [[https://spark.apache.org/docs/latest/streaming/structured-streaming-transform-with-state.html]]
 */
final class TransactionProcessor(options: AssemblerOptions, abandoned: Any => Set[Long])
    extends StatefulProcessorWithInitialState[Row, Row, Row, Row] {
  @transient private var store: SourceStore = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    store = new SourceStore(getHandle)

  override def handleInitialState(source: Row, definitions: Row, timers: TimerValues): Unit =
    store.update(SourceState(assembler = InitialState.state(definitions, options.encoding)))

  /**
   * Processes each row only when the next output is taken: a transaction may exceed the memory. An iterator
   * evaluates what follows `++` when it gets there.
   */
  override def handleInputRows(
      source: Row,
      messages: Iterator[Row],
      timers: TimerValues
  ): Iterator[Row] = {
    lazy val batch = new SourceBatch(source.get(0), options, abandoned(source.get(0)), store)
    messages.flatMap(row =>
      batch.message(MessageColumns.position(row), row.getAs[Array[Byte]](MessageColumns.Message))
    ) ++ batch.end()
  }
}

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

  // It drops abandoned transactions from the fields above, so it is initialized after them.
  private val assembler = new TransactionAssembler(options, withoutAbandoned, commits, this)
  private val decoder = new ChangeMessageDecoder(options.encoding)
  private var last = start.lastPosition

  /** The earlier Relation and Type messages at positions that the stream has not passed yet. */
  private val ahead = mutable.LongMap.from(
    start.assembler.definitions
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

  private def types =
    assembler.known.typeMessages.toSeq.iterator.map(CommittedMessage.definition(_, source))

  /** Takes the next message and returns the messages that it commits. */
  def message(position: Long, message: Array[Byte]): Iterator[Row] = {
    if (last.exists(position <= _))
      throw new PgOutputException(
        "PGOUTPUT_MESSAGE_ORDER.OUT_OF_ORDER",
        "position" -> position,
        "last" -> last.get
      )
    if (message == null) throw MessageColumns.nullMessage(position)
    if (ahead.nonEmpty)
      ahead.remove(position).foreach(MessageColumns.checkSame(_, message, position))
    // The first message of the source shows which definitions of the initial state were sent before it.
    if (last.isEmpty) assembler.known.restart(start.assembler.definitions, position)
    // The Type messages come before the first message, because their reader forgets them after each micro-batch.
    val definitions = Option.when(last == start.lastPosition)(types)
    last = Some(position)
    output = Iterator.empty
    assembler.message(position, message)
    if (message.length > 0 && message(0) == Tag.Type) {
      output = assembler.known.typeMessages
        .find(_.position == position)
        .iterator
        .map(CommittedMessage.definition(_, source))
    }
    definitions.fold(output)(_ ++ output)
  }

  /** Stores the state. There are no messages left to return. */
  def end(): Iterator[Row] = {
    store.update(SourceState(last, commits.count, buffer.storeAll(), assembler.state))
    Iterator.empty
  }

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

  /** Adds the Relation message that applies to a change, unless the buffer has it already. */
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
      .map(CommittedMessage.of(_, transaction, commit, source)) ++ {
      drop(transaction)
      Iterator.empty
    }

  override def drop(transaction: Transaction): Unit = {
    bufferedRelations.remove(transaction.firstPosition)
    buffer.remove(transaction.firstPosition)
  }
}

/** The state variables of a streaming query. Spark keeps a value of each for every source. */
final class SourceStore(handle: StatefulProcessorHandle) {
  private val state = handle.getValueState("state", Encoders.BINARY, TTLConfig.NONE)
  private val oldState: ValueState[OldState.State] =
    handle.getValueState(OldState.Variable, OldState.encoder, TTLConfig.NONE)

  /** The changes of open transactions; see [[TransactionBuffer]]. */
  val chunks: MapState[ChunkKey, Array[Byte]] =
    handle.getMapState("chunks", Encoders.product[ChunkKey], Encoders.BINARY, TTLConfig.NONE)

  /** The last commits; see [[StoredCommits]]. */
  val xids: MapState[Long, Long] =
    handle.getMapState("xids", Encoders.scalaLong, Encoders.scalaLong, TTLConfig.NONE)
  val lsns: MapState[Int, Long] =
    handle.getMapState("lsns", Encoders.scalaInt, Encoders.scalaLong, TTLConfig.NONE)

  /** The state of the source at the end of the last micro-batch. */
  def get(): SourceState =
    if (state.exists()) SourceStateFormat.read(state.get())
    else if (oldState.exists()) throw OldState.error(oldState.get())
    else SourceState()

  def update(value: SourceState): Unit = state.update(SourceStateFormat.write(value))
}

/**
 * Remembers the last 100,000 commits in the state store. It takes an older commit that arrives late
 * for one that was sent before.
 *
 * @param xids the xid of each commit, by its LSN
 * @param lsns the LSN of each commit, in a ring by its number
 */
final class StoredCommits(
    after: Long,
    xids: MapState[Long, Long],
    lsns: MapState[Int, Long],
    seen: Long
) extends CommitHistory(after) {
  final private val Remembered = 100000L
  private var number = seen

  /** The number of commits so far. */
  def count: Long = number

  /** Returns whether the commit is remembered, or older than the remembered ones. */
  override def repeats(lsn: Long, xid: Option[Long]): Boolean =
    if (xids.containsKey(lsn)) isSame(xid, xids.getValue(lsn))
    else
      number > Remembered && Lsn.isBelow(lsn, lsns.getValue((number % Remembered).toInt))

  override protected def remember(lsn: Long, xid: Long): Unit = {
    val slot = (number % Remembered).toInt
    if (number >= Remembered) xids.removeKey(lsns.getValue(slot))
    lsns.updateValue(slot, lsn)
    xids.updateValue(lsn, xid)
    number += 1
  }
}

/**
 * The initial state of a streaming query: the relations and types of each source that are known
 * from earlier messages. Spark reads it in the first micro-batch of a new checkpoint. Some of these messages can come
 * after the first message of the stream, whose position is not known yet. So the state has each definition that a table
 * or type had, and [[SourceBatch]] chooses one at the first message.
 */
object InitialState {
  import MessageColumns.{Message, Position, Source}

  /**
   * Returns one row for each source, with the Relation and Type messages that say something new.
   *
   * @param messages the earlier messages, with the columns of [[MessageColumns]]
   */
  def of(messages: DataFrame, encoding: TextEncoding): DataFrame = {
    val encoder = Encoders.row(messages.schema)
    val sent = messages.mapPartitions((rows: Iterator[Row]) => rows.filter(isDefinition))(encoder)
    val ordered = sent
      .repartition(sent.col(MessageColumns.names(Source)))
      .sortWithinPartitions(MessageColumns.names(Source), MessageColumns.names(Position))
    val changed =
      ordered.mapPartitions((rows: Iterator[Row]) => changesOf(rows, encoding))(encoder)
    changed
      .groupBy(changed.col(MessageColumns.names(Source)))
      .agg(collect_list(struct(MessageColumns.names.take(Source).map(changed.col): _*)))
  }

  /** Returns the state that a row of [[of]] represents. */
  def state(row: Row, encoding: TextEncoding): AssemblerState = {
    val decoder = new ControlMessageDecoder(encoding)
    AssemblerState(definitions = row.getSeq[Row](1).map(definition(decoder, _)))
  }

  private def isDefinition(row: Row): Boolean = {
    val position = MessageColumns.position(row)
    if (row.isNullAt(Message)) throw MessageColumns.nullMessage(position)
    SchemaMessage.is(row.getAs[Array[Byte]](Message))
  }

  /** Returns the messages that give a table or a type another definition. The rows are in order. */
  private[streaming] def changesOf(rows: Iterator[Row], encoding: TextEncoding): Iterator[Row] = {
    val decoder = new ControlMessageDecoder(encoding)
    var source = Option.empty[Any]
    var known = new KnownRelations
    rows.filter { row =>
      if (!source.contains(row.get(Source))) {
        source = Some(row.get(Source))
        known = new KnownRelations
      }
      known.addIfNew(definition(decoder, row))
    }
  }

  private def definition(decoder: ControlMessageDecoder, row: Row): SchemaMessage =
    decoder.definition(
      MessageColumns.position(row),
      row.getAs[Array[Byte]](Message),
      StreamContext.UNKNOWN
    )
}
