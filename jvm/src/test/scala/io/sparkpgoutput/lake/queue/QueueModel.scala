package io.sparkpgoutput.lake.queue

import io.sparkpgoutput.lake.queue.QueueModel.{Entry, Queued}

/** The contents of a queue, in the simplest form. */
final class QueueModel {
  var whole = Vector.empty[Queued]
  var open = Option.empty[Queued]
  private var queued = Option.empty[Int]
  private var front = Option.empty[Int]
  private var next = 0L

  def isWhole(lsn: Long): Boolean = lsn < next

  def begin(sent: SentTransaction): Unit = if (!isWhole(sent.lsn)) {
    val entries = (sent.begin +: sent.originMessage.toVector).map(Entry(Cut.NoOrdinal, _, None))
    open = Some(Queued(sent, entries, queued))
  }

  def add(change: SentChange): Unit = open = open.map { transaction =>
    val messages = QueuedStream.definition(change.definition)
    val defining =
      if (queued.contains(change.definition)) Vector.empty
      else
        (messages.types :+ messages.relation).map(Entry(Cut.NoOrdinal, _, Some(change.definition)))
    queued = Some(change.definition)
    val entry = Entry(change.ordinal, change.message, None)
    transaction.copy(entries = transaction.entries ++ defining :+ entry)
  }

  def commit(): Unit = {
    whole ++= open.map { transaction =>
      next = transaction.sent.end
      val entry = Entry(Cut.NoOrdinal, transaction.sent.commit, None)
      transaction.copy(entries = transaction.entries :+ entry)
    }
    open = None
  }

  def abandon(): Unit = {
    open.foreach(transaction => queued = transaction.before)
    open = None
  }

  /** How many transactions a cut takes. */
  def cut(upTo: Long, limit: CutLimit): Int = {
    val ended = whole.takeWhile(_.sent.end <= upTo)
    def fitting(most: Long)(size: Queued => Long) =
      ended.scanLeft(0L)(_ + size(_)).tail.takeWhile(_ <= most).size
    val fit = math.min(fitting(limit.bytes)(_.bytes), fitting(limit.changes)(_.changes.toLong))
    math.min(ended.size, math.max(1, fit))
  }

  /** The contents of a cut of so many transactions. */
  def messages(count: Int): Vector[(Long, Array[Byte])] = {
    val entries = whole.take(count).flatMap(_.entries)
    val (head, tail) =
      entries.span(entry => entry.ordinal == Cut.NoOrdinal && entry.definition.isEmpty)
    val missing = front.filter(_ => tail.headOption.exists(_.definition.isEmpty)).toVector.flatMap {
      number =>
        val messages = QueuedStream.definition(number)
        (messages.types :+ messages.relation).map(Entry(Cut.NoOrdinal, _, Some(number)))
    }
    (head ++ missing ++ tail).map(entry => (entry.ordinal, entry.message))
  }

  def remove(count: Int): Unit = {
    front = whole.take(count).flatMap(_.entries).flatMap(_.definition).lastOption.orElse(front)
    whole = whole.drop(count)
  }

  def all: Vector[Queued] = whole ++ open
}

object QueueModel {
  final case class Entry(ordinal: Long, message: Array[Byte], definition: Option[Int])

  final case class Queued(sent: SentTransaction, entries: Vector[Entry], before: Option[Int]) {
    lazy val bytes: Long = entries.map(entry => 12L + entry.message.length).sum
    lazy val changes: Int = entries.count(_.ordinal != Cut.NoOrdinal)
  }
}
