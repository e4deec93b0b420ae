package io.sparkpgoutput.source.stream

import java.util
import java.util.{Optional, UUID}

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.{SparkSession, classic}

import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.options.SourceOptions
import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.reader.{ReadReports, SlotPartition, SlotReaderFactory}
import io.sparkpgoutput.source.session.{BatchRead, SessionEnd, SessionSettings}
import io.sparkpgoutput.source.slot.{
  SlotChecks,
  SlotHealth,
  SlotMetrics,
  SlotState,
  SlotWarnings,
  WalEnd
}

/**
 * A slot as a stream. A batch has the transactions whose commit LSN is at or above one LSN and below
 * another, whole. The driver only says which LSNs. A task reads the transactions.
 */
final class SlotStream(options: SourceOptions, output: SlotOutput, checkpoint: String)
    extends MicroBatchStream
    with SupportsAdmissionControl
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics
    with Logging {
  private val spark = SparkSession.active.asInstanceOf[classic.SparkSession]
  private val server = new ServerClient(options.address, options.applicationName)
  private val start = new StreamStart(
    options,
    output.schema,
    server,
    new SourceLog(checkpoint, spark.sessionState.newHadoopConf())
  )
  private val run = UUID.randomUUID().toString
  private val reports = new ReadReports(spark.sparkContext)

  private val pace = new BatchPace(options.idleInterval)
  private val flushedEnd = new FlushedEnd
  private val warnings = new SlotWarnings(text => logWarning(text))

  /** The LSN below which all is committed in Spark; 0 if that is not known. */
  private var committed = 0L

  /** The end of the stream for the trigger availableNow. */
  private var target: Option[Long] = None

  /** The last state of the slot that the server reported. */
  private var state: Option[SlotState] = None

  override def initialOffset(): Offset = SlotOffset(start.firstLsn())
  override def deserializeOffset(json: String): Offset = SlotOffset.of(json)
  override def getDefaultReadLimit: ReadLimit = ReadLimit.maxBytes(options.maxBytesPerTrigger)

  override def prepareForTriggerAvailableNow(): Unit = target = Some(server.query(WalEnd.next))

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException("latestOffset(start, limit) is called instead.")

  /** Spark has committed all below the start, because it asks for the next batch only then. */
  override def latestOffset(from: Offset, limit: ReadLimit): Offset = {
    val begin = lsn(from)
    start.check(begin)
    committed = Lsn.max(committed, begin)
    val last = reports.last
    val isDue = target.nonEmpty || pace.isDue(hadRows = last.end == begin && last.rows > 0)
    if (!isDue) from
    else {
      val now = askServer(begin)
      val end = Lsn.max(begin, Lsn.min(available(now, begin), limited(begin, limit)))
      pace.asked(isBehind = Lsn.isBelow(end, now.flushLsn) && end != begin)
      SlotOffset(end)
    }
  }

  private def askServer(begin: Long): SlotState = {
    val slot = server.query(SlotState.read(_, options.slot))
    val found = SlotChecks.beforeReading(slot, start.server, start.source, begin)
    start.source.checkPublications(server.query(SlotChecks.publications(_, options.publications)))
    state = Some(found)
    warnings.update(found)
    // A connection that broke meanwhile can lead to another server, which the answers are of.
    start.check(begin)
    found
  }

  private def available(state: SlotState, begin: Long): Long =
    target.getOrElse(flushedEnd.of(begin, state.flushLsn, start.server.walBlockSize))

  private def limited(begin: Long, limit: ReadLimit): Long = limit match {
    case _: ReadAllAvailable => -1L // the greatest LSN
    case limit: ReadMaxBytes => begin + limit.maxBytes
    case _                   => begin + options.maxBytesPerTrigger
  }

  override def planInputPartitions(from: Offset, to: Offset): Array[InputPartition] =
    plan(from, to, output)

  private[stream] def plan(from: Offset, to: Offset, output: SlotOutput): Array[InputPartition] = {
    start.check(lsn(from), isPlanned = true)
    val read = BatchRead(settings, start.source, lsn(from), lsn(to), committed, output)
    Array(SlotPartition(read, reports.last.location))
  }

  private def settings = SessionSettings(
    options.address.forTasks,
    start.source.id,
    run,
    options.slot,
    options.publications,
    options.binary
  )

  override def createReaderFactory(): PartitionReaderFactory =
    SlotReaderFactory(reports.accumulator)

  override def commit(end: Offset): Unit = committed = Lsn.max(committed, lsn(end))

  override def metrics(consumed: Optional[Offset]): util.Map[String, String] =
    state.fold(Map.empty[String, String]) { found =>
      val position = if (consumed.isPresent) lsn(consumed.get) else committed
      SlotHealth.metrics(found, position) ++
        SlotMetrics.of(SlotMetrics.SECONDS_BEHIND -> secondsBehind(found, position))
    }.asJava

  private def secondsBehind(state: SlotState, position: Long): Option[String] = {
    val newest = Option(reports.last.lastCommit).filter(_ != 0).map(microsToInstant)
    val isBehind = Lsn.isBelow(position, target.getOrElse(state.flushLsn))
    SlotHealth.secondsBehind(isBehind, newest).map(seconds => f"$seconds%.3f")
  }

  /** Ends the session wherever it is, and tells the server what is committed. */
  override def stop(): Unit = {
    if (start.isChecked) SessionEnd.end(settings, start.source, committed)
    server.close()
  }

  private def lsn(offset: Offset): Long = offset match {
    case SlotOffset(lsn) => lsn
    case other           => SlotOffset.of(other.json).lsn
  }

  override def equals(other: Any): Boolean = other match {
    case narrowed: NarrowedStream => narrowed.stream eq this
    case stream: AnyRef           => stream eq this
    case _                        => false
  }
  override def hashCode: Int = System.identityHashCode(this)
  override def toString: String = s"pgoutput $options"
}
