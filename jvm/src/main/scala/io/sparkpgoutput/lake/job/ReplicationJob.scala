package io.sparkpgoutput.lake.job

import java.time.Instant
import java.time.temporal.ChronoUnit
import java.util.UUID
import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.{ConcurrentHashMap, CountDownLatch}

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.{ClonedSession, LocalFolder}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{LakeException, SourceException}
import io.sparkpgoutput.lake.core.JobCommand._
import io.sparkpgoutput.lake.core.{JobCommand, JobCore, JobSettings, JobState, TableFailure}
import io.sparkpgoutput.lake.queue.{HiddenCells, QueueSpace, SlotReader, TableQueue}
import io.sparkpgoutput.lake.verify.VerifiedTable
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.source.session.SessionSettings
import io.sparkpgoutput.source.slot.{Server, SlotState, WalEnd}

/**
 * A job that runs: the threads around [[JobCore]], which decides what they do. The thread that calls
 * [[run]] takes the commands of the core and gives them to the threads. The reader puts changes into
 * queues, the appliers and copiers commit, and each reports the result to the core.
 */
final class ReplicationJob private[job] (ready: ReadyJob, verifies: Seq[TableName]) {
  import ReplicationJob._
  import ready.{client, options, server}

  private val log = ready.log
  private val settings = JobSettings(
    appliers = options.parallelTables,
    copiers = options.parallelCopies,
    intervalMillis = options.interval.toMillis,
    maxHeldWal = options.maxHeldWal,
    stopsAtError = !options.skips,
    copiesByItself = options.copiesByItself,
    excludes = options.excludes
  )
  private var parts: JobParts = _
  private val queues = new ConcurrentHashMap[Long, TableQueue]
  private val space = new QueueSpace(
    options.queueMemory,
    options.queueDisk,
    LocalFolder.make("spark-pgoutput-queues")
  )
  private var threads: JobThreads = _
  private var applier: TableApplier = _
  private var maintenance: TableMaintenance = _
  private var copier: TableCopier = _
  private var verifications: Verifications = _
  private var requests: Requests = _
  private var reader: SlotReader = _
  @volatile private var isStopping = false
  @volatile private var hasEverything = false
  @volatile private var lookAt = 0L
  @volatile private var isLooking, hasNextLook = false
  private val readerWait, stateWait, catalogWait, statusFileWait, roomWait = new JobWait(log)
  private val readerEnd = new CountDownLatch(1)
  private var nextRequests, nextStatus = 0L

  /** The lines that users have already got about tables that the job does not follow. */
  private var left = Map.empty[Long, String]

  private val statusFile = options.statusFile.map(new StatusFile(_))
  private var source: JobSource = _
  @volatile private var slotNow = Option.empty[SlotState]
  @volatile private var hasEnded = false
  @volatile private var isClosed = false

  /** When the job began to wait for the server or the folder, with the option `once`. */
  private var waitsSince = Long.MaxValue

  /** The result, if the job was started to verify tables. */
  @volatile var verified: Option[Seq[VerifiedTable]] = None

  /** Runs the job until it has everything, is stopped, or fails. */
  def run(session: SparkSession): Unit = ClonedSession.within(session) {
    try {
      val start = ready.open()
      val core = new SharedCore(new JobCore(settings, start))
      parts =
        new JobParts(session, options, ready.ownTables, ready.catalog, ready.folder, log, core)
      synchronized {
        threads = new JobThreads(session, options.toString, options.parallelCopies)
        // An interrupt that came too late for the start would prevent the end of these threads.
        Thread.interrupted(): Unit
      }
      applier = new TableApplier(parts)
      maintenance = new TableMaintenance(parts, threads, () => verifications.readsVersions)
      copier = new TableCopier(parts)
      reader = newReader(start)
      verifications = new Verifications(parts, threads, () => look(isForced = true))
      requests = new Requests(parts, verifications, () => look(isForced = true))
      source = new JobSource(options.slot, () => statusNow)
      left = JobLog.left(start)
      core(_.queuesAtStart).foreach { table =>
        val queue = new TableQueue(table.oid, table.mark.getOrElse(0L), space)
        queues.put(table.oid, queue)
        reader.put(table.oid, queue)
        core(_.queueBegun(table.oid, queue))
      }
      threads.read {
        try reader.run(start.confirmed)
        catch {
          case error: Throwable => if (!isStopping && !parts.isEnding) parts.end(error)
        } finally readerEnd.countDown()
      }
      loop()
    } finally close()
    parts.error.foreach(error => throw error)
    if (hasEverything)
      log.tell(s"Everything below ${Lsn.format(parts.state.confirmed)} is applied.")
  }

