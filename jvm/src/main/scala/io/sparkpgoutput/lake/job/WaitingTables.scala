package io.sparkpgoutput.lake.job

import io.sparkpgoutput.lake.apply.{WaitingChanges, WaitingTable}
import io.sparkpgoutput.lake.state.{JobState, TableState}
import io.sparkpgoutput.lake.target.{Target, TargetNames}

/**
 * The tables of the target in which the changes of others wait while those are copied. Each copy has one
 * of its own, which is there before the first change is kept, and goes when all are applied.
 */
object WaitingTables {
  private val Prefix = s"${TargetNames.Reserved}_waiting_"
  private val Name = s"$Prefix(\\d+)_(\\d+)".r

  def name(table: TableState): String = s"$Prefix${table.oid}_${table.generation}"

  /** Makes the table, unless it is there. All changes that it can have are older than the copy. */
  def make(target: Target, table: TableState): Unit =
    if (!target.exists(name(table)))
      target.create(name(table), WaitingChanges.schema, Nil, Map.empty)

  /** Reads the mark: all changes with a lower LSN that the stream has passed are in the table. */
  def read(target: Target, job: JobState, table: TableState): WaitingTable =
    WaitingTable(name(table), target.mark(name(table), table.markName(job)))

  /** Returns the oid and the generation of each such table. */
  def found(target: Target): Seq[FoundWaiting] = target.tables().collect {
    case name @ Name(oid, generation) => FoundWaiting(name, oid.toLong, generation.toInt)
  }
}

/** A table of the target in which changes of the table with an oid wait. */
final case class FoundWaiting(name: String, oid: Long, generation: Int)
