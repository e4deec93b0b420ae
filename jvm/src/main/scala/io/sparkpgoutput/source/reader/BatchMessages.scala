package io.sparkpgoutput.source.reader

import java.util.zip.CRC32C

import scala.annotation.switch

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow

import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.source.SourceException
import io.sparkpgoutput.source.output.SlotRows
import io.sparkpgoutput.source.session.{BatchRead, SlotSessions}

/**
 * The messages of a batch from the session of its source, and what makes rows of them.
 *
 * If the session is lost, because somebody has ended it or the connection broke, another session reads
 * the batch from its start, and goes on after the last message that was given out. PostgreSQL can send
 * a transaction differently that was open while the catalog changed, so a checksum of the messages
 * before must be the same. If it is not, the task fails, and Spark reads the batch anew.
 */
final class BatchMessages(read: BatchRead) extends SlotRows with Logging {
  import BatchMessages._

  private var kept = SlotSessions.take(read)
  private val passed = new Passed

  /** What another session has read again so far; null if it has read everything again. */
  private var again: Passed = _

  /** The error of the last loss, the messages before it, and the losses in a row without more. */
  private var loss: SourceException = _
  private var passedAtLoss = -1L
  private var losses = 0
  begin()

  private def begin(): Unit = {
    if (read.confirmed != 0) kept.session.confirm(read.confirmed)
    kept.session.startBatch(read.end)
  }

  override def startBatch(): Unit = kept.rows.startBatch()
  override def message(message: Array[Byte]): Iterator[InternalRow] = kept.rows.message(message)

  /** Returns the next message, or null at the end of the batch. */
  def next(): Array[Byte] =
    try {
      if (again != null) readAgain()
      val message = kept.session.next(read.end)
      if (message != null) passed.add(message)
      message
    } catch {
      case error: SourceException if kept.session.wasLost =>
        startAgain(error)
        next()
    }

  private def startAgain(error: SourceException): Unit = {
    losses = if (passed.count > passedAtLoss) 1 else losses + 1
    if (losses > MaxLosses) throw error
    loss = error
    passedAtLoss = passed.count
    logWarning(
      s"The session of the slot ${read.settings.slot} was lost while a task read: " +
        s"${error.getMessage} Another session reads the batch again."
    )
    kept = SlotSessions.startAgain(kept, read)
    begin()
    startBatch()
    again = new Passed
  }

  /** Reads up to the last message that was given out. */
  private def readAgain(): Unit = {
    while (again.count < passed.count) {
      val found = kept.session.next(read.end)
      if (found == null) throw loss
      message(found).foreach(_ => ())
      again.add(found)
    }
    if (again.checksum != passed.checksum) throw loss
    again = null
  }

  /** Keeps the session for the next batch. */
  def park(): Unit = {
    kept.position = read.end
    SlotSessions.park(kept)
  }

  /** Ends the session, if it is kept for the next batch. */
  def end(): Unit = SlotSessions.close(kept)

  /** Ends the session: a batch that was not read to its end leaves it in a transaction. */
  def discard(): Unit = SlotSessions.discard(kept)
}

private object BatchMessages {

  /**
   * The number of sessions in a row that can be lost before one of them gives a new message. One
   * more loss is an error.
   */
  final private val MaxLosses = 3

  /**
   * The checksum of the messages that were given out. It leaves out messages that describe a table
   * or a type, and messages of transactions that were rolled back, because they come at other
   * positions in another session.
   */
  final private class Passed {
    private val sum = new CRC32C
    var count = 0L

    def checksum: Long = sum.getValue

    def add(message: Array[Byte]): Unit = (message(0).toChar: @switch) match {
      case Tag.Relation | Tag.Type | Tag.StreamAbort => ()
      case _ =>
        sum.update(message)
        count += 1
    }
  }
}