  private def newReader(start: JobState): SlotReader = {
    val settings = SessionSettings(
      options.address,
      start.id,
      UUID.randomUUID().toString,
      options.slot,
      options.publications,
      binary = false
    )
    new SlotReader(options.address, settings, start.identity, new ReaderEvents(start))
  }

  private def loop(): Unit = {
    var target = Option.empty[Long]
    // Another thread can stop the job before `parts` is set.
    while (!parts.isEnding && !hasEverything && !isStopping) {
      tick()
      if (parts.epoch > 0 && options.once) {
        giveUp()
        if (target.isEmpty) target = onceTarget()
        target.foreach { lsn =>
          if (requests.areDone && parts.core.withoutWaking(_.isDone(lsn))) lastOfOnce()
        }
      }
      if (parts.error.isEmpty) Thread.sleep(MillisToCoalesce)
    }
  }

  /** Takes the commands of the core, and checks the clock. */
  private def tick(): Unit = {
    // Each commit would fail for ever, and the process would keep the slot from others.
    if (parts.session.sparkContext.isStopped && !parts.isEnding)
      parts.end(new IllegalStateException("The SparkContext was stopped, so the job ends."))
    // Every change of a table ends the wait. The clock matters more while changes wait for their commits, and to a
    // job with `once`, which ends when the server has nothing more.
    val hasChanges = space.memoryUsed + space.diskUsed > 0
    parts.core.await(
      if (hasChanges) MillisBetweenTicks
      else if (options.once) MillisBetweenTicksOfOnce
      else MillisBetweenIdleTicks
    )
    checkRoom()
    if (parts.epoch > 0) {
      val (commands, awaitsChanges) = parts.core.withoutWaking { core =>
        // Room that a commit has made counts as soon as the core knows of the commit, or it would give up a queue.
        core.isFull = space.isStillFull
        (core.take(now), core.awaitsChanges)
      }
      commands.foreach(run)
      reader.ask(options.once || verifications.isPinning || awaitsChanges)
      if (now >= lookAt) look()
      if (now >= nextRequests) {
        nextRequests = now + MillisBetweenRequests
        threads.answer(requests.take())
      }
      if (now >= nextStatus) {
        nextStatus = now + MillisBetweenStatus
        source.update()
        threads.watch(watchSlot())
        threads.report(writeStatusFile())
        threads.tell(writeStatus())
      }
    }
  }

  /** Tells the user when the queues are full, and when they have room again. The reader waits by itself. */
  private def checkRoom(): Unit = {
    val isFull = space.isFull
    if (isFull && roomWait.isOver) {
      val full = f"The queues are full (${space.memoryUsed / 1e6}%,.0f MB in memory, " +
        f"${space.diskUsed / 1e6}%,.0f MB on disk), so the job stops reading the slot until there is room."
      roomWait.waits(full, warning = full)
    } else if (!isFull && !roomWait.isOver) {
      log.tell("The queues have room again, so the job goes on reading the slot.")
      roomWait.end()
    }
  }

  /** The end of what a job with `once` applies; None if the server cannot be asked now. */
  private def onceTarget(): Option[Long] =
    try Some(ofServer(WalEnd.next))
    catch { case error: Throwable if TableFailures.isPassing(error) => None }

  /** Stops waiting after the time of the option `retryFor`. */
  private def giveUp(): Unit = {
    val since = now - options.retryFor.toMillis
    parts.core.withoutWaking(_.giveUp(since, now))
    val reason = waits.flatMap(_.reason).headOption
    waitsSince = if (reason.isEmpty) Long.MaxValue else math.min(waitsSince, now)
    if (waitsSince <= since)
      parts.end(new LakeException("PGOUTPUT_CONNECTION.RETRIES_ENDED", "reason" -> reason.get))
  }

  private def lastOfOnce(): Unit = {
    if (verifies.nonEmpty && verified.isEmpty) {
      threads.verify {
        try verified = Some(verifications.verify(verifies))
        catch { case error: Throwable => if (!isStopping) parts.end(error) }
      }
      while (verified.isEmpty && !parts.isEnding) tick()
    }
    hasEverything = !parts.isEnding
    maintenance.last(() => tick())
  }

