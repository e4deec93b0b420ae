package io.sparkpgoutput.lake.job

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.apply.CutApply
import io.sparkpgoutput.lake.catalog.{MirroredTable, TableChange, TableComparison}
import io.sparkpgoutput.lake.core.{NextDefinition, TableFailure, TableState}
import io.sparkpgoutput.lake.job.ServerCatalog.Look
import io.sparkpgoutput.lake.queue.{Cut, CutLimit, TableQueue}
import io.sparkpgoutput.lake.target.TableEvolution
import io.sparkpgoutput.protocol.Lsn

/**
 * Commits cuts of the queues. If the columns of the server have changed, it changes the columns of the target
 * first.
 */
final private[job] class TableApplier(job: JobParts) {
  import TableApplier._
  import job.{catalog, core, own, target}

  private val cuts = new CutApply(target, job.options.repairs, job.options.conversion)

  /** Why the last cut of a table was written by a MERGE, by the oid of the table. */
  private val merged = new ConcurrentHashMap[Long, String]

  /** The fingerprints of definitions to which columns are being changed. */
  private val changing = new ConcurrentHashMap[Long, String]

  /** Takes a cut of a table's queue and commits it. */
  def apply(oid: Long, upTo: Long, queue: TableQueue): Unit = reporting(oid) { table =>
    val most = CutLimit(job.options.maxBytesPerCommit)
    val limit = cuts.limit(table.table, CutLimit(queue.bytes, queue.changes), most)
    queue.cut(upTo, limit) match {
      case None =>
        // The catalog can say that the table was altered, even if no row of it has changed.
        if (defined(table, Array.empty).nonEmpty)
          core(_.applied(oid, table.mark.getOrElse(0L), None, now))
      case Some(cut) => defined(table, cut.xids).foreach(commit(_, queue, cut, upTo))
    }
  }

  /** Returns the table by a catalog that is as new as the cut; None if its columns have to change first. */
  private def defined(table: TableState, xids: Array[Long]): Option[TableState] =
    look(table, xids, System.nanoTime() + WaitForCatalog) match {
      case Look.Changed(found, fingerprint) =>
        val next = following(table, found)
        if (TableEvolution.columns(table.table, next.table).isEmpty) {
          core(_.redefined(table.oid, next.table, next.formerNames))
          catalog.follows(table.oid, fingerprint)
          Some(table.copy(table = next.table, formerNames = next.formerNames))
        } else {
          changing.put(table.oid, fingerprint)
          core(_.defines(table.oid, next))
          None
        }
      case _ => Some(table)
    }

  /** Looks at the catalog until it is as new as the cut. A synchronous standby can take milliseconds. */
  private def look(table: TableState, xids: Array[Long], deadline: Long): Look = {
    var found = catalog.look(table, job.state, xids)
    while (found.isInstanceOf[Look.Behind] && System.nanoTime() < deadline) {
      Thread.sleep(PauseMillis)
      found = catalog.look(table, job.state, xids)
    }
    found match {
      case Look.Behind(why) =>
        throw new Waiting(s"The changes of ${table.name} wait for the catalog: $why.")
      case other => other
    }
  }

  /**
   * Returns the next definition.
   *
   * @throws io.sparkpgoutput.lake.LakeException if the table must be copied again
   */
  private def following(table: TableState, now: MirroredTable): NextDefinition =
    TableComparison.compare(table.table.source, now.source, table.columnNames) match {
      case Left(reason) => throw changed(table, reason)
      case Right(changes) =>
        catalog.reason(table.table.source, changes).foreach { reason =>
          throw changed(table, reason)
        }
        taken(table, now, changes).foreach { name =>
          throw changed(
            table,
            s"The target has a column '$name' already, whose values are not those of the new one."
          )
        }
        TableEvolution.otherType(table.table, now).orElse(
          TableEvolution.otherMode(table.table, now)
        ).foreach { reason =>
          throw changed(table, reason)
        }
        val next = TableEvolution.next(table, now, changes)
        TableEvolution.otherShape(table.table, next.table).foreach { reason =>
          throw changed(table, reason)
        }
        next
    }

  /**
   * The name of a new or renamed column that another one of the target has: one that the source had before
   * a copy, or one that a user has added.
   */
  private def taken(
      table: TableState,
      now: MirroredTable,
      changes: Seq[TableChange]
  ): Option[String] = {
    val names = changes.collect {
      case TableChange.Added(column)  => column.name
      case TableChange.Renamed(_, to) => to.name
    } ++ now.mode.columns.diff(table.table.mode.columns).map(_.name)
    if (names.isEmpty) None
    else {
      val columns = target.columns(table.target)
      names.find(name => columns.exists(_.equalsIgnoreCase(name)))
    }
  }

  private def commit(table: TableState, queue: TableQueue, cut: Cut, upTo: Long): Unit = {
    val expected = table.mark.getOrElse(throw markLost(table))
    val started = System.nanoTime()
    job.session.sparkContext.setJobDescription(s"changes of ${table.name}")
    val done = cuts.commit(
      job.session,
      table.table,
      table.formerNames,
      table.markName(job.state.id),
      expected,
      cut
    )()
    queue.remove(cut)
    if (done.repaired > 0)
      job.log.warn(
        s"The table ${table.target} differed in ${done.repaired} rows, which are repaired."
      )
    done.byMerge.filterNot(Option(merged.get(table.oid)).contains).foreach { reason =>
      merged.put(table.oid, reason)
      job.log.tell(
        s"The changes of ${table.name} are written by a MERGE, which takes longer: $reason."
      )
    }
    val changed = Option.when(done.committed)(microsToInstant(cut.lastCommit))
    // Nothing is committed if the table had all changes already.
    val mark = if (done.committed) cut.end else expected
    val hasMore = queue.position.exists(Lsn.isBelow(_, upTo))
    core(_.applied(table.oid, mark, changed, now, hasMore))
    if (done.committed) {
      job.committed(table.oid, done.changes)
      job.log.committed(table.name, done.changes, cut.lastCommit, started)
    }
  }

  /** Changes the columns of the target to the next definition. It can be repeated after an interruption. */
  def alter(oid: Long): Unit = reporting(oid) { table =>
    table.next.foreach { next =>
      val columns = TableEvolution.columns(table.table, next.table)
      columns.flatMap(target.alterProblem(table.target, _)).headOption.foreach { reason =>
        throw changed(table, reason)
      }
      if (columns.nonEmpty)
        job.log.tell(s"The columns of ${table.target} change: ${columns.mkString(", ")}.")
      target.alter(table.target, columns)
      val mode = next.table.mode
      own.noteDefinition(table.copy(table.table.copy(mode = mode), number = table.number + 1))
      Option(changing.remove(oid)).fold(catalog.forget(oid))(catalog.follows(oid, _))
    }
    core(_.defined(oid, now))
  }

  /** Runs the work on a table, and reports its error. */
  private def reporting(oid: Long)(body: TableState => Unit): Unit =
    job.state.tables.get(oid).foreach {
      table =>
        try body(table)
        catch { case error: Throwable => failed(table, error) }
    }

  private def failed(table: TableState, error: Throwable): Unit =
    job.unlessEnding(table, error) {
      if (TableFailures.isOtherMark(error)) otherMark(table, error)
      else {
        val found = if (isRemoved(table, error)) markLost(table) else error
        job.failed(table, TableFailures.of(found), found)
      }
    }

  private def changed(table: TableState, reason: String) = new LakeException(
    "PGOUTPUT_TABLE_CHANGED.UNDESCRIBED",
    "table" -> table.name,
    "reason" -> reason
  )

  private def markLost(table: TableState) =
    new LakeException("PGOUTPUT_MARK_LOST.NO_MARK", "table" -> table.target)

  /** Returns whether the table of the target is gone, which Spark reports with an error of its own. */
  private def isRemoved(table: TableState, error: Throwable) =
    !TableFailures.isPassing(error) && !target.exists(table.target)

  /**
   * The table has another mark than the one expected. If it is a greater one of the same generation, a
   * process of the job that was slow to end has committed a cut, which is right. Its changes are left out.
   */
  private def otherMark(table: TableState, error: Throwable): Unit = {
    job.checkEpoch()
    val newest = own.newestGeneration(job.state, table)
    val mark = own.mark(job.state, table)
    if (
      newest.forall(_ <= table.generation) && mark.exists(found =>
        table.mark.exists(Lsn.isBelow(_, found))
      )
    )
      core(_.applied(table.oid, mark.get, None, now))
    else job.failed(table, TableFailure(TableFailure.Changed, TableFailures.text(error)), error)
  }

  private def now = JobClock.millis
}

private object TableApplier {
  private val WaitForCatalog = java.time.Duration.ofSeconds(2).toNanos
  final private val PauseMillis = 10L
}
