package io.sparkpgoutput.lake.job

import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.sql.SparkSession

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.catalog.ServerCatalog
import io.sparkpgoutput.lake.core.{JobCore, JobState, TableFailure, TableState}
import io.sparkpgoutput.lake.folder.JobFolder
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.target.{OwnTables, Target}

/** What the threads of a job share. */
final private[job] class JobParts(
    val session: SparkSession,
    val options: ReplicateOptions,
    val own: OwnTables,
    val catalog: ServerCatalog,
    val folder: JobFolder,
    val log: JobLog,
    val core: SharedCore
) {

  /** The epoch of this process; 0 before it has taken one. */
  @volatile var epoch = 0L

  private val ending = new AtomicReference[Option[Throwable]](None)
  @volatile private var isStopping = false

  def target: Target = own.target

  def state: JobState = core(_.state)

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
  def unlessEnding(error: Throwable)(handle: => Unit): Unit =
    if (!isEnding) {
      if (TableFailures.endsJob(error) || error.isInstanceOf[VirtualMachineError]) end(error)
      else
        try handle
        catch { case another: Throwable => if (!isEnding) end(another) }
    }

  /** Tells the core and the user that a table has failed. */
  def failed(table: TableState, failure: TableFailure, error: Throwable): Unit = {
    lastErrors.put(table.oid, error)
    val isCopied = core { core =>
      core.failed(table.oid, failure, System.currentTimeMillis)
      !core.state.tables.get(table.oid).exists(_.isFailed)
    }
    // A copy is not made if the options forbid it, or if copies have not helped before.
    val told =
      if (failure.kind != TableFailure.Changed || isCopied) failure
      else failure.copy(kind = TableFailure.Lasting)
    log.failed(table.name, told, Option.unless(TableFailures.isKnown(error))(error))
  }

  /** The last error of each table. */
  val lastErrors = new java.util.concurrent.ConcurrentHashMap[Long, Throwable]

  /** Ends this process if another one of the job has taken over. */
  def checkEpoch(): Unit =
    if (epoch > 0) folder.newestEpoch().filter(_ > epoch).foreach { _ =>
      throw LakeError.takenOver(options.checkpoint)
    }
}

/** Lets the threads of a job use its core one at a time, and wakes the thread that runs the commands. */
final private[job] class SharedCore(core: JobCore) {
  private var isChanged = true

  def apply[T](body: JobCore => T): T = synchronized {
    try body(core)
    finally {
      isChanged = true
      notifyAll()
    }
  }

  /** As [[apply]], for what changes nothing that commands depend on. */
  def look[T](body: JobCore => T): T = synchronized(body(core))

  def wake(): Unit = synchronized {
    isChanged = true
    notifyAll()
  }

  /** Waits until something has changed, or for some time. */
  def await(millis: Long): Unit = synchronized {
    if (!isChanged) wait(millis)
    isChanged = false
  }
}

/** Something that passes by itself keeps a table from its next step. */
final private[job] class Waiting(text: String) extends java.io.IOException(text)
