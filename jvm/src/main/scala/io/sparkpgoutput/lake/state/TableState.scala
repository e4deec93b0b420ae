package io.sparkpgoutput.lake.state

import java.time.Instant

import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant

import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.lake.target.{MarkName, TargetNames}

/**
 * The state of a job, which its target keeps.
 *
 * @param id a UUID
 * @param firstLsn the confirmed LSN of the slot when the job took it
 * @param end
 *   all transactions with a lower commit LSN are in the tables; None before the first micro-batch
 * @param generation counts the checkpoints of the job. A copy of all tables begins a new one.
 * @param needsSlot
 *   whether the slot is to be made in place of one that is there, if any, because nothing that it
 *   has passed is in the tables
 * @param timeline the timeline that the server was on at the last look; None if there was none
 * @param appliedUpTo
 *   the time of the last commit below `end`, or of the last look at a server that had none
 */
final case class JobState(
    id: String,
    systemIdentifier: String,
    database: String,
    slot: String,
    firstLsn: Long,
    end: Option[Long],
    generation: Int = 1,
    needsSlot: Boolean = false,
    timeline: Option[Int] = None,
    appliedUpTo: Option[Instant] = None
) {

  /** Returns whether the job has begun anew since its first start. */
  def isAnew: Boolean = generation > 1
}

/**
 * The state of a table, which the job keeps.
 *
 * @param formerNames
 *   the names that columns had since the copy, with those of now. Changes from before a rename have
 *   them. The name of a dropped column stands for itself: the target keeps that column.
 * @param generation counts the copies of the table
 * @param mark the mark as it was read from the table; None before the first copy has ended
 * @param lastChange the time of the last commit that changed the table
 * @param copied the LSN of the last copy: of a first one when it is done, of a later one when it begins
 */
final case class TableState(
    table: MirroredTable,
    formerNames: Map[String, String],
    generation: Int,
    status: TableStatus,
    mark: Option[Long],
    lastChange: Option[Instant],
    copied: Option[Long] = None
) {

  /** The names of all columns that the table has had since the copy. */
  def columnNames: Set[String] = table.schema.fieldNames.toSet ++ formerNames.keySet

  def oid: Long = table.source.oid
  def target: String = table.target
  def isLive: Boolean = status == TableStatus.Live

  def isStopped: Boolean = status match {
    case TableStatus.Stopped(_) => true
    case _                      => false
  }

  /** Returns whether the table is copied while the stream runs, and its changes wait. */
  def isWaiting: Boolean = status match {
    case TableStatus.Waiting(_) => true
    case _                      => false
  }

  def markName(job: JobState): MarkName = MarkName(job.id, oid, generation)

  /** The table of the target in which changes wait for the copy. */
  def waitingName: String = s"${TargetNames.Waiting}${oid}_$generation"

  /**
   * Returns the state after a commit of all changes below an LSN.
   *
   * @param lastCommit the time of the last commit that changed the table, in microseconds since 1970
   */
  def applied(end: Long, lastCommit: Long): TableState =
    copy(mark = Some(end), lastChange = Some(microsToInstant(lastCommit)))
}

/** Where a table is in its life. */
sealed abstract class TableStatus(val name: String) {

  /** Why the table is not live, if that needs one. */
  def why: Option[String] = this match {
    case TableStatus.Stopped(reason) => Some(reason)
    case TableStatus.Waiting(reason) => Some(reason)
    case _                           => None
  }
}

object TableStatus {

  /** The first copy is under way, or will be. */
  case object Copying extends TableStatus("copying")

  /**
   * The table is copied while the stream runs, for a reason, and its changes wait. The rows of before
   * stay until the copy replaces them.
   */
  final case class Waiting(reason: String) extends TableStatus(Copying.name)

  /** Each micro-batch is applied to the table. */
  case object Live extends TableStatus("live")

  /** Changes of the table are dropped, for a reason. */
  final case class Stopped(reason: String) extends TableStatus(Stopped.Name)

  object Stopped { val Name = "stopped" }

  def of(name: String, reason: String): TableStatus = name match {
    case Copying.name => if (reason == null) Copying else Waiting(reason)
    case Live.name    => Live
    case Stopped.Name => Stopped(reason)
    case other        => throw new IllegalStateException(s"'$other' is no status of a table")
  }
}
