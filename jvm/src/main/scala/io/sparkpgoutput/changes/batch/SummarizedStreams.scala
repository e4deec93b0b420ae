package io.sparkpgoutput.changes.batch

import scala.collection.{BufferedIterator, mutable}

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.transactions.CommitList.Entry
import io.sparkpgoutput.changes.transactions._

/**
 * Streams of messages after the first pass has read each partition. This head explains how a batch is read in
 * parallel: '''two passes'''.
 *
 * {{{
 *   first pass: executors                   driver                         second pass: executors
 *   partition ──► PartitionSummarizer ──►─┐                             ┌──► TableChangesIterator ──► rows
 *   partition ──► PartitionSummarizer ──►─┼─► AssembledStream ──►───────┼──► TableChangesIterator ──► rows
 *   partition ──► PartitionSummarizer ──►─┘   one for each stream       └──► TableChangesIterator ──► rows
 *             a SegmentSummary for each segment             a SegmentRead for each segment
 * }}}
 *
 * A change can be committed in a later partition than its own, so no partition can be read by itself. The first
 * pass summarizes each ''segment'': the messages of one stream that follow one another in a partition. A
 * summary has what later segments need, which are transactions and the definitions of tables, and not their changes.
 * The driver puts the summaries of a stream in order, and follows the transactions through them as
 * [[io.sparkpgoutput.changes.transactions.TransactionAssembler]] does. It then knows the state before each
 * segment, and the commit of each transaction that the segment has changes of. With that, the second pass reads
 * each segment by itself.
 *
 * '''Why both passes see the same.''' A second read of the query can have another result, for example if it reads
 * a replication slot. So a [[SegmentRead]] has the [[Fingerprint]] of the messages of the first pass, and the
 * second pass fails if it reads others.
 *
 * @param rows the messages; the segments of a partition follow one another
 * @param segments the segments of each partition
 */
final case class SummarizedStreams(rows: RDD[InternalRow], segments: Seq[Seq[SegmentSummary]]) {

  /** The segments of each stream, by their first positions. */
  private lazy val bySource: Seq[Seq[SegmentSummary]] =
    segments.flatten.groupBy(_.source).values.map(_.sortBy(_.first)).toSeq

  /** Returns whether no two segments of a stream overlap. */
  def areInOrder: Boolean = bySource.forall { stream =>
    stream.zip(stream.drop(1)).forall { case (one, next) => one.last < next.first }
  }

  /** The position of the first message of each stream. */
  def starts: Map[Any, Long] =
    bySource.map(stream => stream.head.source -> stream.head.first).toMap

  /** Assembles the transactions of each stream. */
  def assembled(
      earlier: Map[Any, EarlierRelations],
      options: AssemblerOptions
  ): Seq[AssembledStream] = bySource.map { stream =>
    val relations = earlier.getOrElse(stream.head.source, EarlierRelations())
    new AssembledStream(stream, relations, options)
  }
}

object SummarizedStreams {

  /**
   * Reads the messages for the first time.
   *
   * @param sourceType the type of the source column; None if there is none
   * @param isSorted whether the messages of each source are sorted by position
   * @return None if the messages are not in order. Messages that are sorted are in order, also of many sources.
   */
  def summarize(
      rows: RDD[InternalRow],
      sourceType: Option[DataType],
      options: AssemblerOptions,
      isSorted: Boolean
  ): Option[SummarizedStreams] = {
    val partitions = rows
      .mapPartitions(messages =>
        Iterator(new PartitionSummarizer(sourceType, options, isSorted).summarize(messages))
      )
      .collect()
    Option
      .when(partitions.forall(_.isDefined))(SummarizedStreams(rows, partitions.flatten.toSeq))
      .filter(_.areInOrder)
  }
}

/**
 * A stream after the first pass. It assembles the transactions from the summaries of the segments, and finds
 * out what the second pass has to know at the start of each segment.
 *
 * @param segments the segments of the stream in order
 */
final class AssembledStream(
    segments: Seq[SegmentSummary],
    earlier: EarlierRelations,
    options: AssemblerOptions
) extends TransactionHandler {

  /** All commits of the stream. */
  val history = new RememberedCommits(options.after)
  private val assembler = new TransactionAssembler(options, earlier.state, history, this)
  private val open = mutable.LongMap.empty[Transaction]

  /** The transactions that are open at the start of the current segment, or begin in it. */
  private var inSegment = mutable.ArrayBuffer.empty[Transaction]

  /** For each segment, the state at its start, and its transactions, except those that are whole in it. */
  private val starts = segments.map { segment =>
    val state = assembler.state
    inSegment = mutable.ArrayBuffer.from(open.values)
    segment.events.foreach(_.send(assembler))
    (state, inSegment)
  }

  /** The state after the last segment. */
  val state: AssemblerState = assembler.state

  def source: Any = segments.head.source
  def messages: Long = segments.map(_.fingerprint.messages).sum

  /** Returns what the second pass has to know about each segment. */
  def reads: Map[(Any, Long), SegmentRead] = segments
    .zip(starts)
    .map { case (segment, (state, transactions)) =>
      val commits = transactions.map(transaction => transaction.firstPosition -> transaction.commit)
      val repeated = earlier.repeated.filter { case (position, _) =>
        segment.first <= position && position <= segment.last
      }
      segment.key -> SegmentRead(segment.fingerprint, state, commits.toMap, repeated)
    }
    .toMap

  override def begin(transaction: Transaction): Unit = {
    inSegment += transaction
    open.update(transaction.firstPosition, transaction)
  }

  override def change(transaction: Transaction, position: Long, message: Array[Byte], context: Int)
      : Unit = throw new IllegalStateException("a summary has no changes")

  override def commit(transaction: Transaction, commit: Commit): Unit = {
    transaction.commit = commit
    drop(transaction)
  }

  override def drop(transaction: Transaction): Unit = open.remove(transaction.firstPosition)
}

/**
 * The facts about a segment that the second pass needs.
 *
 * @param fingerprint the fingerprint of the messages in the first pass
 * @param state the state of the stream before the first message of the segment
 * @param commits
 *   the commit of each transaction that the segment has messages of, by the transaction's first
 *   position; null if the transaction is not committed. A transaction that is missing here is in the
 *   segment from its Begin to its Commit.
 * @param repeated
 *   the Relation and Type messages of [[EarlierRelations]] that the segment must have too, by position
 */
final case class SegmentRead(
    fingerprint: Fingerprint,
    state: AssemblerState,
    commits: Map[Long, Commit],
    repeated: Map[Long, Array[Byte]]
)

/** Finds out if two streams have a commit with the same LSN. */
object SharedCommits {

  /** @param streams the commits of each stream, by their LSNs as unsigned numbers */
  def exist(streams: Seq[Iterator[Entry]]): Boolean = {
    // The queue gives its greatest element first, so the commit with the lowest LSN must be the greatest.
    val lowestFirst =
      Ordering.by((commits: BufferedIterator[Entry]) => ~commits.head.lsn ^ Long.MinValue)
    val queue = mutable.PriorityQueue.empty(lowestFirst)
    streams.map(_.buffered).filter(_.hasNext).foreach(queue.enqueue(_))
    var shared = false
    while (!shared && queue.size > 1) {
      val commits = queue.dequeue()
      shared = commits.next().lsn == queue.head.head.lsn
      if (commits.hasNext) queue.enqueue(commits)
    }
    shared
  }
}
