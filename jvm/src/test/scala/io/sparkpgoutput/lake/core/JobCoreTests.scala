package io.sparkpgoutput.lake.core

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.lake.core.JobCommand._
import io.sparkpgoutput.lake.core.TableStatus.Live

/** A core with tables that are live, for rules that a test has to show step by step. */
abstract class JobCoreTests extends AnyFunSuite {
  protected val oid = 16400L
  protected val definition = SimTable(oid, "orders", Vector("id")).definition
  protected val other = SimTable(16500L, "lines", Vector("id")).definition
  protected val start =
    JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", confirmed = 100)
      .put(TableState(definition, Live, generation = 1, mark = Some(100L)))

  /** A queue with one transaction, or none. */
  protected class OneTransaction extends ChangeQueue {
    var position = Option.empty[Long]
    var isOpen = false
    override def from = 100L
    override def oldest: Option[Long] = position.filterNot(_ => isOpen)
    override def changes: Long = position.size.toLong
    override def bytes: Long = changes
  }

  /** A job with tables that are live and that the catalog has, and the queue of the first one. */
  protected def job(
      tables: JobState = start,
      settings: JobSettings = JobSettings()
  ): (JobCore, OneTransaction) = {
    val core = new JobCore(settings, tables)
    val queues = tables.tables.keys.toSeq.sorted.map(_ -> new OneTransaction)
    queues.foreach { case (oid, queue) => core.queueBegun(oid, queue) }
    look(core, "as it is")
    core -> queues.head._2
  }

  protected def look(core: JobCore, fingerprint: String): Unit = core.published(
    core.state.tables.values.map(table =>
      CatalogEntry(table.table, Some(table.target), None, fingerprint)
    ).toSeq,
    100,
    0
  )

  /** Runs the first commit, which compares the definition of the table with the catalog. */
  protected def compared(core: JobCore): Unit = {
    assert(core.take(0).exists(_.isInstanceOf[ApplyCut]))
    core.applied(oid, 100, None, 0)
  }

  /** Takes the commands of the core, and reports that states are durable. */
  protected def run(core: JobCore, now: Long): Seq[JobCommand] = {
    val commands = core.take(now)
    commands.foreach {
      case WriteState(state, revision) => core.stateWritten(state, revision, now)
      case _                           => ()
    }
    commands
  }

  protected def write(core: JobCore, now: Long): JobState = {
    val WriteState(state, revision) = core.take(now).collectFirst { case found: WriteState =>
      found
    }.get: @unchecked
    core.stateWritten(state, revision, now)
    state
  }
}
