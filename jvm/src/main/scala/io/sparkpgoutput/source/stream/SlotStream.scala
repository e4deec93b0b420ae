package io.sparkpgoutput.source.stream

import java.time.Duration
import java.util
import java.util.concurrent.TimeUnit
import java.util.{Optional, UUID}

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.connector.read.streaming._
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}
import org.apache.spark.sql.{SparkSession, classic}

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.reader.{ReadReports, SlotPartition, SlotPartitionReader}
import io.sparkpgoutput.source.session.{BatchRead, SessionEnd}
import io.sparkpgoutput.source.slot._

/**
 * A slot as a stream of Spark. This head explains why each transaction comes exactly once: '''offsets, session,
 * confirmation'''.
 *
 * {{{
 *   Spark's driver                                           an executor                       the server
 *   latestOffset ──► SlotStream asks for the end of the WAL ──────────────────────────────────► flush LSN
 *   planInputPartitions(start, end) ──► BatchRead ─────────► SlotPartitionReader ◄── SlotSession ◄── walsender
 *                                       ReadReport ◄────────── rows, and where the session is
 *   commit(end), latestOffset(start) ──► next BatchRead ───► SlotSession.confirm ──────────────► confirmed LSN
 *   stop ──► SessionEnd ───────────────────────────────────────────────────────────────────────► confirmed LSN
 * }}}
 *
 * '''An offset is one LSN.''' All transactions whose commit LSN is below it are done. A batch has the
 * transactions from one LSN to another, whole. The server makes the same comparison: `START_REPLICATION` at an
 * LSN sends the transactions whose commit LSN is at or above it. So any LSN can be an end, and the driver need
 * not read to find one. Nothing is open between two batches, because the server sends a transaction when it has
 * committed. So there is no state store, and a transaction of any size takes constant memory.
 *
 * '''How a task knows that its batch is over.''' It stops at a Begin message whose commit LSN is at the end or
 * above, and keeps it for the next batch. If no such message comes, it stops when a keepalive of the server
 * says that everything below the end was decoded. While it waits, it asks for a keepalive every 100 ms.
 *
 * '''One session serves many batches.''' A new session makes the server decode its WAL again, from the oldest
 * transaction that was open at the confirmed LSN. So [[io.sparkpgoutput.source.session.SlotSession]] stays open
 * on its executor, parked between two batches. The task reports its executor, the driver prefers it for the
 * next batch, and the task continues if the position of the session is exactly the start of the batch, and the
 * session reads the timeline that the driver has accepted. Otherwise it starts a new session there.
 *
 * '''When the source confirms an LSN.''' The server may forget everything below the confirmed LSN. So the source
 * confirms only an LSN below which Spark has committed all. Spark gives it such an LSN in two calls. `commit(end)`
 * says that a batch is committed. `latestOffset(start)` says so too, because Spark asks for a batch only when the
 * previous one is committed. So the confirmed LSN is never above the start of a batch that Spark can still ask for.
 * The next batch brings the LSN to its session, and `SessionEnd` confirms it when the query stops.
 *
 * A session confirms an LSN when a keepalive has shown that the server has sent everything below it. It sends
 * a confirmed LSN once. All other status updates say "not known": if a client repeated an LSN that is below what the
 * server has sent, a fast shutdown of the server would never end.
 *
 * '''Why nothing is missing, and nothing comes twice.'''
 *
 *  1. WAL that is flushed does not change on a timeline. A session that starts with a confirmed LSN at or below
 *     the start of a batch, and reads to its end as above, has all of the batch, and nothing else.
 *  2. Spark writes the offsets of a batch before it runs the batch, and runs the same range again after a
 *     failure. The first offset is in the folder of the source, because Spark asks for it again if the first
 *     batch did not end. [[SourceLog]] keeps it there, in files `0.json`, `1.json` and so on, of which the last one
 *     counts. Such a file has the version of its format, the UUID of the source, the system identifier and the
 *     timelines of the server, the database, the slot, the publications with their oids, the first offset, and the
 *     schema of the rows. [[StreamStart]] compares a later start with it.
 *  3. [[io.sparkpgoutput.source.slot.SlotChecks]] checks the slot three times: before each batch, again while
 *     the session holds the slot and nobody else can move it, and before `SessionEnd` confirms the last end. It
 *     compares the confirmed LSN of the slot, the end of the server's WAL, the system identifier and the
 *     history of the timeline. If one of them does not fit, the query fails, so it never continues with a
 *     gap.
 *
 * '''Who owns a slot.''' The `application_name` of a session has the UUID of its source, which the checkpoint
 * keeps, and the beginning of the UUID of this start of the query. By the latter, a query that stops recognizes
 * and ends only its own sessions. Another session of the same source is parked or busy: the applied LSN in its
 * status updates says which, and `pg_stat_replication` shows it. A new session ends a parked one with
 * `pg_terminate_backend`, and waits for a busy one, which is another attempt of the same task. It does not wait for an
 * earlier session of its own executor: nothing reads from that one any more, even if the server has not noticed the end
 * of its connection. If anybody else uses the slot, that is an error.
 *
 * @see [[https://www.postgresql.org/docs/current/protocol-replication.html]]
 */
