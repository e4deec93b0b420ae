package io.sparkpgoutput.changes.batch

import java.util.zip.CRC32C

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.MessageSchema.{LSN, TRANSACTIONAL, XID}
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.{Lsn, StreamContext}

/**
 * Summarizes the segments of streams in one partition. A segment ends where another source begins, or
 * where the positions go back or leave out many, as between files that Spark reads in one partition.
 * Use it once.
 */
final class PartitionSummarizer(
    sourceType: Option[DataType],
    options: AssemblerOptions,
    isSorted: Boolean
) {

  /** More files than a partition has. Messages that are not in order have more segments. */
  final private val MostSegments = 500

  /** At most so many segments end at a gap. */
  final private val MostGaps = 100

  /** A segment ends at a gap that is so many times larger than the mean gap. */
  final private val LargeGap = 1000

  private val fields = new ControlMessageDecoder(options.encoding)
  private val segments = mutable.ArrayBuffer.empty[SegmentSummary]
  private var summarizer: SegmentSummarizer = _
  private var gaps = 0

  /** Returns the segments; None if there are so many that the messages should be sorted. */
  def summarize(rows: Iterator[InternalRow]): Option[Seq[SegmentSummary]] = {
    val most = if (isSorted) Int.MaxValue else MostSegments
    while (rows.hasNext && segments.length < most) add(rows.next())
    Option.unless(rows.hasNext) {
      finish()
      segments.toSeq
    }
  }

  private def add(row: InternalRow): Unit = {
    val position = MessageColumns.position(row)
    val found = MessageColumns.source(row, sourceType)
    val isSame = summarizer != null && found == summarizer.source
    if (isSame && position == summarizer.lastPosition)
      throw new PgOutputException(
        "PGOUTPUT_MESSAGE_ORDER.DUPLICATE_POSITION",
        "position" -> position
      )
    if (!isSame || position < summarizer.lastPosition || isGap(position)) {
      finish()
      val source = InternalRow.copyValue(found) // the next row overwrites this one
      summarizer = new SegmentSummarizer(fields, source)
    }
    summarizer.message(position, MessageColumns.message(row, position))
  }

  /**
   * Returns whether the gap before a position is far larger than the mean gap in the segment. If this partition
   * has several files, another partition may have the messages of the gap. A segment too many does no harm.
   */
  private def isGap(position: Long): Boolean = {
    val gap = position - summarizer.lastPosition
    val isLarge = gap > LargeGap && gaps < MostGaps && gap / LargeGap > summarizer.meanGap
    if (isLarge) gaps += 1
    isLarge
  }

  private def finish(): Unit = if (summarizer != null) segments += summarizer.result()
}

/**
 * Summarizes a segment of a stream. The messages before are not known, so the segment may begin
 * anywhere, for example in the middle of a transaction.
 */
final class SegmentSummarizer(fields: ControlMessageDecoder, val source: Any) {
  import SummaryEvent._

  /** A Begin message, and the messages after it that are neither changes nor its Commit. */
  final private class Begin(val sent: MessageEvent, val lsn: Long, val xid: Long) {
    val schemaMessages = mutable.LinkedHashMap.empty[(Byte, Long), MessageEvent]
    val others = mutable.ArrayBuffer.empty[MessageEvent]
  }

  private val events = mutable.ArrayBuffer.empty[SummaryEvent]
  private val fingerprint = new Fingerprinter
  private var first = 0L
  private var last = 0L

  /** The phase as far as the segment itself shows it. Between Begin Prepare and Prepare it is Unknown. */
  private var phase: StreamPhase.Value = StreamPhase.Unknown

  /** Whether a message of the segment has shown a phase. Until then, the driver may need a change to see it. */
  private var hasPhase = false

  /** The changes since the last event; null if there are none. */
  private var changes: ChangesEvent = _

  /** The commits of whole transactions since the last event. */
  private var commits = new CommitList
  private var greatest = 0L
  private val schemaMessages = mutable.LinkedHashMap.empty[(Byte, Long), MessageEvent]

  /** The transaction that has begun; it is whole if its Commit follows. */
  private var begin: Begin = _

  /**
   * The kinds of logical messages in an unknown phase. A second message of a kind has no new information.
   */
  private val logicalMessages = mutable.Set.empty[(Boolean, Boolean)]

  /** The position of the last message. */
  def lastPosition: Long = last

  /** The mean distance between the positions, at least 1. */
  def meanGap: Long = math.max(1L, (last - first) / math.max(1L, fingerprint.messages - 1))

  def message(position: Long, message: Array[Byte]): Unit = {
    if (fingerprint.messages == 0) first = position
    last = position
    fingerprint.add(position, message)
    if (message.length > 0) (message(0).toChar: @switch) match {
      case Tag.Insert | Tag.Update | Tag.Delete | Tag.Truncate => change(position, message)
      case Tag.Relation | Tag.Type     => schemaMessage(MessageEvent(position, message))
      case Tag.Message                 => logicalMessage(position, message)
      case Tag.Origin if begin != null => begin.others += MessageEvent(position, message)
      case Tag.Begin                   => beginTransaction(MessageEvent(position, message))
      case Tag.Commit                  => commit(MessageEvent(position, message))
      case Tag.StreamStart             => add(MessageEvent(position, message), StreamPhase.InStream)
      case Tag.BeginPrepare            =>
        // The phase is Unknown, but it is a new one, so a logical message of any kind has new information.
        add(MessageEvent(position, message), StreamPhase.Unknown)
        logicalMessages.clear()
        hasPhase = true
      case Tag.Origin => add(MessageEvent(position, message), phase)
      case _          => add(MessageEvent(position, message), StreamPhase.Between)
    }
  }

