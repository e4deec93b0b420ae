package io.sparkpgoutput.lake.job

import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException, Trigger}
import org.apache.spark.sql.{DataFrame, Dataset, Row, SparkSession}

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.faults.Retries
import io.sparkpgoutput.lake.follow.{FollowedColumns, FollowedTables, SourceCatalog}
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.resync.{Resyncs, StartOver}
import io.sparkpgoutput.lake.state.{CheckpointFolder, KeptState}
import io.sparkpgoutput.lake.status.{JobLog, JobStatus}
import io.sparkpgoutput.lake.target.Target
import io.sparkpgoutput.lake.verify.VerifiedTable
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.PublicationNames
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotCreation, SlotRemoval, SlotState}

/** The steps of a job. [[run]] is called once, in a thread of its own. */
final class ReplicationJob(
    session: SparkSession,
    options: ReplicateOptions,
    target: Target,
    client: ServerClient,
    server: Server,
    catalog: SourceCatalog,
    state: KeptState,
    needsSlot: Boolean,
    verifies: Seq[String],
    startOver: Option[StartOver],
    log: JobLog
) {
  private val running = new AtomicReference[Option[StreamingQuery]](None)
  @volatile private var stopping = false
  private var isStarting = false
  @volatile private var hasEverything = false
  private val retries = new Retries
  private val renewals = new SessionRenewals(options, server)
  private val resyncs: Resyncs = new Resyncs(
    session,
    options,
    target,
    catalog,
    state,
    renewals.copiedAsOf,
    log,
    _ => query.foreach(_.stop()),
    requests => verifications.take(requests),
    () => batches.look()
  )
  private val followed = new FollowedTables(
    catalog,
    new FollowedColumns(catalog, target, state, log),
    state,
    log,
    resyncs.added
  )
  private val verifications: Verifications = new Verifications(
    session,
    options,
    target,
    state,
    resyncs,
    followed,
    log,
    () => stopping
  )
  private val batches: MicroBatches = new MicroBatches(
    options,
    session.sparkContext.hadoopConfiguration,
    target,
    followed,
    resyncs,
    state,
    log
  )

  /** What was found, if the job was started to verify tables. */
  @volatile var verified: Option[Seq[VerifiedTable]] = None

  def query: Option[StreamingQuery] = running.get

  /** True if the job ended before it had everything that the option `once` asks for. */
  def isCutShort: Boolean = options.once && !hasEverything
  def hasStoppedTable: Boolean = state.tables.exists(_.isStopped)

  def run(): Unit = ClonedSession.within(session) {
    startOver.foreach(_.run(state, log))
    state.save()
    // A slot that another one replaces can be made again. The first is not, because its user waits.
    if (state.job.needsSlot) retrying(makeSlot()) else if (needsSlot) makeSlot()
    if (state.job.end.isEmpty)
      retrying {
        new FirstCopies(session, options, target, catalog, state, log, () => retries.succeeded())
          .run()
      }
    try {
      retrying(resyncs.start())
      if (!options.once) verifications.start()
      retrying(stream())
      if (options.once) {
        resyncs.await(() => stopping)
        if (!stopping && resyncs.error.isEmpty)
          try verify()
          catch { case _: InterruptedException if resyncs.error.nonEmpty => () }
      }
      resyncs.error.foreach(throw _)
    } finally
      try verifications.stop()
      finally resyncs.stop()
    hasEverything = !stopping
    log.tell(s"Everything below ${state.job.end.fold("the start")(Lsn.format)} is applied.")
  }

  /** Each verification lets the stream run once more, up to its snapshot. */
  private def verify(): Unit = {
    if (verifies.nonEmpty)
      verified = Some(verifications.verify(verifies)(retrying(stream())))
    verifications.answer()(retrying(stream()))
  }

  /** The slot comes first, so that no change is missed between the copies and the stream. */
  private def makeSlot(): Unit = {
    if (state.job.needsSlot) SlotRemoval.drop(options.address, options.slot)
    endIfStopping()
    log.tell(s"The server makes the slot ${options.slot}.")
    SlotCreation.create(options.address, options.slot, options.failover)
    val slot = client.query(SlotState.read(_, options.slot))
    val made = SlotChecks.readable(slot, server, options.slot)
    // The copies write it. If the job ends before, the next start takes this slot, or makes it again.
    state.updateJob(_.copy(firstLsn = made.confirmedFlush.get, needsSlot = false))
  }

  /** The thread is interrupted when the job is to stop, but code that it calls can catch that. */
  private def endIfStopping(): Unit = if (stopping) throw new InterruptedException

  private def retrying(step: => Unit): Unit = retries.repeat(() => stopping, log.warn) {
    endIfStopping()
    step
  }

  private def stream(): Unit = {
    catalog.checkTimeline(state)
    renewals.begin(state.tables)
    batches.error = None
    val query = start()
    if (stopping || resyncs.error.nonEmpty) query.stop()
    try {
      query.awaitTermination()
      state.save()
    } catch {
      case failure: Throwable =>
        val cause = batches.error.getOrElse(reason(failure))
        // Another process that has replaced this one knows more.
        try if (!LakeError.isOtherJob(cause)) state.save()
        catch { case another: Exception => cause.addSuppressed(another) }
        throw cause
    } finally query.stop()
  }

  /** Starts the query. If Spark is interrupted meanwhile, it leaves a query that nobody can stop. */
  private def start(): StreamingQuery = {
    synchronized {
      endIfStopping()
      isStarting = true
    }
    try {
      val started = startQuery()
      running.set(Some(started))
      started
    } finally synchronized { isStarting = false }
  }

  private def startQuery(): StreamingQuery = {
    val changes = session.readStream
      .format("pgoutput")
      .options(ofSource)
      .load()
    val trigger = if (options.once) Trigger.AvailableNow() else Trigger.ProcessingTime(0)
    val generation = state.job.generation
    CheckpointFolder.removeUnfinished(
      options.checkpoint,
      generation,
      session.sparkContext.hadoopConfiguration
    )
    changes.writeStream
      .option("checkpointLocation", CheckpointFolder.of(options.checkpoint, generation))
      .trigger(trigger)
      .foreachBatch { (batch: Dataset[Row], id: Long) =>
        batches.apply(batch, id)
        retries.succeeded()
      }
      .start()
  }

  /** The error of the source or of Spark that ended the stream, whose condition users look for. */
  private def reason(failure: Throwable) = failure match {
    case ended: StreamingQueryException => Option(ended.getCause).getOrElse(ended)
    case other                          => other
  }

  private def ofSource: Map[String, String] = Map(
    "url" -> options.url,
    "slot" -> options.slot,
    "publication" -> PublicationNames.format(options.publications),
    "output" -> "messages",
    "maxBytesPerTrigger" -> options.maxBytesPerTrigger
  ) ++ options.user.map("user" -> _) ++ options.password.map("password" -> _)

  /**
   * Ends the stream. What was not applied as a whole is applied by the next start.
   *
   * @return false if there is no stream to end, so the thread of [[run]] must be interrupted
   */
  def stop(): Boolean = {
    val (starts, active) = synchronized {
      stopping = true
      (isStarting, query.filter(_.isActive))
    }
    active.foreach(_.stop())
    starts || active.nonEmpty
  }

  /** The tables, as a DataFrame of a session, which is the user's and not the job's own. */
  def status(of: SparkSession): DataFrame = JobStatus.of(of, state, batches.appliedUpTo)

  def close(): Unit = client.close()

  override def toString: String = options.toString
}
