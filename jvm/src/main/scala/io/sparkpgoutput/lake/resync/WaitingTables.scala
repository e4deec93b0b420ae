package io.sparkpgoutput.lake.resync

import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import io.sparkpgoutput.lake.apply.{ApplyTable, WaitingChanges, WaitingTable}
import io.sparkpgoutput.lake.batch.RoutedTable
import io.sparkpgoutput.lake.state.{JobState, KeptState, TableState, TargetMarks}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.target.{Target, TargetNames}
import io.sparkpgoutput.protocol.Lsn

/**
 * The waiting tables of the target. While a table is copied, its changes wait in a waiting table.
 * Each copy has a waiting table of its own, which is made before the first change comes, and is
 * dropped when all changes are applied.
 */
final class WaitingTables(target: Target, state: KeptState, log: JobLog) {

  /** The waiting tables with their marks, by the oids of the tables that are copied. */
  private val filled = new ConcurrentHashMap[Long, WaitingTable]

  /** The LSNs of the snapshots of copies. Older changes need not wait. */
  private val snapshots = new ConcurrentHashMap[Long, Long]

  /** Makes waiting tables that are missing, and drops waiting tables that nobody needs. */
  def start(): Unit = {
    val needed = state.tables.filter(_.isWaiting)
    val names = needed.map(_.waitingName).toSet
    WaitingTables.found(target).map(_.name).filterNot(names).foreach(target.drop)
    needed.foreach(make)
  }

  /** Makes the table, unless it is there. All changes that it can have are older than the copy. */
  def make(table: TableState): Unit = {
    val name = table.waitingName
    if (!target.exists(name)) target.create(name, WaitingChanges.schema, Nil, Map.empty)
  }

  /** What a micro-batch does with a table that waits. */
  def applied(table: TableState): ApplyTable = {
    val kept =
      filled.computeIfAbsent(table.oid, _ => WaitingTables.read(target, state.job, table))
    val passed =
      (kept.mark ++ Option(snapshots.get(table.oid))).reduceOption(Lsn.max).getOrElse(0L)
    ApplyTable(RoutedTable.kept(table.oid, passed), table.markName(state.job), Some(kept))
  }

  /** Tells that a micro-batch has appended changes of a table. */
  def appended(oid: Long, end: Long): Unit =
    filled.computeIfPresent(oid, (_, kept) => kept.copy(mark = Some(end))): Unit

  /** Tells that the copy of a table has its snapshot. */
  def copiedAsOf(oid: Long, lsn: Long): Unit = snapshots.put(oid, lsn): Unit

  /** Forgets the mark and the snapshot of a table whose copy begins anew. */
  def forget(oid: Long): Unit = {
    filled.remove(oid)
    snapshots.remove(oid): Unit
  }

  /** Drops a waiting table that nobody needs. If that fails, the next start does it. */
  def drop(table: TableState): Unit = {
    forget(table.oid)
    val name = table.waitingName
    try target.drop(name)
    catch {
      case NonFatal(problem) => log.warn(s"The table $name stays. ${problem.getMessage}")
    }
  }
}

object WaitingTables {
  private val Name = s"${TargetNames.Waiting}(\\d+)_(\\d+)".r

  /** Reads the mark: all changes with a lower LSN that the stream has passed are in the table. */
  def read(target: Target, job: JobState, table: TableState): WaitingTable =
    WaitingTable(table.waitingName, TargetMarks.waiting(target, job, table))

  /** Returns the oid and the generation of each such table. */
  def found(target: Target): Seq[FoundWaiting] = target.tables().collect {
    case name @ Name(oid, generation) => FoundWaiting(name, oid.toLong, generation.toInt)
  }
}

/** A table of the target in which changes of the table with an oid wait. */
final case class FoundWaiting(name: String, oid: Long, generation: Int)
