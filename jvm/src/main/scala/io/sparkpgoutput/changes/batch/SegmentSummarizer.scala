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
import io.sparkpgoutput.protocol.StreamContext

/**
 * Summarizes a part of a stream. What came before it is not known, so that it may begin in the
 * midst of anything.
 */
final class SegmentSummarizer(fields: ControlMessageDecoder) {
  import SegmentSummarizer._

  private val events = mutable.ArrayBuffer.empty[SummaryEvent]
  private val fingerprint = new Fingerprinter
  private var first = 0L
  private var last = 0L

  /** Where it stands, as far as the part itself tells; a b..P is left Unknown. */
  private var phase: StreamPhase = StreamPhase.Unknown
  private var changes = NoChanges

  /** The transactions that were whole, since the last event. */
  private var commits = new CommitList
  private var greatest = 0L
  private val definitions = mutable.LinkedHashMap.empty[(Byte, Long), Single]

  /** The transaction that has begun, of which it is not known yet whether it is whole. */
  private var begin: Begin = _

  /** The kinds of logical messages in a place that is not known, each of which says the same once. */
  private val logicalMessages = mutable.Set.empty[(Boolean, Boolean)]

  def isEmpty: Boolean = fingerprint.messages == 0

  /** The position of the last message. */
  def lastPosition: Long = last

  /** How far apart its messages are, at least 1. */
  def meanGap: Long = math.max(1L, (last - first) / math.max(1L, fingerprint.messages - 1))

  def message(position: Long, message: Array[Byte]): Unit = {
    if (isEmpty) first = position
    last = position
    fingerprint.add(position, message)
    if (message.length > 0) (message(0).toChar: @switch) match {
      case 'I' | 'U' | 'D' | 'T' => change(position, message)
      case 'R' | 'Y'             => definition(Single(position, message))
      case 'M'                   => logicalMessage(position, message)
      case 'O' if begin != null  => begin.others += Single(position, message)
      case 'B'                   => beginTransaction(Single(position, message))
      case 'C'                   => commit(Single(position, message))
      case 'S'                   => single(Single(position, message), StreamPhase.InStream)
      case 'b'                   => beginPrepare(Single(position, message))
      case 'O'                   => single(Single(position, message), phase)
      case _                     => single(Single(position, message), StreamPhase.Between)
    }
  }

  def result(): SegmentSummary = {
    flush()
    SegmentSummary(first, last, fingerprint.result, events.toSeq)
  }

  private def change(position: Long, message: Array[Byte]): Unit = {
    if (changes.number == 0) changes = new Counted(position, message)
    changes.number += 1
    changes.ordinals += TransactionAssembler.ordinals(message)
  }

  /** Of those outside of stream blocks the last one counts. */
  private def definition(sent: Single): Unit =
    if (begin == null) single(sent, phase)
    else {
      val oid = fields.definition(sent.position, sent.message, StreamContext.OUTSIDE).oid
      begin.definitions += (sent.message(0), oid) -> sent
    }

  private def logicalMessage(position: Long, message: Array[Byte]): Unit = phase match {
    case StreamPhase.Between =>
    case StreamPhase.InStream =>
      if (fields.isOutside(position, message))
        single(Single(position, message), StreamPhase.Between)
    case StreamPhase.InTransaction =>
      val row = fields.read(position, message, StreamContext.OUTSIDE)
      if (!row.getBoolean(TRANSACTIONAL)) single(Single(position, message), StreamPhase.Between)
    case _ =>
      val row = fields.read(position, message, StreamContext.UNKNOWN)
      if (logicalMessages.add((row.isNullAt(XID), row.getBoolean(TRANSACTIONAL)))) {
        single(Single(position, message), phase)
      }
  }

  private def beginTransaction(sent: Single): Unit = {
    flushBegin()
    val row = fields.read(sent.position, sent.message, StreamContext.OUTSIDE)
    flushChanges()
    begin = new Begin(sent, row.getLong(LSN), row.getLong(XID))
    phase = StreamPhase.InTransaction
  }

  /** Another phase, though what it is stays Unknown: logical messages say something new there. */
  private def beginPrepare(sent: Single): Unit = {
    single(sent, StreamPhase.Unknown)
    logicalMessages.clear()
  }

  private def commit(sent: Single): Unit = {
    val lsn = fields.read(sent.position, sent.message, StreamContext.OUTSIDE).getLong(LSN)
    val isWhole = begin != null && begin.lsn == lsn &&
      java.lang.Long.compareUnsigned(lsn, greatest) > 0
    if (isWhole) {
      commits.add(lsn, begin.xid, sent.position)
      definitions ++= begin.definitions
      greatest = lsn
      begin = null
      changes = NoChanges
      phase = StreamPhase.Between
    } else single(sent, StreamPhase.Between)
  }

  /** What is not summarized. */
  private def single(sent: Single, next: StreamPhase): Unit = {
    flush()
    events += sent
    if (next != phase) logicalMessages.clear()
    phase = next
  }

  private def flush(): Unit = { flushBegin(); flushChanges(); flushCommits() }

  private def flushBegin(): Unit = if (begin != null) {
    flushCommits()
    events += begin.sent
    events ++= begin.definitions.values
    events ++= begin.others
    begin = null
    flushChanges()
    phase = StreamPhase.Unknown
  }

  private def flushChanges(): Unit = if (changes.number > 0) {
    flushCommits()
    events += Changes(changes.position, changes.first, changes.number, changes.ordinals)
    changes = NoChanges
  }

  private def flushCommits(): Unit = {
    if (commits.size > 0) events += Transactions(commits)
    events ++= definitions.values
    commits = new CommitList
    definitions.clear()
  }
}

private object SegmentSummarizer {
  final private class Counted(val position: Long, val first: Array[Byte]) {
    var number = 0L
    var ordinals = 0L
  }

  private def NoChanges = new Counted(0, null)

  final private class Begin(val sent: Single, val lsn: Long, val xid: Long) {
    val definitions = mutable.LinkedHashMap.empty[(Byte, Long), Single]
    val others = mutable.ArrayBuffer.empty[Single]
  }
}
