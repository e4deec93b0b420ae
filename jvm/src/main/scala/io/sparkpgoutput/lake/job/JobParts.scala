package io.sparkpgoutput.lake.job

import java.util.UUID
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.{
  Callable,
  ConcurrentHashMap,
  ExecutionException,
  ExecutorService,
  Executors,
  Future,
  FutureTask,
  RejectedExecutionException,
  SynchronousQueue,
  ThreadFactory,
  ThreadPoolExecutor,
  TimeUnit
}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.core.{JobCore, JobState, TableFailure, TableState, TableStatus}
import io.sparkpgoutput.lake.folder.JobFolder
import io.sparkpgoutput.lake.target.{OwnTables, Target}

/** What the threads of a job share. */
final private[job] class JobParts(
    val session: SparkSession,
    val options: ReplicateOptions,
    val ownTables: OwnTables,
    val catalog: ServerCatalog,
    val folder: JobFolder,
    val log: JobLog,
    val core: SharedCore
) {

  /** The epoch of this process; 0 before it has taken one. */
  @volatile var epoch = 0L

  private val ending = new AtomicReference[Option[Throwable]](None)
  @volatile private var isStopping = false

  def target: Target = ownTables.target

  def state: JobState = core.withoutWaking(_.state)

  /** The error that ends the job. */
  def error: Option[Throwable] = ending.get

  /** Whether the job ends, in order or by an error. */
  def isEnding: Boolean = isStopping || ending.get.nonEmpty

  /** Ends the job with an error. The first one counts. */
  def end(error: Throwable): Unit = {
    ending.compareAndSet(None, Some(error))
    core.wake()
  }

  def stop(): Unit = {
    isStopping = true
    core.wake()
  }

  /** Handles an error of a table, unless the job ends anyway, or the error is one of the whole job. */
  def unlessEnding(table: TableState, error: Throwable)(handle: => Unit): Unit =
    if (!isEnding) {
      if (TableFailures.endsJob(error) || error.isInstanceOf[VirtualMachineError]) end(error)
      else
        try handle
        catch {
          // The code that handles an error asks the store and the folder, which can have errors of their own.
          case NonFatal(another) if !isEnding =>
            if (TableFailures.endsJob(another) || TableFailures.isOtherMark(another)) end(another)
            else failed(table, TableFailures.of(another), another)
          case another: Throwable if !isEnding => end(another)
          case _: Throwable                    => ()
        }
    }

  /** Tells the core and the user that a table has failed. */
  def failed(table: TableState, failure: TableFailure, error: Throwable): Unit = {
    lastErrors.put(table.oid, error)
    val reason = core { core =>
      core.failed(table.oid, failure, JobClock.millis)
      core.state.tables.get(table.oid).filter(_.isFailed).flatMap(_.status.why)
    }
    // A copy is not made if the options forbid it, or if copies have not helped before.
    val shown = reason match {
      case Some(text) if failure.kind == TableFailure.NeedsCopy =>
        TableFailure(TableFailure.Lasting, text)
      // A live table tries again later to get the snapshot of its requested copy.
      case None if failure.kind == TableFailure.Retried =>
        TableFailure(TableFailure.Waits, failure.text)
      case _ => failure
    }
    log.failed(table.name, shown, Option.when(TableFailures.needsStack(error))(error))
  }

  private val commits = new ConcurrentHashMap[Long, Commits]

  /** Counts a commit of changes of a table. */
  def committed(oid: Long, changes: Long): Unit = {
    lastErrors.remove(oid)
    commits.merge(oid, Commits(changes, 1), (one, other) => one + other): Unit
  }

  /** The commits of a table since the start of the job. */
  def commitsOf(oid: Long): Commits = commits.getOrDefault(oid, Commits())

  /** The last error of each table since its last commit or copy. */
  val lastErrors = new ConcurrentHashMap[Long, Throwable]

  /** The error of a job that ends because a table has failed: that of the table if it is the reason, with its cause. */
  def stopError(oid: Long, reason: String): Throwable =
    Option(lastErrors.get(oid)).filter(error => reason.startsWith(TableFailures.text(error)))
      .getOrElse(
        new LakeException("PGOUTPUT_SOURCE_NOT_READY.TABLE_STOPPED", "reason" -> reason)
      )

  /** Forgets the tables that the job does not know any more, and the files of those that the server has dropped. */
  def forgetOthers(): Unit = {
    val tables = state.tables
    Seq(commits, lastErrors).foreach(_.keySet.removeIf(!tables.contains(_)))
    val live = tables.values.filter(_.status != TableStatus.Dropped)
    target.forgetOthers(live.flatMap(_.table.targets).toSet)
  }

  /** Whether this process has found out that another one of the job has taken over. */
  @volatile var isReplaced = false

  /** Ends this process if another one of the job has taken over. */
  def checkEpoch(): Unit =
    if (epoch > 0) folder.newestEpoch().filter(_ > epoch).foreach { _ =>
      isReplaced = true
      throw new LakeException("PGOUTPUT_OTHER_JOB.TAKEN_OVER", "folder" -> options.checkpoint)
    }
}

