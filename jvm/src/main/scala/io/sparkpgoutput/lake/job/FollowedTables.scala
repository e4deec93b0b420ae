package io.sparkpgoutput.lake.job

import java.time.Duration

import scala.util.control.NonFatal

import io.sparkpgoutput.lake.LakeException
import io.sparkpgoutput.lake.state.{KeptState, TableState, TableStatus}
import io.sparkpgoutput.lake.table.{MirroredTable, SourceTable, TableComparison, TableError}
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

  /** Tells if the catalog was read long ago. */
  def isOld: Boolean = isOld(lastRead)

  private def isOld(last: Option[Long]) =
    last.forall(System.nanoTime() - _ >= FollowedTables.Interval.toNanos)

  /** Reads the catalog, and changes the tables of the target. Returns errors by the oids of tables. */
  def follow(): Map[Long, Throwable] = {
    val found = catalog.again(state.tables.map(table => table.oid -> table.target).toMap)
    val now = found.map { case (source, table) => source.oid -> table }.toMap
    lastRead = Some(System.nanoTime())
    found.filter { case (source, _) => state.table(source.oid).isEmpty }.foreach {
      case (source, table) => refuse(source, table)
    }
    warnOfStopped()
    val errors = state.tables.filter(_.isLive).flatMap { table =>
      try {
        follow(table, now.get(table.oid))
        None
      } catch { case NonFatal(error) => Some(table.oid -> error) }
    }
    state.saveIfDue()
    errors.toMap
  }

  private def follow(
      table: TableState,
      now: Option[Either[LakeException, MirroredTable]]
  ): Unit = {
    val published = now
      .getOrElse(
        throw TableError.changed(table.table.source, "The publications do not send it any more.")
      )
      .fold(error => throw error, identity)
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
  private def refuse(source: SourceTable, found: Either[LakeException, MirroredTable]): Unit = {
    val reason = "It was published after the first start of the job, so its rows are not copied."
    log.warn(s"The table ${source.name} is stopped. $reason Its changes are dropped.")
    val table = found.getOrElse(MirroredTable.none(source))
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
