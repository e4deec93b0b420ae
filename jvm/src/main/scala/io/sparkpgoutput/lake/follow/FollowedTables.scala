package io.sparkpgoutput.lake.follow

import java.time.Duration

import scala.util.control.NonFatal

import io.sparkpgoutput.lake.LakeException
import io.sparkpgoutput.lake.state.{KeptState, TableState, TableStatus}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.{MirroredTable, SourceTable, TableError}

/**
 * Follows what happens to the tables at the server. Messages do not tell all of it. So this reads
 * the catalog of the server before each micro-batch, and once a minute. The catalog is
 * never older than the changes, because a micro-batch ends before the catalog is read.
 *
 * @param added takes a table that the publications have since the job runs
 */
final class FollowedTables(
    catalog: SourceCatalog,
    columns: FollowedColumns,
    state: KeptState,
    log: JobLog,
    added: MirroredTable => Unit
) {
  @volatile private var lastRead = Option.empty[Long]
  private var lastWarning = Option.empty[Long]

  /** Tells if the catalog was read long ago. */
  def isOld: Boolean = isOld(lastRead)

  /** Lets the catalog be read before the next micro-batch. */
  def expire(): Unit = lastRead = None

  private def isOld(last: Option[Long]) =
    last.forall(System.nanoTime() - _ >= FollowedTables.Interval.toNanos)

  /** Reads the catalog, and changes the tables of the target. Returns errors by the oids of tables. */
  def follow(): Map[Long, Throwable] = {
    catalog.checkTimeline(state)
    val found = catalog.again(state.tables.map(_.table))
    val now = found.map { case (source, table) => source.oid -> table }.toMap
    lastRead = Some(System.nanoTime())
    found.filter { case (source, _) => state.table(source.oid).isEmpty }.foreach {
      case (_, Right(table))     => added(table)
      case (source, Left(error)) => refuse(source, error)
    }
    warnOfStopped()
    // No copy of these was begun.
    val notHere =
      found.map(_._1).filter(source => state.table(source.oid).forall(_.generation == 0))
    val names = notHere.map(_.name).toSet
    val errors = state.tables.filter(_.isLive).flatMap { table =>
      try {
        val name = table.table.source.name
        if (!now.contains(table.oid) && names(name)) throw TableError.madeAgain(name)
        columns.follow(table, now.get(table.oid))
        None
      } catch { case NonFatal(error) => Some(table.oid -> error) }
    }
    state.saveIfDue()
    errors.toMap
  }

  /** A table that the target cannot have. */
  private def refuse(source: SourceTable, error: LakeException): Unit = {
    log.warn(
      s"The table ${source.name} is stopped, and its changes are dropped. ${error.getMessage}"
    )
    val stopped = TableStatus.Stopped(error.getMessage)
    state.put(TableState(MirroredTable.none(source), Map.empty, 0, stopped, None, None))
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