/** The commits of changes of a table since the start of the job, and the number of their changes. */
final private[job] case class Commits(changes: Long = 0, commits: Long = 0) {
  def +(more: Commits): Commits = Commits(changes + more.changes, commits + more.commits)
}

/** Lets the threads of a job use its core one at a time, and wakes the thread that runs the commands. */
final private[job] class SharedCore(core: JobCore) {
  private var isChanged = true

  def apply[T](body: JobCore => T): T = synchronized {
    try body(core)
    finally wake()
  }

  /** Like [[apply]], for calls that change nothing that commands depend on. */
  def withoutWaking[T](body: JobCore => T): T = synchronized(body(core))

  def wake(): Unit = synchronized {
    isChanged = true
    notifyAll()
  }

  /** Waits for something during the commit of a table. Another table has its place for that time. */
  def withoutPlace(oid: Long)(wait: => Unit): Unit = {
    apply(_.leavesPlace(oid))
    wait
    synchronized(while (!core.takesPlace(oid)) this.wait())
  }

  /** Waits until something has changed, or for some time. */
  def await(millis: Long): Unit = synchronized {
    if (!isChanged) wait(millis)
    isChanged = false
  }
}

/** The time of a job. It never goes back, even if somebody sets the clock of the host back. */
private[job] object JobClock {
  private val start = System.currentTimeMillis
  private val nanos = System.nanoTime()

  /** In milliseconds since 1970. */
  def millis: Long = start + TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanos)
}

/** A table cannot take its next step, for a reason that passes by itself. */
final private[job] class Waiting(text: String) extends java.io.IOException(text)

/**
 * All threads of a job that write. They are made here, and [[close]] waits until all have ended, so that nothing of
 * the job is written after its end.
 *
 * @param session the job's own session, which is the active one of each thread
 */
final class JobThreads(session: SparkSession, name: String, copiers: Int) extends Logging {
  import JobThreads._

  private val context = session.sparkContext
  private val tag = s"spark-pgoutput-${UUID.randomUUID()}"

  private val all = mutable.Buffer.empty[ExecutorService]

  /** The core limits them, also those of tables that wait for memory. */
  val apply: Work = new Work(Executors.newCachedThreadPool(named("applies")))
  val writeState: Work = pool("writes the state of", 1)
  val look: Work = pool("looks at the catalog for", 1)
  val read: Work = pool("reads", 1)

  private val maintenance = Executors.newScheduledThreadPool(1, named("rewrites files of"))
  val maintain: Work = new Work(maintenance)

  /** Does work of [[maintain]] after some time. */
  def maintainLater(nanos: Long)(body: => Unit): Unit = {
    val task: Runnable = () => maintain(body)
    maintenance.schedule(task, nanos, TimeUnit.NANOSECONDS): Unit
  }

  /**
   * Runs something that reads whole tables. If `spark.scheduler.mode` is FAIR, its Spark jobs and those of
   * the appliers share the cores. In the mode FIFO, Spark's default, the oldest job gets each free core.
   *
   * @see Spark's documentation, "Job Scheduling", "Fair Scheduler Pools"
   */
  def copy(body: => Unit): Unit = copies(inCopyPool(body))
  def verify(body: => Unit): Unit = verifications(inCopyPool(body))
  private val copies = pool("copies", copiers)
  private val verifications = pool("verifies", 1)

  /** Answers requests, unless earlier ones are being answered. */
  val answer: Work = onlyOne("answers requests of")

