package io.sparkpgoutput.lake.core

import java.time.Instant
import java.util.concurrent.TimeUnit.{MICROSECONDS, MILLISECONDS}

import scala.collection.mutable

import io.sparkpgoutput.lake.catalog.MirroredTable
import io.sparkpgoutput.lake.core.JobCommand._
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Failed, Live}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.slot.Server

/**
 * The state of a job in memory, which part of it is durable, and what each table is doing. Work that must not
 * begin before a state is durable begins in [[stateWritten]], and only there.
 *
 * Each `now` and each `since` is a time in milliseconds since 1970.
 */
abstract private[core] class JobMemory(start: JobState) {
  import JobMemory._

  protected var current: JobState = start
  private var durable = start
  protected var readLsn: Long = start.confirmed

  /** The end of the WAL at the last look at the catalog. */
  protected var endAtLook: Long = start.confirmed
  protected val works: mutable.LongMap[TableWork] = mutable.LongMap.empty
  protected val commands: mutable.Queue[JobCommand] = mutable.Queue.empty

  /** The number of the newest state in memory, of the one that is being written, and of the durable one. */
  private var revision = 0L
  private var writing = 0L
  private var written = 0L
  private var isUrgent = false
  private var lastWrite = 0L

  /** The newest state. It can have changes that are not written yet. */
  def state: JobState = current

  protected def tables: Iterator[(TableState, TableWork)] =
    current.tables.valuesIterator.map(table => table -> works(table.oid))

  def readUpTo: Long = readLsn

  /** Returns whether a revision of the state is durable. */
  def isWritten(number: Long): Boolean = number <= written

  /**
   * The LSN below which no table with a queue needs anything from the server. A table that is copied needs all of its
   * queue.
   */
  def confirmable: Long = works.foldLeft(readLsn) { case (least, (oid, work)) =>
    work.queue.fold(if (work.wantsQueue) Lsn.min(least, durable.confirmed) else least) { queue =>
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
    val isDue = now - lastWrite >= WriteMillis
    if (writing == 0 && (isUrgent || isDue)) {
      // An urgent state gets the newest LSN too, because urgent states can follow each other without a pause.
      advance()
      if (isUrgent || revision > written) {
        isUrgent = false
        writing = revision
        commands += WriteState(current, revision)
      }
    }
  }

  private def advance(): Unit = {
    val lsn = confirmable
    if (Lsn.isBelow(current.confirmed, lsn)) {
      current = current.copy(confirmed = lsn)
      revision += 1
    }
  }

  /**
   * Writes the state with the LSN that can be confirmed now, for the end of the job. A live table whose requested copy
   * is not committed is live in it: the next process applies its changes, and copies it later. If the commit succeeded
   * in spite of the end, the next process finds the newer mark, and goes on from there.
   */
  def finish(): Unit = {
    works.values.filter(_.losing.isEmpty).foreach(_.live.foreach(put))
    advance()
    isUrgent = true
  }

  /** The state with a revision is durable. */
  def stateWritten(state: JobState, number: Long, now: Long): Unit = {
    durable = state
    written = number
    writing = 0
    lastWrite = now
    commands += Confirm(state.confirmed)
    works.foreach { case (oid, work) =>
      // The changes of a table that needs a copy are of no use before the copy begins, and would hold back WAL. After
      // that, they are of use, and only `losing` says that the queue is given up, whatever the table is doing.
      val isUseless = work.phase == Phase.Idle && needsCopy(state, oid) && needsCopy(current, oid)
      if (isUseless || work.losing.exists(_ <= written)) dropQueue(oid, work)
      work.phase match {
        case Phase.Beginning(needs) if needs <= written =>
          dropQueue(oid, work)
          work.phase = Phase.Queueing
          commands += BeginQueue(oid, work.newSince)
        case Phase.NotingSnapshot(needs, _) if needs <= written =>
          work.phase = Phase.Committing
          commands += CommitCopy(oid)
        case Phase.Defining(needs) if needs <= written =>
          work.phase = Phase.Applying
          commands += AlterColumns(oid)
        case Phase.Dropping(needs) if needs <= written =>
          work.phase = Phase.Idle
          dropQueue(oid, work)
        case Phase.GivingUpQueue(needs) if needs <= written => end(oid)(dropQueue(oid, _))
        case _                                              => ()
      }
    }
  }

  private def needsCopy(state: JobState, oid: Long) = state.tables.get(oid).exists(_.needsCopy)

  /** The state could not be written. It is written again after a pause. */
  def stateFailed(now: Long): Unit = {
    writing = 0
    isUrgent = false
    lastWrite = now - WriteMillis + TableWork.FirstWait
  }

  // What other threads ask of a table.

  /** Returns whether the snapshot of a copy is made, and its rows are not committed yet. */
  def isCommittingCopy(oid: Long): Boolean = works.get(oid).exists { work =>
    work.phase == Phase.Committing || work.phase.isInstanceOf[Phase.NotingSnapshot] ||
    work.snapshot.nonEmpty
  }

  /** Whether a table that a user wants to be copied waits for changes, which the server may not have sent yet. */
  def awaitsChanges: Boolean =
    works.values.exists(_.snapshot.exists(made => Lsn.isBelow(readLsn, made.lsn))) ||
      Lsn.isBelow(readLsn, endAtLook) && current.tables.values.exists(_.copyReason.nonEmpty)

  /** Lets the appliers of tables commit nothing at or above an LSN until [[release]]. */
  def hold(oids: Iterable[Long], lsn: Long): Unit =
    oids.flatMap(works.get(_)).foreach(_.limit = Some(lsn))

  def release(oids: Iterable[Long]): Unit = oids.flatMap(works.get(_)).foreach(_.limit = None)

  /** Returns whether a live table has all transactions below an LSN, and no commit of it runs. */
  def has(oid: Long, lsn: Long): Boolean =
    works.get(oid).exists(_.phase == Phase.Idle) && hasAll(oid, lsn)

  /** A commit that runs has only later transactions, because a cut stays in the queue until its commit. */
  protected def hasAll(oid: Long, lsn: Long) = !Lsn.isBelow(readLsn, lsn) && works.get(oid).exists {
    work =>
      val table = current.tables(oid)
      (work.phase == Phase.Idle || work.phase == Phase.Applying) && table.next.isEmpty &&
      work.fingerprint == work.followed && table.status == Live &&
      work.queue.exists(queue => !queue.position.exists(Lsn.isBelow(_, lsn)))
  }

  /** Returns whether a commit of a table runs. */
  def isApplying(oid: Long): Boolean = works.get(oid).exists(_.phase == Phase.Applying)

  /** The commit of a table waits for memory, so another table gets its place. */
  def leavesPlace(oid: Long): Unit = works.get(oid).foreach(_.place = CommitPlace.Lent)

  def isBusy: Boolean = works.values.exists(_.phase != Phase.Idle)

  /** What `status` shows of a table in addition to its state. */
  def shown(oid: Long): Shown = works.get(oid).fold(Shown())(work =>
    Shown(
      work.queue.fold(0L)(_.changes),
      work.queue.fold(0L)(_.bytes),
      work.queue.flatMap(_.oldest),
      work.waiting.map(_.reason)
        .orElse(work.problem.filter(_ => current.tables(oid).copyReason.nonEmpty))
        .orElse(lacksSnapshot(current.tables(oid), work).map(_.reason)),
      work.waiting.map(_ => Instant.ofEpochMilli(work.notBefore))
    )
  )

  /** Returns whether a table has waited since a time, or longer. */
  def hasWaited(oid: Long, since: Long): Boolean =
    works.get(oid).exists(_.waiting.exists(_.since <= since))

  /**
   * Gives up the tables that have waited for too long, also for the snapshot of a requested copy.
   *
   * @param since a table is given up if it has waited since this time, or longer
   */
  def giveUp(since: Long, now: Long): Unit = tables.foreach { case (table, work) =>
    val waits = work.waiting ++ lacksSnapshot(table, work)
    for (wait <- waits.find(_.since <= since) if work.phase == Phase.Idle) {
      work.waiting = None
      work.snapshotFailure = None
      // A requested copy would lose the changes before it, so the table keeps them, and the request is over.
      change(table.oid)(_.copy(
        status = work.failed(wait.reason, now, table.needsCopy),
        copyReason = None
      ))
    }
  }

  /** Why the snapshot of a requested copy is not made yet. */
  private def lacksSnapshot(table: TableState, work: TableWork) =
    work.snapshotFailure.filter(_ => table.copyReason.nonEmpty && work.snapshot.isEmpty)

  // Small steps.

  /** The columns of the target are those of the next definition. */
  def defined(oid: Long, now: Long): Unit = end(oid) { work =>
    work.notBefore = now
    work.cutEnd = None
    work.followed = work.triedWith
    change(oid)(table =>
      table.next.fold(table)(next =>
        table.copy(
          table = next.table,
          // The cut that found the new definition is tried next, also if the table had failed before.
          status = if (table.isFailed) Live else table.status,
          formerNames = next.formerNames,
          number = table.number + 1,
          next = None
        )
      )
    )
  }

  /** The tables of the target go on under a generation that closes all earlier ones. */
  def closed(oid: Long, generation: Int): Unit = change(oid)(_.copy(generation = generation))

  /** The definition of the table is newer, and its columns in the target are right. */
  def redefined(oid: Long, table: MirroredTable, formerNames: Map[String, String]): Unit =
    change(oid)(_.copy(table = table, formerNames = formerNames))

  /** The slot is read from a server, which has all that was read before. */
  def readsFrom(server: Server): Unit =
    if (current.timeline != server.timeline || !current.isReadFrom(server)) {
      current = current.copy(timeline = server.timeline, serverStarted = Some(server.started))
      write(): Unit
    }

  /** Ends what a table was doing. */
  protected def end(oid: Long)(body: TableWork => Unit): Unit = works.get(oid).foreach { work =>
    work.phase = Phase.Idle
    work.place = CommitPlace.Held
    body(work)
    work.live = None
    work.copyNext.foreach { reason =>
      work.copyNext = None
      change(oid)(_.copy(status = Copying(reason)))
    }
  }

  protected def dropSnapshot(oid: Long, work: TableWork): Unit = if (work.snapshot.nonEmpty) {
    work.snapshot = None
    commands += DropSnapshot(oid)
  }

  protected def dropQueue(oid: Long, work: TableWork): Unit = {
    work.wantsQueue = false
    work.queue.foreach { queue =>
      work.queue = None
      commands += DropQueue(oid, queue)
    }
  }

  /** Gives up the queue of a table. The state first says that the table needs a copy. */
  protected def giveUpQueue(table: TableState, work: TableWork, why: String): Unit = {
    change(table.oid)(_.copy(status = table.status match {
      case failed: Failed => failed.copy(reason = s"${failed.reason} $why", needsCopy = true)
      case _              => Copying(why)
    }))
    work.phase = Phase.GivingUpQueue(write())
  }

  /**
   * Whether a table advances no more: it has failed, or it waits for its store or its rights while others are
   * committed.
   */
  protected def isStuck(table: TableState, work: TableWork): Boolean = {
    def waitsAlone = table.status == Live && work.waiting.nonEmpty && work.isAlone
    (table.isFailed || waitsAlone) && !table.needsCopy && work.phase == Phase.Idle
  }

  /**
   * A table waits once more. It waits alone if another table has stored rows since its last wait. If it does not wait
   * alone, all tables can have the same cause, for example a store that is away. Then none counts as waiting alone.
   */
  protected def waitsAgain(work: TableWork): Unit = {
    if (work.waiting.nonEmpty && works.values.exists(_.lastStored > work.lastWait))
      work.isAlone = true
    if (!work.isAlone) works.values.foreach(_.isAlone = false)
  }

  /** Whether the job is giving up a queue. There is room again when the command that drops it has run. */
  protected def isGivingUpQueue =
    commands.exists(_.isInstanceOf[DropQueue]) || works.values.exists(work =>
      work.phase.isInstanceOf[Phase.GivingUpQueue] || work.losing.exists(!isWritten(_))
    )

  protected def giveUpOne(): Unit = {
    // A commit can still read the queue.
    def isCopied(table: TableState, work: TableWork) =
      table.needsCopy && work.losing.isEmpty && work.phase != Phase.Applying &&
        !work.phase.isInstanceOf[Phase.Defining]
    lazy val hasWholeTransaction = works.values.exists(_.queue.exists(_.oldest.nonEmpty))
    // Without a whole transaction, nothing that is applied makes room for the rest of the open one.
    def isOpen(table: TableState, work: TableWork) =
      table.status == Live && work.phase == Phase.Idle && !hasWholeTransaction
    largest(isStuck).orElse(largest(isCopied)).orElse(largest(isOpen)).foreach {
      case (table, work) if table.needsCopy =>
        // The state first forgets the snapshot, which needs the changes after it.
        change(table.oid)(_.copy(status = Copying(table.status.why.getOrElse(""))))
        work.losing = Some(write())
      case (table, work) => giveUpQueue(table, work, DiskFull)
    }
  }

  /** The copy of a table that has lost its queue begins again, a few times. */
  protected def copyAgain(oid: Long, work: TableWork, now: Long): Unit = {
    work.losing = None
    work.lost += 1
    work.notBefore = now + TableWork.FirstRetry
    change(oid)(_.copy(status =
      if (work.lost < TableWork.MostCopies) Copying(DiskFull)
      else work.failed(s"$DiskFull Raise the option queueDisk.", now, needsCopy = true)
    ))
    write(): Unit
  }

  /**
   * Gives up the queues of tables that wait for the name of a table that is not published any more. They are copied
   * under their new names anyway. Their changes could fill the disk, and then the other table would not get its last
   * changes.
   */
  protected def giveUpWaiting(moving: Set[Long]): Unit =
    moving.map(current.tables)
      .filter(table => table.status == Live && works(table.oid).phase == Phase.Idle)
      .foreach(table => giveUpQueue(table, works(table.oid), Waits))

  /** The table of a kind whose queue has the most bytes. */
  private def largest(isOne: (TableState, TableWork) => Boolean) = {
    def bytes(work: TableWork) = work.queue.fold(0L)(_.bytes)
    tables.filter { case (table, work) => isOne(table, work) && bytes(work) > 0 }
      .maxByOption { case (_, work) => bytes(work) }
  }

  /**
   * Returns whether the snapshot of a live table with a requested copy may be made. The snapshot locks the table until
   * the table has all changes before it, so neither the reader nor the table may be far behind, and the changes must
   * not fail. The target has the columns of the last look at the catalog.
   */
  protected def mayMakeSnapshot(table: TableState, work: TableWork, now: Long): Boolean =
    table.copyReason.nonEmpty && table.next.isEmpty && work.snapshot.isEmpty &&
      work.retried == 0 && work.leaving.isEmpty && now >= work.snapshotAfter &&
      work.fingerprint == work.followed &&
      !Lsn.isBelow(readLsn, endAtLook) && !catchesUp(table, work, now)

  /** Whether a live table with a requested copy lacks changes before the last look for which no snapshot may wait. */
  protected def catchesUp(table: TableState, work: TableWork, now: Long): Boolean =
    table.copyReason.nonEmpty && work.queue.exists(queue =>
      queue.position.exists(Lsn.isBelow(_, endAtLook)) &&
        queue.oldest.exists(MICROSECONDS.toMillis(_) < now - TableWork.MostSnapshot)
    )

  /** Returns whether a table with a snapshot lacks changes that come before it. */
  protected def lacksChanges(work: TableWork) = work.snapshot.exists(made =>
    Lsn.isBelow(readLsn, made.lsn) ||
      work.queue.flatMap(_.position).exists(Lsn.isBelow(_, made.lsn))
  )

  /** Since when a table is to be committed, in microseconds: by the clock of the server, if it has changes. */
  protected def dueSince(table: TableState, work: TableWork): Long = {
    // A table that fails again and again would keep its place from all others.
    val waited = work.waiting.fold(0L)(wait => work.notBefore - wait.since)
    val known = if (table.next.nonEmpty && waited == 0) 0L else MILLISECONDS.toMicros(work.newSince)
    work.queue.flatMap(_.oldest).getOrElse(known) + MILLISECONDS.toMicros(waited)
  }

  protected def upTo(work: TableWork) =
    (work.limit ++ work.snapshot.map(_.lsn) ++ work.cutEnd).foldLeft(readLsn)(Lsn.min)

  protected def hasChanges(work: TableWork) = work.queue.exists(queue =>
    queue.oldest.nonEmpty && queue.position.exists(Lsn.isBelow(_, upTo(work)))
  )

  /** The first tables that are due; none if there is no place. */
  protected def first[A: Ordering](places: Int, isDue: (TableState, TableWork) => Boolean)(
      order: (TableState, TableWork) => A
  ): Seq[(TableState, TableWork)] =
    if (places <= 0) Nil
    else tables.filter(isDue.tupled).toSeq.sortBy(order.tupled).take(places)

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

private object JobMemory {

  /** The time between two writes of a state for which no step waits. */
  final private val WriteMillis = 10000L
  private val DiskFull = "The disk for queues was full."
  val SnapshotLate = "The changes before the snapshot were not applied within five minutes."
  val StateLate = "The state with the snapshot of its copy was not written within five minutes."
  private val Waits =
    "Its new name in the target belongs to a table that still gets its last changes."
}