  private def run(command: JobCommand): Unit = command match {
    case WriteState(state, revision) => threads.writeState(writeState(state, revision))
    case Confirm(lsn)                => reader.confirm(lsn)
    case BeginQueue(oid, since) =>
      reader.beginQueue(
        oid,
        new TableQueue(oid, _, space),
        isNewSession = server.majorVersion < 15 || now - reader.sessionMillis <= since
      ) {
        queue =>
          queues.put(oid, queue)
          parts.core(_.queueBegun(oid, queue))
      }
    case DropQueue(oid, queue) =>
      queues.remove(oid, queue)
      val dropped = queue.asInstanceOf[TableQueue]
      dropped.drop() // at once, because the reader can be waiting for the server
      reader.dropQueue(oid, dropped)
    case ApplyCut(oid, upTo) => threads.apply {
        val queue = queues.get(oid)
        applier(oid, upTo, queue)
        maintenance.after(oid, queue.changes)
      }
    case AlterColumns(oid)   => threads.apply(applier.alter(oid))
    case MakeSnapshot(oid)   => threads.copy(copier.makeSnapshot(oid))
    case DropSnapshot(oid)   => threads.copy(copier.dropSnapshot(oid))
    case CommitCopy(oid)     => threads.copy(copier.commit(oid))
    case EndJob(oid, reason) => parts.end(parts.stopError(oid, reason))
  }

  private def writeState(state: JobState, revision: Long): Unit =
    try {
      parts.checkEpoch()
      ready.folder.write(parts.epoch, state)
      stateWait.end()
      tellLeft(state)
      parts.core(_.stateWritten(state, revision, now))
    } catch {
      case error: Throwable =>
        if (TableFailures.isPassing(error)) {
          stateWait.fails("The state of the job cannot be written", error)
          parts.core(_.stateFailed(now))
        } else if (!isStopping) parts.end(error)
    }

  /** Tells the user which tables the job does not follow any more. */
  private def tellLeft(state: JobState): Unit = {
    val found = JobLog.left(state)
    found.removedAll(left.keys).values.toSeq.sorted.foreach(log.tell)
    left = found
  }

  // The catalog.

  /** Looks at the published tables of the server, in a thread of its own. */
  private def look(isForced: Boolean = false): Unit = synchronized {
    // A look that has not begun will see all that is so now.
    if (!hasNextLook && (isForced || !isLooking)) {
      isLooking = true
      hasNextLook = true
      lookAt = now + MillisBetweenLooks
      threads.look {
        hasNextLook = false
        try lookNow()
        catch {
          case error: Throwable =>
            lookAt = now + MillisAfterFailedLook
            if (error.isInstanceOf[InterruptedException] || TableFailures.mayPass(error))
              catalogWait.fails("The catalog of the server cannot be read", error)
            else if (!isStopping) parts.end(error)
        } finally isLooking = false
      }
    }
  }

  /** Asks the server that the job reads from. The URL can name a standby too, which can be behind. */
  private def ofServer[T](query: ServerConnection => T): T = client.query { connection =>
    ready.catalog.checkRecovery(connection)
    query(connection)
  }

  /** Notes a new timeline. A later start would not know that the job has read it. */
  private def followTimeline(): Unit =
    ready.catalog.moved(parts.state, parts.core.withoutWaking(_.readUpTo))(reader.renew())
      .foreach(server => parts.core(_.readsFrom(server)))

  private def lookNow(): Unit = {
    followTimeline()
    val published = ready.catalog.all(parts.state)
    // Changes of a table that is not published any more are below the end of the WAL, which may not be flushed yet.
    val oids = published.map(_.oid).toSet
    val leaves = parts.state.tables.values.exists(table => table.isFollowed && !oids(table.oid))
    val end = ofServer(if (leaves) WalEnd.committed else Server.flushLsn)
    val locked = published.filter(_.isLocked).map(_.table.source.name)
    if (locked.isEmpty) catalogWait.end()
    else {
      lookAt = now + MillisAfterFailedLook
      val error = new Waiting(s"Another session has locked ${locked.mkString(", ")}.")
      catalogWait.fails("A row filter cannot be read", error)
    }
    parts.core(_.published(published, end, now))
    parts.forgetOthers()
    // What is missing for a copy does not matter to a table that goes on without one.
    val failed = parts.state.tables.values.filter(_.isFailed).map(_.oid).toSet
    for (found <- published; problem <- found.problem if failed(found.oid))
      log.failed(found.table.source.name, TableFailure(TableFailure.Lasting, problem))
  }

  // What users see.

  private def writeStatus(): Unit =
    try ready.folder.writeStatus(JobStatus.toJson(statusNow))
    catch { case NonFatal(_) => () } // the state's writer reports that the folder is away

  private def writeStatusFile(): Unit = statusFile.foreach { file =>
    try {
      file.write(JobStatus.toJson(statusNow))
      statusFileWait.end()
    } catch {
      case NonFatal(error) => statusFileWait.fails("The status file cannot be written", error)
    }
  }

