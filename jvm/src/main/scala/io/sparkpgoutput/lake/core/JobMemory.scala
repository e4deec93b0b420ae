package io.sparkpgoutput.lake.core

import scala.collection.mutable

import io.sparkpgoutput.lake.core.JobCommand._
import io.sparkpgoutput.lake.core.TableStatus.Copying
import io.sparkpgoutput.protocol.Lsn

/**
 * The state of a job in memory, what of it is durable, and what each table is doing. What must not begin
 * before a state is durable begins in [[stateWritten]], and only there.
 */
abstract private[core] class JobMemory(settings: JobSettings, start: JobState, begin: Long) {
  protected var current: JobState = start
  private var durable = start
  protected var readLsn: Long = begin
  protected val works: mutable.LongMap[TableWork] = mutable.LongMap.empty
  protected val commands: mutable.Queue[JobCommand] = mutable.Queue.empty

  /** The number of the newest state in memory, of the one that is being written, and of the durable one. */
  private var revision = 0L
  private var writing = 0L
  private var written = 0L
  private var isUrgent = false
  private var lastWrite = 0L

  /** How many tables are committed, and how many are copied. */
  protected var applying = 0
  protected var copying = 0

  /** The state, also what is not written yet. */
  def state: JobState = current

  def readUpTo: Long = readLsn

  /** Returns whether a revision of the state is durable. */
  def isWritten(number: Long): Boolean = number <= written

  /** The LSN below which each table that has a queue has everything. */
  def confirmable: Long = works.foldLeft(readLsn) { case (least, (oid, work)) =>
    work.queue.fold(if (work.wantsQueue) Lsn.min(least, durable.told) else least) { queue =>
      val position =
        if (current.tables.get(oid).forall(_.needsCopy)) queue.from
        else queue.position.getOrElse(readLsn)
      Lsn.min(least, position)
    }
  }

  /** Asks for the state to be written at once. Returns the revision that must be durable. */
  protected def write(): Long = {
    revision += 1
    isUrgent = true
    revision
  }

  protected def writeIfDue(now: Long): Unit = {
    val isDue = now - lastWrite >= settings.writeMillis
    if (isDue) tell()
    if (writing == 0 && (isUrgent || (isDue && revision > written))) {
      isUrgent = false
      writing = revision
      commands += WriteState(current, revision)
    }
  }

  protected def tell(): Unit = {
    val lsn = confirmable
    if (Lsn.isBelow(current.told, lsn)) {
      current = current.copy(told = lsn)
      revision += 1
    }
  }

  /** Writes the state with the LSN that can be confirmed now, for the end of the job. */
  def finish(): Unit = {
    tell()
    isUrgent = true
  }

  /** The state with a revision is durable. */
  def stateWritten(state: JobState, number: Long, now: Long): Unit = {
    durable = state
    written = number
    writing = 0
    lastWrite = now
    commands += Confirm(state.told)
    works.foreach { case (oid, work) =>
      if (work.losing.exists(_ <= written)) dropQueue(oid, work)
      work.phase match {
        case Phase.Beginning(needs) if needs <= written =>
          dropQueue(oid, work)
          work.phase = Phase.Queueing
          commands += BeginQueue(oid)
        case Phase.Noting(needs) if needs <= written =>
          work.phase = Phase.Committing
          commands += CommitCopy(oid)
        case Phase.Defining(needs) if needs <= written =>
          work.phase = Phase.Applying
          commands += AlterColumns(oid)
        case Phase.Dropping(needs) if needs <= written =>
          work.phase = Phase.Idle
          dropQueue(oid, work)
        case Phase.Giving(needs) if needs <= written => end(oid)(dropQueue(oid, _))
        case _                                       => ()
      }
    }
  }

  /** The state could not be written. It is written again after a pause. */
  def stateFailed(now: Long): Unit = {
    writing = 0
    isUrgent = false
    lastWrite = now - settings.writeMillis + TableWork.FirstWait
  }

  /** The server is on another timeline than at the last look. */
  def timeline(timeline: Int): Unit = if (current.timeline != timeline) {
    current = current.copy(timeline = timeline)
    write(): Unit
  }

  /** Ends what a table was doing. */
  protected def end(oid: Long)(body: TableWork => Unit): Unit = works.get(oid).foreach { work =>
    work.phase match {
      case Phase.Applying | Phase.Defining(_) => applying -= 1
      case Phase.Beginning(_) | Phase.Queueing | Phase.Snapshot | Phase.Noting(_) |
          Phase.Committing => copying -= 1
      case _ => ()
    }
    work.phase = Phase.Idle
    body(work)
    work.copyNext.foreach { reason =>
      work.copyNext = None
      change(oid)(_.copy(status = Copying(reason)))
    }
  }

  protected def dropQueue(oid: Long, work: TableWork): Unit = {
    work.wantsQueue = false
    work.queue.foreach { queue =>
      work.queue = None
      commands += DropQueue(oid, queue)
    }
  }

  protected def change(oid: Long)(change: TableState => TableState): Unit =
    current.tables.get(oid).foreach { table =>
      val changed = change(table)
      if (changed != table) put(changed)
    }

  protected def put(table: TableState): Unit = {
    current = current.put(table)
    revision += 1
  }
}
