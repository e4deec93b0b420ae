package io.sparkpgoutput.changes.batch

import scala.annotation.switch
import scala.collection.mutable

import io.sparkpgoutput.changes.batch.SummaryEvent._
import io.sparkpgoutput.changes.transactions.{
  CommitList,
  ControlMessageDecoder,
  StreamPhase,
  TransactionAssembler
}
import io.sparkpgoutput.protocol.MessageSchema.{LSN, TRANSACTIONAL, XID}
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext

/**
 * Summarizes a segment of a stream. The messages before are not known, so the segment may begin
 * anywhere, for example in the middle of a transaction.
 */
final class SegmentSummarizer(fields: ControlMessageDecoder, val source: Any = null) {
  import SegmentSummarizer._

  private val events = mutable.ArrayBuffer.empty[SummaryEvent]
  private val fingerprint = new Fingerprinter
  private var first = 0L
  private var last = 0L

  /** The phase as far as the segment itself tells. Between Begin Prepare and Prepare it is Unknown. */
  private var phase: StreamPhase = StreamPhase.Unknown
  private var changes = NoChanges

  /** The commits of whole transactions since the last event. */
  private var commits = new CommitList
  private var greatest = 0L
  private val schemaMessages = mutable.LinkedHashMap.empty[(Byte, Long), MessageEvent]

  /** The transaction that has begun; it is whole if its Commit follows. */
  private var begin: Begin = _

  /**
   * The kinds of logical messages in an unknown phase. A second message of a kind tells nothing new.
   */
  private val logicalMessages = mutable.Set.empty[(Boolean, Boolean)]

  def isEmpty: Boolean = fingerprint.messages == 0

  /** The position of the last message. */
  def lastPosition: Long = last

  /** The mean distance between the positions, at least 1. */
  def meanGap: Long = math.max(1L, (last - first) / math.max(1L, fingerprint.messages - 1))

  def message(position: Long, message: Array[Byte]): Unit = {
    if (isEmpty) first = position
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
      case Tag.BeginPrepare            => beginPrepare(MessageEvent(position, message))
      case Tag.Origin                  => add(MessageEvent(position, message), phase)
      case _                           => add(MessageEvent(position, message), StreamPhase.Between)
    }
  }

  def result(): SegmentSummary = {
    flush()
    SegmentSummary(source, first, last, fingerprint.result, events.toSeq)
  }

  private def change(position: Long, message: Array[Byte]): Unit = {
    if (changes.number == 0) changes = new Counted(position, message)
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
  }

  /** The phase stays Unknown, but it is a new one, where logical messages tell something new. */
  private def beginPrepare(sent: MessageEvent): Unit = {
    add(sent, StreamPhase.Unknown)
    logicalMessages.clear()
  }

  private def commit(sent: MessageEvent): Unit = {
    val lsn = fields.decode(sent.position, sent.message, StreamContext.OUTSIDE).getLong(LSN)
    val isWhole = begin != null && begin.lsn == lsn &&
      java.lang.Long.compareUnsigned(lsn, greatest) > 0
    if (isWhole) {
      commits.add(lsn, begin.xid, sent.position)
      schemaMessages ++= begin.schemaMessages
      greatest = lsn
      begin = null
      changes = NoChanges
      phase = StreamPhase.Between
    } else add(sent, StreamPhase.Between)
  }

  /** Adds a message that is not summarized. */
  private def add(sent: MessageEvent, next: StreamPhase): Unit = {
    flush()
    events += sent
    if (next != phase) logicalMessages.clear()
    phase = next
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

  private def flushChanges(): Unit = if (changes.number > 0) {
    flushCommits()
    events += ChangesEvent(changes.position, changes.first, changes.number, changes.ordinals)
    changes = NoChanges
  }

  private def flushCommits(): Unit = {
    if (commits.size > 0) events += TransactionsEvent(commits)
    events ++= schemaMessages.values
    commits = new CommitList
    schemaMessages.clear()
  }
}

private object SegmentSummarizer {
  final private class Counted(val position: Long, val first: Array[Byte]) {
    var number = 0L
    var ordinals = 0L
  }

  private def NoChanges = new Counted(0, null)

  final private class Begin(val sent: MessageEvent, val lsn: Long, val xid: Long) {
    val schemaMessages = mutable.LinkedHashMap.empty[(Byte, Long), MessageEvent]
    val others = mutable.ArrayBuffer.empty[MessageEvent]
  }
}