final class SlotStream(options: SourceOptions, output: SlotOutput, checkpoint: String)
    extends MicroBatchStream
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics
    with Logging {
  private val spark = SparkSession.active.asInstanceOf[classic.SparkSession]
  private val server = options.client()
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

  /** The end of the stream for the triggers availableNow and once. */
  private var target: Option[Long] = None

  /** The last state of the slot that the server reported. */
  private var state: Option[SlotState] = None

  override def initialOffset(): Offset = SlotOffset(start.firstLsn())
  override def deserializeOffset(json: String): Offset = SlotOffset.of(json)
  override def getDefaultReadLimit: ReadLimit = ReadLimit.maxBytes(options.maxBytesPerTrigger)

  override def prepareForTriggerAvailableNow(): Unit = target = Some(server.query(WalEnd.next))

  override def latestOffset(): Offset =
    throw new UnsupportedOperationException("latestOffset(start, limit) is called instead.")

  /**
   * Spark has committed all below the start, because it asks for the next batch only then. Only the trigger once asks
   * for all that is available, and it asks one time.
   */
  override def latestOffset(from: Offset, limit: ReadLimit): Offset = {
    val begin = lsn(from)
    start.check(begin)
    if (limit.isInstanceOf[ReadAllAvailable]) prepareForTriggerAvailableNow()
    committed = Lsn.max(committed, begin)
    val last = reports.last
    val isDue = target.nonEmpty || pace.isDue(hadRows = last.end == begin && last.rows > 0)
    if (!isDue) from
    else {
      val asked = System.nanoTime() // the round trips to the server are part of the interval
      val now = askServer(begin)
      val end = Lsn.max(begin, Lsn.min(available(now, begin), limited(begin, limit)))
      pace.asked(asked, isBehind = Lsn.isBelow(end, now.flushLsn) && end != begin)
      SlotOffset(end)
    }
  }

  @tailrec
  private def askServer(begin: Long): SlotState = {
    val connections = server.connections
    val slot = server.query(SlotState.read(_, options.slot))
    val found = SlotChecks.beforeReading(slot, start.server, start.source, begin)
    start.source.checkPublications(server.query(SlotChecks.publications(_, options.publications)))
    state = Some(found)
    warnings.update(found)
    // If the connection broke in this time, the answers may come from another server.
    start.check(begin)
    // The WAL of the other server can end below the one that was reported.
    if (server.connections == connections) found else askServer(begin)
  }

  private def available(state: SlotState, begin: Long): Long =
    if (target.isEmpty) flushedEnd.of(begin, state.flushLsn, start.server.walBlockSize)
    else reachable(state)

  /**
   * The end of the WAL, or of what the triggers availableNow and once ask for. A server that was promoted since then
   * can end below the latter. It has all that is left of it.
   */
  private def reachable(state: SlotState): Long =
    target.fold(state.flushLsn)(Lsn.min(_, state.flushLsn))

  private def limited(begin: Long, limit: ReadLimit): Long = limit match {
    case _: ReadAllAvailable => -1L // the greatest LSN
    case _                   => begin + options.maxBytesPerTrigger
  }

  override def planInputPartitions(from: Offset, to: Offset): Array[InputPartition] =
    plan(from, to, output)

  private[stream] def plan(from: Offset, to: Offset, output: SlotOutput): Array[InputPartition] = {
    start.check(lsn(from), isPlanned = true)
    val read = BatchRead(settings, start.source, lsn(from), lsn(to), committed, output)
    Array(SlotPartition(read, reports.last.location))
  }

  private def settings = options.session(start.source.id, run)

  override def createReaderFactory(): PartitionReaderFactory = {
    val accumulator = reports.accumulator // the stream is not serializable
    partition => new SlotPartitionReader(partition.asInstanceOf[SlotPartition].read, accumulator)
  }

  override def commit(end: Offset): Unit = committed = Lsn.max(committed, lsn(end))

  override def metrics(consumed: Optional[Offset]): util.Map[String, String] =
    state.fold(Map.empty[String, String]) { found =>
      val position = if (consumed.isPresent) lsn(consumed.get) else committed
      val newest = Option(reports.last.lastCommit).filter(_ != 0).map(microsToInstant)
      SlotHealth.metrics(found, position, reachable(found), newest)
    }.asJava

  /** Ends the session wherever it is, and confirms to the server what is committed. */
  override def stop(): Unit = {
    if (start.isChecked) new SessionEnd(settings, start.source, committed).run()
    server.close()
  }

  private def lsn(offset: Offset): Long = offset match {
    case SlotOffset(lsn) => lsn
    case other           => SlotOffset.of(other.json).lsn
  }

  override def equals(other: Any): Boolean = other match {
    case narrowed: NarrowedStream => narrowed.stream eq this
    case _                        => super.equals(other)
  }
  override def hashCode: Int = System.identityHashCode(this)
  override def toString: String = s"pgoutput $options"
}

