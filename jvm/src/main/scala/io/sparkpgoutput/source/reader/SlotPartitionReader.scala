package io.sparkpgoutput.source.reader

import java.util.zip.CRC32C

import scala.annotation.switch

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.util.CollectionAccumulator
import org.apache.spark.{SparkEnv, TaskContext}

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.protocol.BeginMessage
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.source.output.SlotRows
import io.sparkpgoutput.source.session.{BatchRead, SlotSessions}

/** The one partition of a batch. It prefers the executor that keeps the session. */
final case class SlotPartition(read: BatchRead, location: Option[String]) extends InputPartition {
  override def preferredLocations(): Array[String] = location.toArray
}

/** Makes the reader of a batch's partition on an executor. */
final case class SlotReaderFactory(reports: CollectionAccumulator[String])
    extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new SlotPartitionReader(partition.asInstanceOf[SlotPartition].read, reports)
}

/** Reads a batch from the session of its source, and keeps the session for the next batch. */
final class SlotPartitionReader(read: BatchRead, reports: CollectionAccumulator[String])
    extends PartitionReader[InternalRow] {
  private val messages = new BatchMessages(read)
  private val rows = new TransactionRows(messages, () => messages.next())
  private var isDone = false
  // A task can fail after it has read everything. Its next attempt then needs the slot.
  Option(TaskContext.get()).foreach(_.addTaskFailureListener((_, _) => messages.end()))

  override def next(): Boolean = {
    val more = rows.next()
    if (!more && !isDone) finish()
    more
  }

  override def get(): InternalRow = rows.get

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    ReadMetrics.values(rows.transactions, rows.bytes)

  private def finish(): Unit = {
    isDone = true
    messages.park()
    val location = Some(SlotPartitionReader.here)
    reports.add(ReadReport(read.end, rows.count, rows.lastCommit, location).text)
  }

  override def close(): Unit = if (!isDone) {
    isDone = true
    messages.discard()
  }
}

private object SlotPartitionReader {

  /** This executor, in the form of Spark's `ExecutorCacheTaskLocation`. */
  private def here: String = {
    val executor = SparkEnv.get.blockManager.blockManagerId
    s"executor_${executor.host}_${executor.executorId}"
  }
}

/**
 * The rows of messages, one after the other, and how many there are.
 *
 * @param nextMessage returns null at the end
 */
final class TransactionRows(rows: SlotRows, nextMessage: () => Array[Byte]) {
  private var pending: Iterator[InternalRow] = Iterator.empty
  private var row: InternalRow = _
  private var isAtEnd = false

  /** The numbers of rows, of transactions and of bytes so far. */
  var count, transactions, bytes = 0L

  /** The time of the last commit in microseconds since 1970; 0 if there is none. */
  var lastCommit = 0L

  rows.startBatch()

  def get: InternalRow = row

  def next(): Boolean = {
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
    val found = rows.message(message)
    if (BeginMessage.is(message)) {
      transactions += 1
      lastCommit = BeginMessage.timestamp(message)
    }
    found
  }
}

/**
 * The messages of a batch from the session of its source, and what makes rows of them.
 *
 * If the session is lost, because somebody has ended it or the connection broke, another session reads
 * the batch from its start, and continues after the last message that was returned. If a transaction was open
 * while the catalog changed, PostgreSQL can send it differently. So the checksum of the earlier messages must
 * be the same. If it is not, the task fails, and Spark reads the batch again from its start.
 */
final class BatchMessages(read: BatchRead) extends SlotRows with Logging {
  import BatchMessages._

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