  def result(): SegmentSummary = {
    flush()
    SegmentSummary(source, first, last, fingerprint.result, events.toSeq)
  }

  private def change(position: Long, message: Array[Byte]): Unit = {
    if (changes == null) changes = new ChangesEvent(position, if (hasPhase) null else message)
    changes.number += 1
    changes.ordinals += TransactionAssembler.ordinals(message)
  }

  /** In a transaction outside of stream blocks, only the last message of a table or type counts. */
  private def schemaMessage(sent: MessageEvent): Unit =
    if (begin == null) add(sent, phase)
    else {
      val oid = fields.definition(sent.position, sent.message, StreamContext.OUTSIDE).oid
      begin.schemaMessages += (sent.message(0), oid) -> sent
    }

  private def logicalMessage(position: Long, message: Array[Byte]): Unit = phase match {
    case StreamPhase.Between =>
    case StreamPhase.InStream =>
      if (fields.isOutside(position, message))
        add(MessageEvent(position, message), StreamPhase.Between)
    case StreamPhase.InTransaction =>
      val row = fields.decode(position, message, StreamContext.OUTSIDE)
      if (!row.getBoolean(TRANSACTIONAL)) add(MessageEvent(position, message), StreamPhase.Between)
    case _ =>
      val row = fields.decode(position, message, StreamContext.UNKNOWN)
      if (logicalMessages.add((row.isNullAt(XID), row.getBoolean(TRANSACTIONAL)))) {
        add(MessageEvent(position, message), phase)
      }
  }

  private def beginTransaction(sent: MessageEvent): Unit = {
    flushBegin()
    val row = fields.decode(sent.position, sent.message, StreamContext.OUTSIDE)
    flushChanges()
    begin = new Begin(sent, row.getLong(LSN), row.getLong(XID))
    phase = StreamPhase.InTransaction
    hasPhase = true
  }

  private def commit(sent: MessageEvent): Unit = {
    val lsn = fields.decode(sent.position, sent.message, StreamContext.OUTSIDE).getLong(LSN)
    val isWhole = begin != null && begin.lsn == lsn && Lsn.isBelow(greatest, lsn)
    if (isWhole) {
      commits.add(lsn, begin.xid, sent.position)
      schemaMessages ++= begin.schemaMessages
      greatest = lsn
      begin = null
      changes = null
      phase = StreamPhase.Between
    } else add(sent, StreamPhase.Between)
  }

  /** Adds a message that is not summarized. */
  private def add(sent: MessageEvent, next: StreamPhase.Value): Unit = {
    flush()
    events += sent
    if (next != phase) logicalMessages.clear()
    phase = next
    hasPhase ||= next != StreamPhase.Unknown
  }

  private def flush(): Unit = { flushBegin(); flushChanges(); flushCommits() }

  private def flushBegin(): Unit = if (begin != null) {
    flushCommits()
    events += begin.sent
    events ++= begin.schemaMessages.values
    events ++= begin.others
    begin = null
    flushChanges()
    phase = StreamPhase.Unknown
  }

  private def flushChanges(): Unit = if (changes != null) {
    flushCommits()
    events += changes
    changes = null
  }

  private def flushCommits(): Unit = {
    if (commits.size > 0) events += TransactionsEvent(commits.toBytes)
    events ++= schemaMessages.values
    commits = new CommitList
    schemaMessages.clear()
  }
}

/**
 * The facts about a segment of a stream that matter to later segments. The messages of a segment
 * follow one another in a partition. It has no message of a change, except the first of each run of changes before a
 * message shows the phase.
 *
 * @param source the stream; null if there is only one
 * @param first the position of its first message
 * @param last the position of its last message
 * @param events what the driver assembles the transactions from, in order
 */
final case class SegmentSummary(
    source: Any,
    first: Long,
    last: Long,
    fingerprint: Fingerprint,
    events: Seq[SummaryEvent]
) {

  /** The source and the first position, which no two segments share. */
  def key: (Any, Long) = (source, first)
}

/** A message, or many messages that the driver takes as one. */
sealed abstract class SummaryEvent extends Serializable {
  def send(assembler: TransactionAssembler): Unit
}

object SummaryEvent {

  /** A message that is not summarized. */
  final case class MessageEvent(position: Long, message: Array[Byte]) extends SummaryEvent {
    override def send(assembler: TransactionAssembler): Unit =
      assembler.message(position, message)
  }

  /**
   * Changes that follow one another.
   *
   * @param first the message of the first one; null if an earlier message of the segment shows the phase
   */
  final class ChangesEvent(val position: Long, val first: Array[Byte]) extends SummaryEvent {
    var number = 0L
    var ordinals = 0L

    override def send(assembler: TransactionAssembler): Unit =
      assembler.changes(position, first, number, ordinals)
  }

  /**
   * Transactions that follow one another, each from Begin to Commit.
   *
   * @param commits the bytes of a [[CommitList]]
   */
  final case class TransactionsEvent(commits: Array[Byte]) extends SummaryEvent {
    override def send(assembler: TransactionAssembler): Unit = CommitList.read(commits).foreach {
      commit => assembler.wholeTransaction(commit.lsn, commit.xid, commit.position)
    }
  }
}

/** Computes the fingerprint of messages. */
final class Fingerprinter {
  private val crc = new CRC32C
  private var count = 0L
  private var positions = 0L

  /** The number of messages so far. */
  def messages: Long = count

  def add(position: Long, message: Array[Byte]): Unit = {
    count += 1
    positions = positions * 31 + position
    crc.update(message, 0, message.length)
  }

  def result: Fingerprint = Fingerprint(count, positions, crc.getValue)
}

/** Shows whether two reads had the same messages. */
final case class Fingerprint(messages: Long, positions: Long, bytes: Long)