  private def watchSlot(): Unit =
    slotNow =
      try client.query(SlotState.read(_, options.slot))
      catch { case NonFatal(_) => None } // the reader reports that the server is away

  /** The tables as they are now. */
  def statusNow: StatusNow = Option(parts) match {
    case None => StatusNow(ready.state, Map.empty, ready.state.confirmed, Nil)
    case Some(parts) =>
      parts.core.withoutWaking { core =>
        val oids = core.state.tables.keys
        StatusNow(
          core.state,
          oids.map(oid => oid -> core.shown(oid)).toMap,
          core.readUpTo,
          (waits :+ roomWait).flatMap(_.shown),
          problem = problem,
          hasEnded = hasEnded,
          silence = silence,
          slot = slotNow,
          commits = oids.map(oid => oid -> parts.commitsOf(oid)).toMap,
          files = core.state.tables.values
            .flatMap(table => parts.target.files(table.target).map(table.oid -> _)).toMap
        )
      }
  }

  private def silence = Option(reader).flatMap(_.silence)

  /** Why the job does not read the slot; None if it does, or if it has stopped only to make room. */
  private def problem: Option[String] =
    if (hasEnded)
      Some(parts.error.fold("The job has ended.")(error =>
        s"The job has failed. ${TableFailures.text(error)}"
      ))
    else
      readerWait.reason.orElse(silence.filter(_ > SecondsOfSilence && roomWait.isOver).map(
        seconds =>
          f"The server has sent nothing for $seconds%.0f s, although the job has asked it to."
      ))

  /** What has to pass before the job goes on. Full queues are not among it, because the tables make room. */
  private def waits: Seq[JobWait] = Seq(readerWait, catalogWait, stateWait)

  def failedTables: Seq[(String, String)] = statusNow.state.tables.values.toSeq
    .filter(_.isFailed).sortBy(_.oid).map(table => table.name.toString -> table.status.why.get)

  /** Whether the job has read its slot, and so has an epoch. */
  def hasSlot: Boolean = parts != null && parts.epoch > 0

  /** Interrupts the thread of [[run]], unless the threads of the job run, which [[stop]] ends in order. */
  def interrupt(thread: Thread): Unit = synchronized(
    if (threads == null || isClosed) thread.interrupt()
  )

  /** True if the job ended before it had everything that the option `once` asks for. */
  def isCutShort: Boolean = options.once && !hasEverything

  /** Ends the job. What is not applied is applied by the next start. */
  def stop(): Unit = {
    isStopping = true
    Option(parts).foreach(_.stop())
  }

  /** Ends the threads: first the work ends, then the state is written, and then its LSN is confirmed. */
  private[job] def close(): Unit =
    try
      if (threads != null) {
        // Work that is interrupted from here on has not failed.
        parts.stop()
        threads.endWork()
        if (parts.epoch > 0 && !parts.isReplaced) lastState()
        if (reader != null) reader.stop()
        readerEnd.await(SecondsForReader, SECONDS): Unit
        threads.close()
      }
    finally {
      quietly(Option(source).foreach(_.close()))
      quietly(Option(copier).foreach(_.close()))
      quietly(queues.values.asScala.foreach(_.drop()))
      quietly(space.close())
      quietly(client.close())
      isClosed = true
    }

  /** Ends a part of the job. An error does not prevent the end of the others. */
  private def quietly(close: => Unit): Unit =
    try close
    catch {
      case NonFatal(error) =>
        log.warn(s"A part of the job cannot be closed. ${TableFailures.text(error)}")
    }

  /**
   * Writes the state with all that is in the tables, so that the server need not send it again. An earlier
   * write that still runs must not replace this state, because the LSN of this one is confirmed.
   */
  private def lastState(): Unit =
    try {
      // If the server cannot be asked, the next start asks it.
      if (server.inRecovery) Try(threads.atEnd(followTimeline())): Unit
      val last = parts.core { core =>
        core.stop()
        core.finish()
        core.state
      }
      threads.writeLastState {
        parts.checkEpoch()
        ready.folder.write(parts.epoch, last)
      }
      reader.confirm(last.confirmed)
      threads.atEnd(requests.stateEnded())
    } catch {
      case NonFatal(error) => log.warn(s"The state is not written. ${TableFailures.text(error)}")
    } finally {
      hasEnded = true
      quietly(threads.atEnd {
        writeStatusFile()
        writeStatus()
      })
    }

  private def now = JobClock.millis

  /** What the reader reports to the job. */
  final private class ReaderEvents(start: JobState) extends SlotReader.Events {
    @volatile private var unknownAt = 0L
    private val guard =
      new ColumnGuard(options.hiding, ready.catalog, client, parts.state.tables.get(_))

