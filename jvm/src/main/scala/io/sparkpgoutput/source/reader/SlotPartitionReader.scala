package io.sparkpgoutput.source.reader

import java.util.zip.CRC32C

import scala.annotation.switch

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader}
import org.apache.spark.util.CollectionAccumulator
import org.apache.spark.{SparkEnv, TaskContext}

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.protocol.BeginMessage
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.source.session.{BatchRead, SlotSessions}

/** The one partition of a batch. It prefers the executor that keeps the session. */
final case class SlotPartition(read: BatchRead, location: Option[String]) extends InputPartition {
  override def preferredLocations(): Array[String] = location.toArray
}

/**
 * Reads the rows of messages, one message after the other, and counts what it has read. A subclass says where the
 * messages come from, and what makes rows of them.
 */
abstract class TransactionReader extends PartitionReader[InternalRow] {
  private var pending: Iterator[InternalRow] = Iterator.empty
  private var row: InternalRow = _
  private var isAtEnd = false
  private var transactions, bytes = 0L

  /** The number of rows so far. */
  protected var count = 0L

  /** The time of the last commit in microseconds since 1970; 0 if there is none. */
  protected var lastCommit = 0L

  /** Returns the next message, or null at the end. */
  protected def nextMessage(): Array[Byte]

  /** Returns the rows of a message. Take all of them before the next message. */
  protected def rowsOf(message: Array[Byte]): Iterator[InternalRow]

  override def get(): InternalRow = row

  override def next(): Boolean = {
    while (!pending.hasNext && !isAtEnd) {
      val message = nextMessage()
      if (message == null) isAtEnd = true else pending = read(message)
    }
    val more = pending.hasNext
    if (more) {
      row = pending.next()
      count += 1
    }
    more
  }

  private def read(message: Array[Byte]): Iterator[InternalRow] = {
    bytes += message.length
    val found = rowsOf(message)
    if (BeginMessage.is(message)) {
      transactions += 1
      lastCommit = BeginMessage.timestamp(message)
    }
    found
  }

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    Array(new TransactionsMetric().of(transactions), new MessageBytesMetric().of(bytes))
}

/**
 * Reads a batch from the session of its source, and keeps the session for the next batch.
 *
 * If the session is lost, because somebody has ended it or the connection broke, another session reads
 * the batch from its start, and continues after the last message that was returned. If a transaction was open
 * while the catalog changed, PostgreSQL can send it differently. So the checksum of the earlier messages must
 * be the same. If it is not, the task fails, and Spark reads the batch again from its start.
 */
final class SlotPartitionReader(
    read: BatchRead,
    reports: CollectionAccumulator[(Long, Long, Long, Option[String])]
) extends TransactionReader
    with Logging {

  /**
   * The number of sessions in a row that can be lost before one of them gives a new message. One
   * more loss is an error.
   */
  final private val MaxLosses = 3

  private var kept = SlotSessions.take(read)
  private val passed = new Passed

  /** What another session has read again so far; null if it has read everything again. */
  private var again: Passed = _

  /**
   * The last connection error, the number of messages that were given out before it, and the number of losses
   * since the last new message.
   */
  private var loss: SourceException = _
  private var passedAtLoss = -1L
  private var losses = 0
  private var isDone = false
  begin()
  // A task can fail after it has read everything. Its next attempt then needs the slot.
  Option(TaskContext.get()).foreach(_.addTaskFailureListener((_, _) => SlotSessions.close(kept)))

  private def begin(): Unit = {
    if (read.confirmed != 0) kept.session.confirm(read.confirmed)
    kept.session.startBatch(read.end)
    kept.rows.startBatch()
  }

  override protected def rowsOf(message: Array[Byte]): Iterator[InternalRow] =
    kept.rows.message(message)

  override protected def nextMessage(): Array[Byte] =
    try {
      if (again != null) readAgain()
      val message = kept.session.next(read.end)
      if (message != null) passed.add(message)
      message
    } catch {
      case error: SourceException if kept.session.wasLost =>
        startAgain(error)
        nextMessage()
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
    again = new Passed
  }

  /** Reads up to the last message that was given out. */
  private def readAgain(): Unit = {
    while (again.count < passed.count) {
      val found = kept.session.next(read.end)
      if (found == null) throw loss
      rowsOf(found).foreach(_ => ())
      again.add(found)
    }
    if (again.checksum != passed.checksum) throw loss
    again = null
  }

  override def next(): Boolean = {
    val more = super.next()
    if (!more && !isDone) finish()
    more
  }

  /** Keeps the session for the next batch. */
  private def finish(): Unit = {
    isDone = true
    kept.position = read.end
    SlotSessions.park(kept)
    reports.add((read.end, count, lastCommit, Some(here)))
  }

  /** Ends the session if the batch was not read to its end, because it is in a transaction then. */
  override def close(): Unit = if (!isDone) {
    isDone = true
    SlotSessions.discard(kept)
  }

  /** This executor, in the form of Spark's `ExecutorCacheTaskLocation`. */
  private def here: String = {
    val executor = SparkEnv.get.blockManager.blockManagerId
    s"executor_${executor.host}_${executor.executorId}"
  }

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
