package io.sparkpgoutput.lake.core

/** What the core knows of a table while the process lives: what the state does not have. */
final private class TableWork {
  import TableWork._

  var phase: Phase = Phase.Idle
  var queue: Option[ChangeQueue] = None

  /** Whether the table has changes in the slot, and its queue is not made yet. */
  var wantsQueue = false

  /** No cut goes to this LSN or above. */
  var limit: Option[Long] = None
  var lastCommit = Long.MinValue / 2
  var notBefore = Long.MinValue / 2
  var failures = 0
  var waiting: Option[String] = None

  /** Why the table was copied last, with its fingerprint; None if a cut was committed since. */
  var copiedFor = Option.empty[(String, Option[String])]

  /** How often it was copied for that. */
  private var copies = 0
  var copyNext: Option[String] = None
  var fingerprint: Option[String] = None

  /** The fingerprint at the last begin of a commit or a copy. */
  var triedWith: Option[String] = None
  var problem: Option[String] = None
  var isRefused = false

  /** The revision of the state by which a table that is copied gives up its queue. */
  var losing: Option[Long] = None

  /** How often that has happened since the last copy. */
  var lost = 0

  /** The LSN up to which a table that is not published any more can have changes. */
  var leaving: Option[Long] = None

  def isDue(now: Long): Boolean = now >= notBefore

  /** Returns whether the definition or the rights have changed since the last begin of a commit. */
  def isNews: Boolean = fingerprint.nonEmpty && fingerprint != triedWith

  def succeeded(now: Long): Unit = {
    lastCommit = now
    failures = 0
    waiting = None
    notBefore = now
  }

  /** What keeps the table from its next step passes by itself. */
  def waits(text: String, now: Long): Unit = pause(text, now, FirstWait, MostWait)

  /** The table has failed, and the next try comes. */
  def retries(text: String, now: Long): Unit = pause(text, now, FirstRetry, MostRetry)

  private def pause(text: String, now: Long, first: Long, most: Long): Unit = {
    waiting = Some(text)
    notBefore = now + math.min(most, first << math.min(failures, 20))
    failures += 1
  }

  def mayCopyAgain(reason: String): Boolean = {
    val cause = Some(reason -> fingerprint)
    copies = if (copiedFor == cause) copies + 1 else 1
    copiedFor = cause
    copies <= MostCopies
  }
}

private object TableWork {
  final val FirstWait = 1000L
  final val MostWait = 60000L
  final val FirstRetry = 10000L
  final val MostRetry = 600000L

  /** How often a table is copied for the same reason, without a cut or another definition in between. */
  final val MostCopies = 3
}

/** What a table is doing. */
sealed private trait Phase

private object Phase {
  case object Idle extends Phase

  /** A cut is committed. */
  case object Applying extends Phase

  /** The state with the next definition is written. */
  final case class Defining(revision: Long) extends Phase

  /** The state is written that says that the table is copied. */
  final case class Beginning(revision: Long) extends Phase

  /** The reader begins the queue. */
  case object Queueing extends Phase
  case object Snapshot extends Phase

  /** The state with the LSN of the snapshot is written. */
  final case class Noting(revision: Long) extends Phase
  case object Committing extends Phase

  /** The state is written that says that the table is dropped. */
  final case class Dropping(revision: Long) extends Phase

  /** The state is written that says that the table needs a copy. */
  final case class Giving(revision: Long) extends Phase
}