    override def state: JobState = parts.state
    override def mayRead(): Unit = parts.checkEpoch()
    override def isFull: Boolean = space.isFull

    override def checking(hasSlot: Boolean)(checks: => Unit): Unit =
      try checks
      catch {
        case moved: SourceException
            if parts.epoch == 0 && Try(ready.isOfOldState(moved)).getOrElse(false) =>
          if (hasSlot) ready.takeOver()
      }

    // A process that starts later takes over. One that was replaced finds a later epoch, and ends.
    override def mayEnd: Boolean = parts.epoch == 0

    override def mayReadFrom(server: Server): Unit = ready.catalog.checkRecovery(server.inRecovery)

    /** The process has the slot. Now it takes the next epoch. */
    override def reads(): Unit =
      if (parts.epoch == 0) {
        if (!ready.take(start)) ready.takeOver()
        ready.taken()
        parts.epoch = ready.epoch + 1
        if (ready.epoch > 0 && !ready.startsOver) {
          val tables = JobLog.counted(parts.state.tables.values.count(_.isFollowed).toLong, "table")
          log.tell(s"The job goes on with $tables, from ${Lsn.format(start.confirmed)} on.")
        }
      }

    override def continues(server: Server): Unit = parts.core(_.readsFrom(server))

    override def connected(): Unit = {
      if (!readerWait.isOver) log.tell("The job reads the slot again.")
      readerWait.end()
    }

    override def read(lsn: Long, changed: Iterable[Long]): Unit =
      if (changed.nonEmpty) parts.core(_.read(lsn)) else parts.core.withoutWaking(_.read(lsn))

    override def unknown(oid: Long): Unit = {
      val isSoon = now >= unknownAt
      if ((isSoon || lookAt > unknownAt) && !parts.core.withoutWaking(_.knows(oid))) {
        if (isSoon) {
          unknownAt = now + MillisAfterFailedLook
          look()
        }
        // The look at the catalog that runs can have begun before the table existed.
        lookAt = math.min(lookAt, unknownAt)
      }
    }

    override def hidden(
        oid: Long,
        name: TableName,
        columns: Seq[String],
        xid: Option[Long]
    ): Option[HiddenCells] = guard.cells(oid, name, columns, xid)

    override def mayTryAgain(error: Throwable): Boolean =
      parts.epoch > 0 && !error.isInstanceOf[StartAgain] && TableFailures.isPassing(error)

    override def waits(error: Throwable): Unit = readerWait.fails("The slot cannot be read", error)

    override def pause(millis: Long): Unit = {
      val until = now + millis
      // A job that ends can still confirm what it has, so the reader tries again soon, but not at once.
      do Thread.sleep(MillisToCoalesce)
      while (now < until && !parts.isEnding)
    }
  }
}

private object ReplicationJob {
  final private val MillisBetweenTicks = 100L
  final private val MillisBetweenTicksOfOnce = 250L
  final private val MillisBetweenIdleTicks = 1000L
  final private val MillisToCoalesce = 20L
  final private val MillisBetweenRequests = 2000L
  final private val MillisBetweenStatus = 10000L
  final private val MillisBetweenLooks = 60000L
  final private val MillisAfterFailedLook = 2000L
  final private val SecondsForReader = 15L
  final private val SecondsOfSilence = 60

}

/** Something that has to pass before a part of the job goes on. */
final private class JobWait(log: JobLog) {
  @volatile private var begun = Option.empty[(String, Instant)]

  def isOver: Boolean = begun.isEmpty

  /** Why the part waits now; None if it does not. */
  def reason: Option[String] = begun.map(_._1)

  /** What `status` shows. */
  def shown: Option[String] = begun.map { case (reason, since) =>
    s"$reason The job has waited since ${since.truncatedTo(ChronoUnit.SECONDS)}."
  }

  /** The wait begins, or goes on. The log gets a warning for each new reason. */
  def waits(reason: String, warning: String): Unit = {
    if (!this.reason.contains(reason)) log.warn(warning)
    begun = Some(reason -> begun.fold(Instant.now)(_._2))
  }

  /** The wait begins, or goes on, because a step has failed, which the job tries again. */
  def fails(what: String, error: Throwable): Unit = {
    val text = TableFailures.text(error)
    waits(s"$what: $text", s"$what, and the job tries again: $text")
  }

  def end(): Unit = begun = None
}

/** Another process has taken an epoch while this one started. The start is tried again. */
final private[job] class StartAgain
    extends RuntimeException("Another process of the job has started.")
