package io.sparkpgoutput.lake.job

import java.time.{Duration, Instant}
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

/**
 * Rewrites small files of tables, and removes old files: see [[io.sparkpgoutput.lake.direct.Compaction]]. The rows of a
 * table are right without that. So a failure is not an error of the table, and the other parts of the work still run.
 *
 * @param isVerifying whether older versions of tables are read
 * @param pause how long a part of a table that has failed is left out
 */
final private[job] class TableMaintenance(
    job: JobParts,
    threads: JobThreads,
    isVerifying: () => Boolean,
    pause: Duration = Duration.ofMinutes(5)
) {
  private val due = ConcurrentHashMap.newKeySet[String]
  private val failures = new ConcurrentHashMap[(String, String), MaintenanceFailure]

  /** Maintains the files of a table after a commit, while its next commits run. */
  def after(oid: Long): Unit =
    job.state.tables.get(oid).toSeq.flatMap(_.table.targets).filter(due.add).foreach { table =>
      threads.maintain {
        due.remove(table)
        val begin = System.nanoTime()
        maintain(table)
        rest(System.nanoTime() - begin)
      }
    }

  private[job] def maintain(table: String): Unit = {
    part(table, "has no new checkpoint")(job.target.checkpoint(table))
    if (job.options.maintains) {
      if (!isVerifying()) part(table, "keeps its old versions") {
        val since = Instant.ofEpochMilli(JobClock.millis).minus(job.options.retain)
        job.target.expire(table, since, job.options.retainVersions)
      }
      part(table, "keeps its small files")(job.target.compact(table): Unit)
    }
  }

  /**
   * Does a part of the work, unless it has failed a short time ago.
   *
   * @param without what the table does without it, which the user sees once for each cause
   */
  private def part(table: String, without: String)(work: => Unit): Unit = {
    val earlier = Option(failures.get((table, without)))
    if (earlier.forall(_.nanos + pause.toNanos <= System.nanoTime()))
      try {
        work
        failures.remove((table, without)): Unit
      } catch {
        case NonFatal(error) if !job.isEnding =>
          val found = MaintenanceFailure(System.nanoTime(), TableFailures.text(error))
          failures.put((table, without), found)
          if (!earlier.exists(_.cause == found.cause))
            job.log.warn(
              s"The table $table $without, and the job tries it again later. ${found.cause}"
            )
        case NonFatal(_) => () // the end of the job has interrupted it
      }
  }

  /** Waits so long that the work takes only its share of the time of a core. */
  private def rest(nanos: Long): Unit =
    if (!job.options.once) {
      val share = job.options.maintenanceShare
      try Thread.sleep(Duration.ofNanos(nanos).toMillis * math.max(0, 100 - share) / share)
      catch { case _: InterruptedException => () } // the job ends
    }
}

/** @param nanos when the work has failed */
final private case class MaintenanceFailure(nanos: Long, cause: String)
