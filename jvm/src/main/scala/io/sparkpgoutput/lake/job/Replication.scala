package io.sparkpgoutput.lake.job

import java.util.concurrent.{ConcurrentHashMap, CountDownLatch, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.pgoutput.{ClonedSession, Signals}
import org.apache.spark.sql.{DataFrame, SparkSession}

import org.apache.hadoop.util.ShutdownHookManager

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.ErrorText
import io.sparkpgoutput.lake.copy.CopyProgress
import io.sparkpgoutput.lake.verify.VerifiedTable

/**
 * A job that keeps tables equal. It runs in a thread of its own. Its constructor checks everything, and starts it.
 *
 * @param user the session that has started the job
 * @param verifies the tables that a job with `once` verifies at its end
 */
final class Replication private[job] (
    user: SparkSession,
    options: ReplicateOptions,
    verifies: Seq[TableName]
) extends Logging {

  /** The job's own session, with settings that do not change while it runs. */
  private val session = ClonedSession.of(user)
  private val jobLog = new JobLog
  private var job = newJob()

  /** When a job that has started again began to wait for its slot, in milliseconds; None if it has read its slot. */
  private var waitsSince = Option.empty[Long]
  private var hasStartedAgain = false
  private var isStopping = false
  private val ended = new CountDownLatch(1)
  @volatile private var failure: Option[Throwable] = None

  private val thread = new Thread(() => run(), s"spark-pgoutput replicates $options")
  thread.setDaemon(true)

  Replication.add(this)
  thread.start()

  private def run(): Unit =
    try {
      // Of the thread that has started the job, for example a cell of a notebook, whose Spark jobs somebody can cancel.
      session.sparkContext.clearJobGroup()
      session.sparkContext.clearJobTags()
      while (runToEnd(current)) {
        hasStartedAgain = true
        val again = startAgain()
        val goesOn = synchronized {
          job = again
          !isStopping
        }
        if (!goesOn) {
          again.close() // it has a connection to the server
          throw new InterruptedException
        }
      }
    } catch {
      case error: Throwable if !stopping =>
        jobLog.ended(s"The job that replicates $options has ended", error)
        failure = Some(error)
      case error: Throwable =>
        logInfo(s"The job that replicates $options was stopped before it had written all", error)
    } finally {
      Replication.running.remove(this)
      ended.countDown()
    }

  /** Starts the job again. It has run before, so it waits for a server or a store that is away. */
  private def startAgain(): ReplicationJob = {
    var again = Option.empty[ReplicationJob]
    while (again.isEmpty)
      try again = Some(newJob())
      catch {
        case error: Throwable if canWait(error) => waitFor(error)
      }
    again.get
  }

  /** Checks everything that a job needs. */
  private def newJob(): ReplicationJob = ClonedSession.within(session) {
    var ready = Option.empty[ReadyJob]
    while (ready.isEmpty)
      try ready = Some(JobSetup.ready(session, options, jobLog))
      catch { case _: StartAgain => Thread.sleep(Replication.MillisToReadAgain) }
    new ReplicationJob(ready.get, verifies)
  }

  private def canWait(error: Throwable) = {
    val hasTime =
      !options.once || waitsSince.forall(_ > JobClock.millis - options.retryFor.toMillis)
    // Another program can take the place of the slot that the job has dropped.
    (TableFailures.isPassing(error) || TableFailures.hasNoSlot(error)) && hasTime && !stopping
  }

  private def waitFor(error: Throwable): Unit = {
    waitsSince = waitsSince.orElse(Some(JobClock.millis))
    jobLog.warn(s"The job cannot start again yet. ${TableFailures.text(error)}")
    Thread.sleep(Replication.MillisToStartAgain)
  }

  /**
   * Returns whether the job starts again: as a user has asked, with what another process has written, or because a
   * server or a store was away before the job that started again could read its slot.
   */
  private def runToEnd(job: ReplicationJob): Boolean =
    try {
      job.run(session)
      false
    } catch {
      case _: StartOver | _: StartAgain if !stopping =>
        if (job.hasSlot) waitsSince = None
        true
      case error: Throwable if hasStartedAgain && !job.hasSlot && canWait(error) =>
        waitFor(error)
        true
    }

  private def current = synchronized(job)

  private def stopping = synchronized(isStopping)

  /** Waits for the end of the job. Returns whether it has ended, and throws the error that ended it. */
  def awaitTermination(milliseconds: Long): Boolean = {
    val hasEnded = ended.await(milliseconds, TimeUnit.MILLISECONDS)
    if (hasEnded) failure.foreach(error => throw error)
    hasEnded
  }

  /** Ends the job, and waits for its end. */
  def stop(): Unit = {
    val running = synchronized {
      isStopping = true
      job
    }
    running.stop()
    // The server can still be making the slot.
    running.interrupt(thread)
    ended.await()
  }

  /** Ends the job. An error does not prevent the end of other jobs or of the process. */
  private def stopQuietly(): Unit =
    try stop()
    catch {
      case NonFatal(error) =>
        logWarning(s"The job that replicates $options cannot be stopped in order", error)
    }

  /** The text of the error that ended the job; null if there is none. */
  def error: String = failure.map(error => String.valueOf(error.getMessage)).orNull

  /** The tables, with their state and lag. */
  def status: DataFrame = JobStatus.toDataFrame(user, current.statusNow)

  /** The failed tables, each with the reason, as a line. */
  def failed: java.util.List[String] =
    current.failedTables.map { case (table, reason) => ErrorText.escape(s"$table: $reason") }.asJava

  /** What the verification has found, if the job was started for one; null before its end. */
  def verified: DataFrame =
    current.verified.map(VerifiedTable.toDataFrame(user, _)).orNull

  /** Returns 0 if the job has done everything, 3 if a table has failed, and 1 otherwise. */
  def exitCode: Int =
    if (failure.isDefined || current.isCutShort) 1 else if (current.failedTables.nonEmpty) 3 else 0

  /**
   * Returns the progress of the copies that run. Python asks each second. The result is an array, because PySpark finds
   * the end of a list by an error, for which it looks up a dozen classes in all JARs.
   */
  def progress: Array[CopyProgress] = jobLog.progress.toArray

  /** Returns what happened since the last call, a line for each event. */
  def report: Array[String] = jobLog.take().toArray
}

object Replication {

  /** Spark's hooks have the priority 40. */
  private val BeforeSpark = 50

  /** Hadoop ends a hook after this time, too. */
  final private val MillisToStop = 30000L
  final private val MillisToStartAgain = 5000L
  final private val MillisToReadAgain = 200L

  private val running = ConcurrentHashMap.newKeySet[Replication]

  /**
   * When the driver ends, the jobs stop before the session does. After a signal, they stop before the JVM
   * begins to shut down, because Iceberg then ends the threads that write its commits at once.
   */
  private lazy val stopAtEnd: Unit = {
    Signals.beforeExit(stopAll())
    ShutdownHookManager.get.addShutdownHook(() => stopAll(), BeforeSpark)
  }

  private def add(job: Replication): Unit = {
    stopAtEnd
    running.add(job): Unit
  }

  /** When the process ends although a job has not. */
  private lazy val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(MillisToStop)

  /** Stops the jobs, and waits for their ends. */
  private def stopAll(): Unit = {
    val stopping = running.asScala.toSeq.map { job =>
      val thread = new Thread(() => job.stopQuietly(), "spark-pgoutput stops a job")
      thread.setDaemon(true)
      thread.start()
      thread
    }
    stopping.foreach { thread =>
      thread.join(math.max(1, TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime())))
    }
  }

  /** Checks everything, and starts a job. */
  def start(session: SparkSession, options: java.util.Map[String, String]): Replication =
    new Replication(session, ReplicateOptions.parse(options.asScala.toSeq.sortBy(_._1)), Nil)
}
