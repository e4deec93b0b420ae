package io.sparkpgoutput.lake.core

import java.time.Instant

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.{MirroredTable, TableMode}

/**
 * The work that [[JobCore]] decides on. The threads around it do the work, and report the result to the core.
 */
sealed trait JobCommand

object JobCommand {

  /** Writes the state, and reports [[JobCore.stateWritten]] or [[JobCore.stateFailed]]. */
  final case class WriteState(state: JobState, revision: Long) extends JobCommand

  /** Confirms an LSN to the server, which may then forget all changes below it. */
  final case class Confirm(lsn: Long) extends JobCommand

  /**
   * Begins a queue, and reports [[JobCore.queueBegun]]. The queue begins above the transaction that is being read. If
   * the table has changed since the session began, the queue begins with the next session, after that transaction.
   *
   * @param since
   *   the time since which the catalog has shown the current definition of the table, by the clock of the job
   */
  final case class BeginQueue(oid: Long, since: Long) extends JobCommand
  final case class DropQueue(oid: Long, queue: ChangeQueue) extends JobCommand

  /**
   * Takes a cut of the queue, looks at the catalog, and commits the cut. If the queue has no changes, but the catalog
   * says that the table has changed, the applier only compares the definition.
   */
  final case class ApplyCut(oid: Long, upTo: Long) extends JobCommand

  /** Changes the columns of the target to the next definition, and reports [[JobCore.defined]]. */
  final case class AlterColumns(oid: Long) extends JobCommand

  /** Makes a snapshot of the table, and reports [[JobCore.snapshotMade]]. */
  final case class MakeSnapshot(oid: Long) extends JobCommand

  /** Gives up a snapshot that was made. */
  final case class DropSnapshot(oid: Long) extends JobCommand

  /** Replaces the rows of the target by those of the snapshot, and reports [[JobCore.copied]]. */
  final case class CommitCopy(oid: Long) extends JobCommand

  /** A table has failed, and the option `onTableError` says that the job ends then. */
  final case class EndJob(oid: Long, reason: String) extends JobCommand
}

/** What a table is doing. */
sealed private trait Phase

private object Phase {
  case object Idle extends Phase

  /** A commit of a cut runs. */
  case object Applying extends Phase

  /** The job writes the state with the next definition. */
  final case class Defining(revision: Long) extends Phase

  /** The job writes the state in which the table is copied. */
  final case class Beginning(revision: Long) extends Phase

  /** The reader begins the queue. */
  case object Queueing extends Phase
  case object Snapshot extends Phase

  /**
   * The job writes the state with the LSN of the snapshot.
   *
   * @param since the time at which it began, in milliseconds
   */
  final case class NotingSnapshot(revision: Long, since: Long) extends Phase
  case object Committing extends Phase

  /** The job writes the state in which the table is dropped. */
  final case class Dropping(revision: Long) extends Phase

  /** The job writes the state in which the table needs a copy. */
  final case class GivingUpQueue(revision: Long) extends Phase
}

/** The place of a table among those that are committed at the same time. */
sealed private trait CommitPlace

private object CommitPlace {
  case object Held extends CommitPlace

  /** The table waits for memory, so another one has its place. */
  case object Lent extends CommitPlace

  /** The table has its memory now, and gets the next place. */
  case object Wanted extends CommitPlace
}

/**
 * The settings of a job.
 *
 * @param appliers how many tables are committed at the same time
 * @param copiers how many tables are copied at the same time
 * @param mostWaiting how many tables wait for memory at the same time. Each has a thread. If there are so many, no other
 *   table begins a commit.
 * @param intervalMillis the least time between two commits of a table
 * @param maxHeldWal
 *   how far the oldest change of a table that does not advance may be behind what the job has read, in bytes of WAL of
 *   all tables
 * @param stopsAtError whether the first failed table ends the job
 * @param copiesByItself whether a table is copied if its changes do not show what happened to it
 * @param excludes whether the options exclude a table. That is the same for the whole life of a process.
 */
final case class JobSettings(
    appliers: Int = 4,
    copiers: Int = 2,
    mostWaiting: Int = 100,
    intervalMillis: Long = 0,
    maxHeldWal: Long = 10L << 30,
    stopsAtError: Boolean = false,
    copiesByItself: Boolean = true,
    excludes: TableName => Boolean = _ => false
)

/** What the core asks the queue of a table. */
trait ChangeQueue {

  /** Changes with a lower commit LSN are not in the queue. */
  def from: Long

  /** The commit LSN of the oldest change, also of a transaction that is being read. */
  def position: Option[Long]

  /** The commit time of the oldest whole transaction, in microseconds since 1970. */
  def oldest: Option[Long]
  def changes: Long
  def bytes: Long
}

/**
 * A published table, as a look at the catalog found it.
 *
 * @param table the table with the name that it would get in the target
 * @param natural the name that the options give the table in the target; None if the table cannot have it
 * @param problem why the table cannot be in the target, with a way out; None if it can
 * @param fingerprint changes whenever the definition or the rights change
 * @param mode the mode that the options give a new table of this name
 * @param isNamed whether the option `names` has an entry for the table
 */
final case class CatalogEntry(
    table: MirroredTable,
    natural: Option[String],
    problem: Option[String],
    fingerprint: String,
    mode: TableMode = TableMode.Mirror,
    isNamed: Boolean = false
) {
  def oid: Long = table.source.oid

  /** Whether only the table's name is known, because another session has locked it. */
  def isLocked: Boolean = table.source.isLocked

  /** All names that the options give the table in the target. */
  def naturals: Seq[String] = natural.toSeq.flatMap(name => table.copy(target = name).targets)
}

/**
 * A snapshot that waits for its commit.
 *
 * @param table the table as the snapshot has it
 * @param newest the greatest generation of the job that has a mark in the table of the target; 0 if none
 * @param time when it was made
 */
final case class MadeSnapshot(lsn: Long, table: MirroredTable, newest: Int, time: Long)

/** An error of a table. */
final case class TableFailure(kind: TableFailure.Kind, text: String) {

  /** Whether the cause can pass without the user, and without a copy. */
  def passes: Boolean = kind == TableFailure.Waits || kind == TableFailure.Retried
}

object TableFailure {
  sealed trait Kind

  /** The store, the catalog or the server is away, or somebody else committed: the table stays live. */
  case object Waits extends Kind

  /** It can pass without the user: the job tries again. */
  case object Retried extends Kind

  /** Only the user can correct it. */
  case object Lasting extends Kind

  /** The changes do not show what happened to the table. A copy corrects it. */
  case object NeedsCopy extends Kind
}

/** What `status` shows of a table, in addition to its state. */
final case class Shown(
    changes: Long = 0,
    bytes: Long = 0,
    oldest: Option[Long] = None,
    waits: Option[String] = None,
    nextTry: Option[Instant] = None
)