/** All transactions whose commit LSN is below this LSN are done. The text is the same for ever. */
final case class SlotOffset(lsn: Long) extends Offset {
  override def json(): String = s"""{"lsn":"${Lsn.format(lsn)}"}"""
}

object SlotOffset {
  private val Json = """\s*\{\s*"lsn"\s*:\s*"([0-9a-fA-F/]+)"\s*\}\s*""".r

  def of(json: String): SlotOffset = {
    val lsn = Some(json).collect { case Json(lsn) => lsn }.flatMap(Lsn.parse)
    SlotOffset(lsn.getOrElse(
      throw new SourceException("PGOUTPUT_CHECKPOINT_VERSION.OFFSET", "offset" -> json)
    ))
  }
}

/**
 * Finds the end of the WAL that a batch can read. A flush LSN on a page boundary often lies inside
 * a record, which can stay unfinished for 10 seconds. So this does not take such an LSN until the
 * server has flushed more. If applications commit asynchronously all the time, the server flushes
 * whole pages only (`XLogBackgroundFlush`).
 */
final class FlushedEnd {
  private var boundary = 0L
  private var start = 0L

  /**
   * Returns the LSN up to which a batch can read, or its start if there is nothing yet.
   *
   * @param begin the start of the batch
   * @param flushed the server's flush LSN
   * @param pageSize the size of a page of WAL in bytes
   */
  def of(begin: Long, flushed: Long, pageSize: Int): Long =
    if (flushed % pageSize != 0) flushed
    else if (start == begin && Lsn.isBelow(begin, boundary) && Lsn.isBelow(boundary, flushed))
      boundary
    else {
      boundary = flushed
      start = begin
      begin
    }
}

/**
 * Decides when the server is asked for the end of the next batch. It is asked at once after a batch
 * that reaches the limit of bytes, and soon after one that has rows. Otherwise it is asked after an interval. The
 * server writes WAL all the time, and each batch without rows costs two files in the checkpoint.
 *
 * Spark asks for a batch every 10 ms until there is one, so "soon" is not at once: a batch with rows can be the last
 * one for hours.
 *
 * A trigger can be as long as the interval, and comes some milliseconds earlier or later than the interval is over. So
 * the interval ends a little earlier, or such a trigger would ask only every second time.
 */
final class BatchPace(idleInterval: Duration) {
  final private val Soon = TimeUnit.MILLISECONDS.toNanos(100)
  final private val MostJitter = TimeUnit.MILLISECONDS.toNanos(50)
  private var lastQuestion: Option[Long] = None
  private var isBehind = false

  /** Returns whether the interval is over. */
  def isDue(hadRows: Boolean): Boolean = isBehind ||
    lastQuestion.forall(System.nanoTime() - _ >= interval(hadRows))

  private def interval(hadRows: Boolean): Long = {
    val interval = if (hadRows) idleInterval.toNanos.min(Soon) else idleInterval.toNanos
    interval - (interval / 10).min(MostJitter)
  }

  /**
   * The server was asked.
   *
   * @param at when the question began, as `System.nanoTime()`
   * @param isBehind true if the batch is at its limit, and there is more to read
   */
  def asked(at: Long, isBehind: Boolean): Unit = {
    lastQuestion = Some(at)
    this.isBehind = isBehind
  }
}

/**
 * A stream of which a query needs only some columns. It reads in place of the stream, and Spark counts
 * its rows as those of the stream, because the two are equal.
 */
final class NarrowedStream(val stream: SlotStream, output: SlotOutput) extends MicroBatchStream {
  override def planInputPartitions(from: Offset, to: Offset): Array[InputPartition] =
    stream.plan(from, to, output)

  override def createReaderFactory(): PartitionReaderFactory = stream.createReaderFactory()
  override def initialOffset(): Offset = stream.initialOffset()
  override def latestOffset(): Offset = stream.latestOffset()
  override def deserializeOffset(json: String): Offset = stream.deserializeOffset(json)
  override def commit(end: Offset): Unit = stream.commit(end)
  override def stop(): Unit = stream.stop()

  override def equals(other: Any): Boolean = stream == other
  override def hashCode: Int = stream.hashCode
  override def toString: String = stream.toString
}