  /** Writes the status into the folder of the job, unless an earlier write still runs. */
  val tell: Work = onlyOne("writes the status of")

  /** Asks the server about the slot, unless an earlier question waits for its answer. */
  val watch: Work = onlyOne("asks for the slot of")

  /** Writes the status file, unless an earlier write still runs. */
  val report: Work = onlyOne("writes the status file of")

  private def inCopyPool(body: => Unit): Unit = {
    context.setLocalProperty(Property, CopyPool)
    try body
    finally context.setLocalProperty(Property, null)
  }

  /** One kind of work, with its threads. */
  final class Work private[JobThreads] (private[JobThreads] val pool: ExecutorService) {
    all += pool

    /** Runs something in a thread of the pool, unless the threads of this pool have been ended. */
    def apply(body: => Unit): Unit =
      try pool.execute { () =>
          // Of the thread that has started the job, for example a cell of a notebook, whose jobs somebody can cancel.
          context.clearJobGroup()
          context.clearJobTags()
          context.addJobTag(tag)
          try ClonedSession.within(session)(body)
          catch {
            // Each body handles the errors of its own work. Any other error means that the job ends.
            case error: Throwable =>
              if (!pool.isShutdown) logError(s"A thread of $name has failed", error)
          } finally {
            context.removeJobTag(tag)
            context.setJobDescription(null)
          }
        }
      // The pool has ended while the reader still runs, or its only thread is busy.
      catch { case _: RejectedExecutionException => () }
  }

  /** Ends the appliers, the copies and the verifications. The reader and the state go on. */
  def endWork(): Unit = {
    val ending = all.toSeq.diff(Seq(writeState.pool, read.pool))
    ending.foreach(_.shutdownNow())
    try context.cancelJobsWithTag(tag)
    catch { case NonFatal(_) => () } // the context is stopped
    await(ending)
  }

  /**
   * Writes the last state, and waits for it. A write that is under way ends first, so it cannot replace
   * the last state by an older one.
   */
  def writeLastState(body: => Unit): Unit = {
    val task: Callable[Unit] = () => ClonedSession.within(session)(body)
    await(writeState.pool.submit(task), SecondsToEnd)
  }

  /**
   * Runs something after the work has ended. If it hangs, for example because a disk is away, the job ends without it.
   */
  def atEnd(body: => Unit): Unit = {
    val task = new FutureTask[Unit](() => ClonedSession.within(session)(body))
    named("ends").newThread(task).start()
    await(task, SecondsToTell)
  }

  private def await(task: Future[Unit], seconds: Long): Unit =
    try task.get(seconds, TimeUnit.SECONDS)
    catch { case failed: ExecutionException => throw failed.getCause }

  /** Ends all threads, and waits for them. */
  def close(): Unit = {
    all.foreach(_.shutdownNow())
    await(all.toSeq)
  }

  private def await(pools: Seq[ExecutorService]): Unit = {
    val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SecondsToEnd)
    pools.foreach { pool =>
      val nanos = math.max(1, deadline - System.nanoTime())
      if (!pool.awaitTermination(nanos, TimeUnit.NANOSECONDS))
        logWarning(s"A thread of $name has not ended in $SecondsToEnd s.")
    }
  }

  private def pool(what: String, threads: Int) =
    new Work(Executors.newFixedThreadPool(threads, named(what)))

  /** A thread that refuses work while it is busy. */
  private def onlyOne(what: String) =
    new Work(
      new ThreadPoolExecutor(0, 1, 60, TimeUnit.SECONDS, new SynchronousQueue, named(what))
    )

  private def named(what: String): ThreadFactory = (task: Runnable) => {
    val thread = new Thread(null, task, s"spark-pgoutput $what $name", StackBytes)
    // The thread must not keep the process running after its session is stopped.
    thread.setDaemon(true)
    thread
  }
}

private object JobThreads {

  /**
   * The size of a stack. Spark plans a query by recursions that get deeper with each column that rows are found by, and
   * a table without a key can have 1,600. The memory is taken only as far as a stack gets deep.
   */
  final private val StackBytes = 64L << 20
  final private val SecondsToEnd = 30L
  final private val SecondsToTell = 5L
  final private val CopyPool = "spark-pgoutput-copies"
  final private val Property = "spark.scheduler.pool"
}
