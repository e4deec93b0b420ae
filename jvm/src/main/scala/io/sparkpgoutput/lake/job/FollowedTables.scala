package io.sparkpgoutput.lake.job

import java.time.Duration

import io.sparkpgoutput.lake.state.{KeptState, TableState, TableStatus}
import io.sparkpgoutput.lake.table.{MirroredTable, TableComparison, TableError}
import io.sparkpgoutput.lake.target.Target

/**
 * Follows what happens to the tables at the server. Messages do not tell all of it, so the catalog is
 * read before each micro-batch with changes, and once a minute. What it says is as new as the changes or
 * newer, because a micro-batch ends before it is read.
 */
final class FollowedTables(
    catalog: SourceCatalog,
    target: Target,
    state: KeptState,
    log: JobLog
) {
  private var lastRead = Option.empty[Long]
  private var lastWarning = Option.empty[Long]

  /** The last micro-batch that the catalog was read for, and the errors that were found. */
  private var lastBatch = -1L
  private var lastErrors = Map.empty[Long, Throwable]

  /** Reads the catalog once for a micro-batch. Returns errors by the oids of tables. */
  def of(batch: Long): Map[Long, Throwable] = {
    if (lastBatch != batch) {
      lastErrors = follow()
      lastBatch = batch
    }
    lastErrors
  }

  /** Tells if the catalog was read long ago. */
  def isOld: Boolean = isOld(lastRead)

  private def isOld(last: Option[Long]) =
    last.forall(System.nanoTime() - _ >= FollowedTables.Interval.toNanos)

  /** Reads the catalog, and changes the tables of the target. Returns errors by the oids of tables. */
  def follow(): Map[Long, Throwable] = {
    val now = catalog.read().map(table => table.source.oid -> table).toMap
    lastRead = Some(System.nanoTime())
    now.values.filter(table => state.table(table.source.oid).isEmpty).foreach(refuse)
    warnOfStopped()
    val errors = state.tables.filter(_.isLive).flatMap { table =>
      try {
        follow(table, now.get(table.oid))
        None
      } catch {
        case error: Throwable => Some(table.oid -> error)
      }
    }
    state.saveIfDue()
    errors.toMap
  }

  private def follow(table: TableState, now: Option[MirroredTable]): Unit = {
    val published = now.getOrElse(
      throw TableError.changed(table.table.source, "The publications do not send it any more.")
    )
    val taken = table.table.schema.fieldNames.toSet ++ table.formerNames.keySet
    TableComparison.compare(table.table.source, published.source, taken) match {
      case Left(reason) => throw TableError.changed(table.table.source, reason)
      case Right(changes) =>
        val (followed, columns) = TableEvolution.follow(table, published, changes)
        catalog.reason(table.table.source, changes).foreach { reason =>
          throw TableError.changed(table.table.source, reason)
        }
        // A job that ends in between does it again.
        target.alter(table.target, columns)
        state.put(followed)
        if (columns.nonEmpty) {
          log.tell(s"The columns of ${table.target} change: ${columns.mkString(", ")}.")
          state.save()
        }
    }
  }

  /** A table that was published while the job runs has rows that nobody copies. */
  private def refuse(table: MirroredTable): Unit = {
    val reason = "It was published after the first start of the job, so its rows are not copied."
    log.warn(s"The table ${table.source.name} is stopped. $reason Its changes are dropped.")
    state.put(
      TableState(table, Map.empty, 0, TableStatus.Stopped(reason), mark = None, lastChange = None)
    )
    state.save()
  }

  private def warnOfStopped(): Unit =
    if (isOld(lastWarning)) {
      lastWarning = Some(System.nanoTime())
      state.tables.foreach { table =>
        table.status match {
          case TableStatus.Stopped(reason) =>
            log.warn(s"The table ${table.table.source.name} is stopped. $reason")
          case _ => ()
        }
      }
    }
}

private object FollowedTables {
  private val Interval = Duration.ofMinutes(1)
}
