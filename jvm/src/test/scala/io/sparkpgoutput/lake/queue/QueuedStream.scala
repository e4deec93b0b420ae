package io.sparkpgoutput.lake.queue

import scala.util.Random

import io.sparkpgoutput.changes.StreamMessages

/** A change of a table, as a session of the slot sends it. */
final case class SentChange(ordinal: Long, message: Array[Byte], definition: Int)

/** A transaction of a table, as a session of the slot sends it. */
final case class SentTransaction(
    lsn: Long,
    end: Long,
    xid: Long,
    origin: Option[String],
    changes: IndexedSeq[SentChange]
) {
  def begin: Array[Byte] = StreamMessages.begin(xid, lsn)
  def originMessage: Option[Array[Byte]] = origin.map(StreamMessages.origin)
  def commit: Array[Byte] = StreamMessages.commit(lsn)
}

/** The random stream of one table. A transaction that is sent again is the same. */
final class QueuedStream(random: Random, largest: Int) {
  private var sent = Vector.empty[SentTransaction]
  private var xid = 0xfffffff0L
  private var definition = 0

  def apply(index: Int): SentTransaction = {
    while (sent.size <= index) sent :+= next()
    sent(index)
  }

  private def next(): SentTransaction = {
    val lsn = sent.lastOption.fold(1000L)(_.end) + random.nextInt(3) * 100
    xid = (xid + 1 + random.nextInt(3)) & 0xffffffffL
    var ordinal = -1L
    val changes = IndexedSeq.fill(size()) {
      ordinal += 1 + random.nextInt(2)
      if (random.nextInt(20) == 0) definition = random.nextInt(3)
      SentChange(ordinal, change(), definition)
    }
    val origin = Option.when(random.nextInt(4) == 0)("far")
    SentTransaction(lsn, lsn + 1, xid, origin, changes)
  }

  private def size(): Int = random.nextInt(20) match {
    case 0          => 0
    case n if n < 4 => 50 + random.nextInt(300)
    case _          => 1 + random.nextInt(5)
  }

  private def change(): Array[Byte] = {
    val size = random.nextInt(2000) match {
      case 0           => largest
      case n if n < 10 => largest / 20
      case _           => random.nextInt(200)
    }
    val message = new Array[Byte](1 + size)
    random.nextBytes(message)
    message(0) = "IUDT" (random.nextInt(4)).toByte
    message
  }
}

object QueuedStream {

  /** A definition as a session sends it: in each session, its messages are equal and are other arrays. */
  def definition(number: Int): TableMessages = new TableMessages(
    StreamMessages.relation(name = s"t$number"),
    IndexedSeq.tabulate(number)(n => StreamMessages.pgType(90000L + n, "public", s"type$n"))
  )
}
