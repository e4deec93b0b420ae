package io.sparkpgoutput.lake.core

import java.time.Instant

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.{MirroredTable, TableMode}
import io.sparkpgoutput.lake.core.TableStatus.Failed

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
   *   the time since which the catalog has shown the current definition of the table, by the clock of the job, in
   *   milliseconds since 1970
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

/** What the core knows about a table, and does not write into the state. All times are in milliseconds since 1970. */
final private class TableWork {
  import TableWork._

  var phase: Phase = Phase.Idle

  /** Whether the table has one of the places for commits, while a commit of it runs. */
  var place: CommitPlace = CommitPlace.Held
  var queue: Option[ChangeQueue] = None

  /** Whether the table has changes in the slot, and its queue is not made yet. */
  var wantsQueue = false

  /** No cut goes to this LSN or above. */
  var limit: Option[Long] = None

  /** The end of the cut that is committed or waits. The cut can wait for a standby, so the next try takes no more. */
  var cutEnd: Option[Long] = None

  /** The snapshot of a live table, which first gets the changes before the snapshot. */
  var snapshot: Option[MadeSnapshot] = None

  /** The time from which on the snapshot of a live table may be made. Its cuts go on until then. */
  var snapshotAfter = Long.MinValue

  /** Why the snapshot of a requested copy is not made yet. */
  var snapshotFailure = Option.empty[TableWait]

  /** The live table that a user wants to be copied, while the rows of its snapshot are committed. */
  var live = Option.empty[TableState]
  var lastCommit = Long.MinValue / 2
  var notBefore = Long.MinValue / 2
  var failures = 0

  /** How often the changes before a requested copy have failed since the last commit. */
  var retried = 0
  var waiting = Option.empty[TableWait]

  /** When the table last began to wait, or waited once more. */
  var lastWait = Long.MaxValue

  /** When rows of the table were stored last. A commit that only compares the definition stores none. */
  var lastStored = Long.MinValue

  /** Whether the table waits while others get what they wait for. */
  var isAlone = false

  /** Why the table was copied last, with its fingerprint; None if a cut was committed since. */
  var copiedFor = Option.empty[(String, Option[String])]

  /** How often it was copied for this reason. */
  private var copies = 0

  /** How often it was copied by itself since a cut, or since a copy that no change had followed at its end. */
  var copiesInRow = 0
  var copyNext: Option[String] = None
  var fingerprint: Option[String] = None

  /** When a look first found the fingerprint, or a commit found a change. A requested copy can begin before that. */
  var newSince = 0L

  /** The fingerprint at the last begin of a commit or a copy. The commit or the copy can see a newer definition. */
  var triedWith: Option[String] = None

  /** What [[triedWith]] was at the last success. Before the first look, it and [[fingerprint]] are None, so equal. */
  var followed: Option[String] = None
  var problem: Option[String] = None

  /** The mode that the options give a table of this name. */
  var mode: Option[TableMode] = None
  var isRefused = false

  /**
   * The revision of the state that says that a table which is copied gives up its queue. It stays until the current
   * step of the copy ends. If a queue begins until then, the job drops this queue too.
   */
  var losing: Option[Long] = None

  /** How often the table has given up its queue in this way since the last copy. */
  var lost = 0

  /** The LSN up to which a table that is not published any more can have changes. */
  var leaving: Option[Long] = None

  def isDue(now: Long): Boolean = now >= notBefore

  /** Whether it has one of the places for copies. */
  def holdsCopier: Boolean = snapshot.nonEmpty || (phase match {
    case Phase.Beginning(_) | Phase.Queueing | Phase.Snapshot | Phase.NotingSnapshot(_, _) |
        Phase.Committing => true
    case _ => false
  })

  /**
   * Whether it has one of the places for commits. While its next definition waits for the state, it has none: the
   * checkpoint folder can be away for hours, and other tables need no state for their commits.
   */
  def isCommitted: Boolean = phase == Phase.Applying

  /** Returns whether the definition or the rights have changed since the last begin of a commit. */
  def hasNewFingerprint: Boolean = fingerprint.nonEmpty && fingerprint != triedWith

  /** When the table first failed after its last commit or copy. */
  var failedSince = Option.empty[Instant]

  /** Notes that the table fails. Returns its status. */
  def failed(reason: String, now: Long, needsCopy: Boolean, isLasting: Boolean = true): Failed = {
    val since = failedSince.getOrElse(Instant.ofEpochMilli(now))
    failedSince = Some(since)
    Failed(reason, since, needsCopy, isLasting)
  }

  def succeeded(now: Long): Unit = {
    lastCommit = now
    cutEnd = None
    failedSince = None
    failures = 0
    retried = 0
    waiting = None
    isAlone = false
    notBefore = now
  }

  def snapshotFails(text: String, now: Long): Unit = {
    snapshotAfter = now + SnapshotPause
    snapshotFailure = Some(TableWait(text, snapshotFailure.fold(now)(_.since)))
  }

  /** The reason why the table cannot take its next step passes by itself. */
  def waits(text: String, now: Long): Unit = pause(text, now, FirstWait, MostWait)

  /** The table has failed, and the job will try again. */
  def retries(text: String, now: Long): Unit = pause(text, now, FirstRetry, MostRetry)

  /** Notes an error of the changes before a requested copy. Returns whether they are tried again. */
  def triesAgain(failure: TableFailure): Boolean = {
    if (failure.kind == TableFailure.Retried) retried += 1
    failure.passes && retried < MostTries
  }

  private def pause(text: String, now: Long, first: Long, most: Long): Unit = {
    lastWait = now
    waiting = Some(TableWait(text, waiting.fold(now)(_.since)))
    notBefore = now + longer(first, most, failures)
    failures += 1
  }

  def mayCopyAgain(reason: String): Boolean = {
    val cause = Some(reason -> fingerprint)
    copies = if (copiedFor == cause) copies + 1 else 1
    copiedFor = cause
    copiesInRow += 1
    copies <= MostCopies
  }

  /**
   * How long the next copy waits, in milliseconds. Two reasons can differ only in the LSN of a change, so all copies
   * count.
   */
  def pauseBeforeCopy: Long =
    if (copiesInRow <= MostCopies) 0
    else longer(FirstRetry, MostRetry, copiesInRow - MostCopies - 1)
}

/** All pauses are in milliseconds. */
private object TableWork {

  /** A pause that doubles with each earlier one. */
  private def longer(first: Long, most: Long, earlier: Int) =
    math.min(most, first << math.min(earlier, 20))

  final val FirstWait = 1000L

  /** The time between two tries to make the snapshot of a live table. */
  final val SnapshotPause = 60000L

  /** How long the snapshot of a live table waits for the changes before it. It locks the table. */
  final val MostSnapshot = 300000L
  final val MostWait = 60000L
  final val FirstRetry = 10000L
  final val MostRetry = 600000L

  /** How often the changes before a requested copy fail until the table is copied without them: after 20 minutes. */
  final val MostTries = 8

  /** How often a table is copied for the same reason, without a cut or another definition in between. */
  final val MostCopies = 3
}

/**
 * Why a table waits now.
 *
 * @param since when it began to wait, for whatever reason, in milliseconds since 1970
 */
final private case class TableWait(reason: String, since: Long)

/**
 * The settings of a job.
 *
 * @param appliers how many tables are committed at the same time
 * @param copiers how many tables are copied at the same time
 * @param mostWaiting how many tables wait for memory at the same time. Each has a thread. If there are so many, no
 *   other table begins a commit.
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
 * @param time when it was made, in milliseconds since 1970
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
