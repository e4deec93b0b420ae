package io.sparkpgoutput.lake.core

import java.time.Instant

import scala.collection.mutable

import io.sparkpgoutput.lake.core.TableStatus.{Copying, Dropped, Failed, Live}
import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.protocol.Lsn

/**
 * Decides what a job does next. It is told what happened, and returns commands. It has no threads, and
 * does no input or output, so a test can let a job live through ten thousand histories in seconds.
 *
 * {{{
 *   slot ──► reader ──► queue of orders ─────► applier ──► commit with the mark of the cut
 *                       queue of customers ──► applier ──► commit with the mark of the cut
 *                            ▲ a copy commits its snapshot with the mark L0, and the applier goes on
 *   confirmed LSN ◄── the least position of all tables that have a queue
 * }}}
 *
 * '''Why no change is lost.''' The ''read LSN'' is the end of what the reader has put into queues: each
 * transaction with a lower commit LSN is whole in the queues of its tables. The ''position'' of a table
 * is the commit LSN of the oldest change in its queue, or the read LSN if the queue is empty. The server
 * is told only the least position, and only after the state with this LSN is written ([[JobState.told]]).
 * So after a crash, the server sends again everything that is not in a table. Each commit has a mark, and
 * a change below the mark of its table is dropped, so a change that comes twice does nothing.
 *
 * A table without a queue does not hold the confirmed LSN. Its changes are dropped, and it must be copied.
 * So the state says that the table needs a copy before its queue is dropped.
 *
 * '''Why a copy has no gap.''' These are the steps, in this order:
 *
 *   1. No commit of the table runs.
 *   1. The state says that the table is copied, with the next generation.
 *   1. The queue begins at the end of the transaction that is being read.
 *   1. The server makes a snapshot. It sees the transactions below its LSN L0. If L0 is below the begin of
 *      the queue, or below the mark of the table, the server is behind, and another snapshot is made.
 *   1. The state has L0 and the definition of the table in the snapshot.
 *   1. One commit replaces the rows, with the mark L0. If the table of the target belonged to another table
 *      before, an empty commit closes the generation of the old owner first, so a late commit of a process
 *      that knows only the old owner fails.
 *
 * Everything below L0 is in the snapshot, and everything from L0 on is in the queue, because the queue
 * begins at or below L0. After a kill, the mark says whether the commit of the last step was made.
 *
 * '''Why a cut is right.''' A cut ends at or below the read LSN, so it has whole transactions. It follows
 * the mark of the table, because the applier commits one cut after the other and each commit compares the
 * mark.
 *
 * The methods take the current time in milliseconds. The caller synchronizes all calls, runs the commands
 * of [[take]] in any order and on any thread, and reports their results.
 *
 * @param begin the LSN at which the session of the reader begins: it gets all transactions from there on
 */
final class JobCore(settings: JobCore.Settings, start: JobState, begin: Long) {
  import JobCore._

  private var current = start
  private var durable = start
  private var readLsn = begin
  private val works = mutable.LongMap.empty[Work]
  private val commands = mutable.Queue.empty[Command]

  /** The number of the newest state in memory, of the one that is being written, and of the durable one. */
  private var revision = 0L
  private var writing = 0L
  private var written = 0L
  private var isUrgent = false
  private var lastWrite = 0L

  private var applying = 0
  private var copying = 0
  private var isPaused = false
  private var isFull = false
  private var isStopping = false

  /** The names in the target that tables get, by the oids of the tables. */
  private var moves = Map.empty[Long, String]
  private var isLooked = false

  current.tables.values.foreach { table =>
    val work = new Work
    works(table.oid) = work
    if (!table.needsCopy && table.status != Dropped) {
      work.wantsQueue = true
      // A lasting error is tried once at each start.
      if (table.isFailed) put(table.copy(status = Live))
    } else if (table.isFailed) put(table.copy(status = Copying(table.status.why.get)))
  }

  /** The state, also what is not written yet. */
  def state: JobState = current

  def readUpTo: Long = readLsn

  /** The tables whose queues begin with the first session, at their marks. */
  def queuesAtStart: Seq[TableState] =
    current.tables.values.filter(table => works(table.oid).wantsQueue).toSeq.sortBy(_.oid)

  /** Returns whether something that passes by itself keeps a table from its next step. */
  def isWaiting: Boolean = works.values.exists(_.waiting.nonEmpty)

  /** Returns whether a revision of the state is durable. */
  def isWritten(number: Long): Boolean = number <= written

  /** Returns the commands that are to be run, each once. */
  def take(now: Long): Seq[Command] = {
    if (!isStopping) plan(now)
    commands.dequeueAll(_ => true).toSeq
  }

  // What the reader reports.

  /** A queue exists. The reader puts changes from its `from` on into it. */
  def queueBegun(oid: Long, queue: ChangeQueue): Unit = works.get(oid).foreach { work =>
    work.queue = Some(queue)
    if (work.phase == Phase.Queueing) {
      work.phase = Phase.Snapshot
      commands += MakeSnapshot(oid)
    }
  }

  /** Each transaction with a commit LSN below an LSN is whole in the queues. */
  def read(lsn: Long): Unit = readLsn = Lsn.max(readLsn, lsn)

  /** The local disk is full, or has room again. */
  def diskFull(full: Boolean): Unit = isFull = full

  // What the appliers report.

  /**
   * A cut is committed, or the target has a newer mark of the same generation than the job knew: another
   * process of the job, which was slow to end, has committed a cut that is right.
   */
  def applied(oid: Long, mark: Long, lastChange: Option[Instant], now: Long): Unit =
    end(oid) { work =>
      work.succeeded(now)
      if (!current.tables(oid).mark.contains(mark)) work.copiedFor = None
      change(oid)(table =>
        table.copy(
          status = if (table.isFailed) Live else table.status,
          mark = Some(mark),
          lastChange = lastChange.orElse(table.lastChange)
        )
      )
    }

  /** The columns of the target must change first. The state gets the definition before the first ALTER. */
  def defines(oid: Long, next: NextDefinition): Unit = works.get(oid).foreach { work =>
    change(oid)(_.copy(next = Some(next)))
    work.phase = Phase.Defining(write())
  }

  /** The columns of the target are those of the next definition. */
  def defined(oid: Long, now: Long): Unit = end(oid) { work =>
    work.notBefore = now
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

  /** The definition of the table is newer, and its columns in the target are right. */
  def redefined(oid: Long, table: MirroredTable, formerNames: Map[String, String]): Unit =
    change(oid)(_.copy(table = table, formerNames = formerNames))

  // What the copies report.

  /**
   * A snapshot is made.
   *
   * @param table the table as the snapshot has it
   * @param newest the greatest generation of the job that has a mark in the table of the target; 0 if none
   */
  def snapshotMade(oid: Long, lsn: Long, table: MirroredTable, newest: Int = 0): Unit =
    works.get(oid).foreach { work =>
      val kept = current.tables(oid)
      val isLosing = work.losing.nonEmpty
      val least = Lsn.max(work.queue.fold(readLsn)(_.from), kept.mark.getOrElse(0L))
      if (isLosing) end(oid)(copyAgain(oid, _, 0))
      else if (Lsn.isBelow(lsn, least)) commands += MakeSnapshot(oid)
      else {
        change(oid)(kept =>
          kept.copy(
            table = table.copy(target = kept.target),
            status = Copying(kept.status.why.getOrElse(""), Some(lsn)),
            number = kept.number + 1,
            next = None,
            formerNames = Map.empty,
            // A table that the job had left can have come back.
            generation = math.max(kept.generation, newest + 1)
          )
        )
        work.phase = Phase.Noting(write())
      }
    }

  /** The rows of the snapshot are committed. */
  def copied(oid: Long, now: Long): Unit = end(oid) { work =>
    if (work.losing.nonEmpty) copyAgain(oid, work, now)
    else {
      work.succeeded(now)
      work.lost = 0
      change(oid)(table =>
        table.status match {
          case Copying(_, lsn) => table.copy(status = Live, mark = lsn)
          case _               => table
        }
      )
      write(): Unit
    }
  }

  // Errors.

  /** What a table was doing has failed. */
  def failed(oid: Long, failure: Failure, now: Long): Unit = end(oid) { work =>
    if (work.losing.nonEmpty) {
      dropQueue(oid, work)
      copyAgain(oid, work, now)
    } else failed(oid, work, failure, now)
  }

  private def failed(oid: Long, work: Work, failure: Failure, now: Long): Unit = {
    val table = current.tables(oid)
    val wasCopying = table.needsCopy
    val text = failure.text
    failure.kind match {
      case Failure.Waits =>
        work.waits(text, now, FirstWait, MostWait)
        // The queue of the copy goes, so a commit of it that was made in spite of the error does not count.
        if (wasCopying) change(oid)(kept => kept.copy(status = Copying(kept.status.why.get)))
      case Failure.Changed if settings.copiesChanged && work.mayCopyAgain(text) =>
        change(oid)(_.copy(status = Copying(text)))
        work.notBefore = now
      case kind =>
        val isLasting = kind != Failure.Passing
        if (!isLasting) work.waits(text, now, FirstRetry, MostRetry) else work.waiting = None
        val since = table.status match {
          case Failed(_, since, _, _) => since
          case _                      => Instant.ofEpochMilli(now)
        }
        val needsCopy = wasCopying || (kind == Failure.Changed && settings.copiesChanged)
        change(oid)(_.copy(status = Failed(text, since, needsCopy, isLasting)))
        if (settings.stopsAtError) {
          isStopping = true
          commands += EndJob(oid, text)
        }
        write(): Unit
    }
    // The state has said since the copy began that the table needs one.
    if (wasCopying) dropQueue(oid, work)
  }

  // What the server's catalog says.

  /**
   * All published tables, at a look at the catalog that sees everything below an LSN.
   *
   * @param upTo the end of the WAL when the catalog was asked: a table that is not published any more has
   *   no changes above it
   */
  def published(tables: Seq[Published], upTo: Long, now: Long): Unit = {
    val oids = tables.map(_.oid).toSet
    current.tables.values.foreach { table =>
      if (!oids(table.oid) && table.status != Dropped) leaves(table, upTo)
      else if (oids(table.oid)) works(table.oid).leaving = None
    }
    tables.foreach(one(_, now))
    names(tables)
    isLooked = true
  }

  /** What the queue has is applied first, if that can be done. */
  private def leaves(table: TableState, upTo: Long): Unit = {
    val work = works(table.oid)
    if (table.needsCopy || table.isFailed) drop(table)
    else if (work.leaving.isEmpty) work.leaving = Some(upTo)
  }

  private def drop(table: TableState): Unit = {
    val work = works(table.oid)
    if (work.phase == Phase.Idle) {
      change(table.oid)(_.copy(status = Dropped))
      work.waiting = None
      work.phase = Phase.Dropping(write())
    } else work.leaving = Some(0)
  }

  private def one(found: Published, now: Long): Unit = {
    val work = works.getOrElseUpdate(found.oid, new Work)
    work.fingerprint = Some(found.fingerprint)
    work.problem = found.problem
    current.tables.get(found.oid) match {
      case None =>
        put(TableState(found.table, status = Copying("It was added to the publication.")))
        found.problem.foreach(refuse(found.oid, _, now))
      case Some(table) if table.status == Dropped =>
        change(found.oid)(kept =>
          kept.copy(
            table = found.table.copy(target = kept.target),
            status = Copying("It is published again.")
          )
        )
        found.problem.foreach(refuse(found.oid, _, now))
      case Some(table) if work.phase == Phase.Idle && table.needsCopy =>
        (table.status, found.problem) match {
          case (Failed(reason, _, _, _), Some(problem)) if reason == problem => ()
          case (_, Some(problem)) => refuse(found.oid, problem, now)
          case (Failed(reason, _, _, true), None) if work.isRefused || work.isNews =>
            work.isRefused = false
            change(found.oid)(_.copy(
              table = found.table.copy(target = table.target),
              status = Copying(reason)
            ))
          case _ => ()
        }
      case Some(table) if table.isFailed && work.isNews => work.notBefore = now
      case _                                            => ()
    }
  }

  /** A table cannot be in the target as it is. It is copied when the reason is gone. */
  private def refuse(oid: Long, problem: String, now: Long): Unit = {
    works(oid).isRefused = true
    works(oid).waiting = None
    change(oid)(_.copy(status =
      Failed(problem, Instant.ofEpochMilli(now), needsCopy = true, isLasting = true)
    ))
    if (settings.stopsAtError) {
      isStopping = true
      commands += EndJob(oid, problem)
    }
    write(): Unit
  }

  /**
   * A table of the target belongs to the table that has its name at the server now. A table that was
   * renamed to a name that no table had before keeps the name that it has in the target.
   */
  private def names(tables: Seq[Published]): Unit = {
    val possible = tables.filter(_.problem.isEmpty)
    val natural = possible.flatMap(found => found.natural.map(folded(_) -> found.oid)).toMap
    moves = possible.flatMap { found =>
      val table = current.tables(found.oid)
      found.natural.filter { name =>
        def isTaken = current.tables.values.exists(other =>
          other.oid != table.oid && folded(other.target) == folded(name)
        )
        if (folded(name) == folded(table.target)) table.generation == 0 && isTaken
        else table.generation == 0 || table.target.isEmpty || isTaken ||
        natural.get(folded(table.target)).exists(_ != table.oid)
      }.map(found.oid -> _)
    }.toMap
  }

  /**
   * Gives tables their new names in the target, in one change of the state, when no commit of the old and
   * the new owners runs. A table that loses its name and gets no other one is not published any more, or
   * cannot be in the target as it is: then it has the empty name, until it can.
   */
  private def move(now: Long): Unit = if (moves.nonEmpty && involved.forall(canMove)) {
    val newest = current.tables.values.map(_.generation).max
    (involved -- moves.keySet).foreach { oid =>
      val table = current.tables(oid)
      if (table.status == Dropped) {
        current = current.copy(tables = current.tables - oid)
        works -= oid
      } else {
        val problem = works(oid).problem.getOrElse("Another table has its name in the target now.")
        put(table.copy(table = table.table.copy(target = "")))
        refuse(oid, problem, now)
        works(oid).phase = Phase.Giving(write())
      }
    }
    moves.foreach { case (oid, name) =>
      val reason = s"The name '$name' in the target belongs to the table now."
      change(oid)(table =>
        table.copy(
          table = table.table.copy(target = name),
          status = Copying(reason),
          generation = newest
        )
      )
    }
    moves = Map.empty
    write(): Unit
  }

  private def canMove(oid: Long): Boolean = {
    val work = works(oid)
    // A table that is not published any more keeps its name until its last changes are applied.
    work.phase == Phase.Idle && work.leaving.isEmpty
  }

  /** The tables that get or lose a name in the target. */
  private def involved: Set[Long] = {
    val names = moves.values.map(folded).toSet
    moves.keySet ++ current.tables.values.filter(table => names(folded(table.target))).map(_.oid)
  }

  private def folded(name: String) = name.toLowerCase(java.util.Locale.ROOT)

  // Requests.

  /**
   * A user asks for a copy.
   *
   * @return the revision of the state that has the request; None if there is no such table
   */
  def resync(oid: Long, reason: String, now: Long): Option[Long] =
    current.tables.get(oid).flatMap { table =>
      val work = works(oid)
      if (table.status == Dropped) None
      else {
        if (work.phase == Phase.Idle || work.phase == Phase.Applying) {
          work.waiting = None
          work.notBefore = now
          work.failures = 0
          if (work.phase == Phase.Applying) work.copyNext = Some(reason)
          else change(oid)(_.copy(status = Copying(reason)))
        } else if (!table.needsCopy || table.isFailed || work.phase == Phase.Committing)
          work.copyNext = Some(reason)
        Some(write())
      }
    }

  /** Lets the appliers of tables commit nothing at or above an LSN until [[release]]. */
  def hold(oids: Iterable[Long], lsn: Long): Unit =
    oids.flatMap(works.get(_)).foreach(_.limit = Some(lsn))

  def release(oids: Iterable[Long]): Unit = oids.flatMap(works.get(_)).foreach(_.limit = None)

  /** Returns whether a live table has all transactions below an LSN. */
  def has(oid: Long, lsn: Long): Boolean = !Lsn.isBelow(readLsn, lsn) && works.get(oid).exists {
    work =>
      work.phase == Phase.Idle && !work.isNews && current.tables(oid).status == Live &&
      work.queue.exists(queue => !queue.position.exists(Lsn.isBelow(_, lsn)))
  }

  /** Returns whether a commit of a table runs. */
  def isApplying(oid: Long): Boolean = works.get(oid).exists(_.phase == Phase.Applying)

  /** Returns whether each table has all transactions below an LSN, or will not get them. */
  def isDone(lsn: Long): Boolean = isLooked && !Lsn.isBelow(readLsn, lsn) && moves.isEmpty &&
    current.tables.values.forall(table =>
      table.status match {
        case Live | Failed(_, _, false, false) => has(table.oid, lsn)
        case Copying(_, _)                     => false
        case Failed(_, _, _, isLasting)        => isLasting && works(table.oid).phase == Phase.Idle
        case Dropped                           => works(table.oid).phase == Phase.Idle
      }
    )

  /** Gives up the errors that are tried again. Returns the tables that have one. */
  def giveUp(): Unit = current.tables.values.foreach { table =>
    table.status match {
      case Failed(reason, since, needsCopy, false) =>
        change(table.oid)(_.copy(status = Failed(reason, since, needsCopy, isLasting = true)))
      case _ => ()
    }
  }

  // Confirmation and state.

  /** The LSN below which each table that has a queue has everything. */
  def confirmable: Long = works.foldLeft(readLsn) { case (least, (oid, work)) =>
    work.queue.fold(if (work.wantsQueue) Lsn.min(least, durable.told) else least) { queue =>
      val position =
        if (current.tables.get(oid).forall(_.needsCopy)) queue.from
        else queue.position.getOrElse(readLsn)
      Lsn.min(least, position)
    }
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
    lastWrite = now - settings.writeMillis + FirstWait
  }

  /** Asks for the state to be written at once. Returns the revision that must be durable. */
  private def write(): Long = {
    revision += 1
    isUrgent = true
    revision
  }

  /** Writes the state with the LSN that can be confirmed now, for the end of the job. */
  def finish(): Unit = {
    tell()
    isUrgent = true
  }

  private def tell(): Unit = {
    val lsn = confirmable
    if (Lsn.isBelow(current.told, lsn)) {
      current = current.copy(told = lsn)
      revision += 1
    }
  }

  /** The server is on another timeline than at the last look. */
  def timeline(timeline: Int): Unit = if (current.timeline != timeline) {
    current = current.copy(timeline = timeline)
    write(): Unit
  }

  /** Lets no new work begin. */
  def stop(): Unit = isStopping = true

  def isBusy: Boolean = works.values.exists(_.phase != Phase.Idle)

  // Plans.

  private def plan(now: Long): Unit = {
    limits()
    drops()
    move(now)
    // A table whose name in the target changes begins nothing until then.
    val blocked = if (moves.isEmpty) Set.empty[Long] else involved.filter(works(_).leaving.isEmpty)
    copies(now, blocked)
    cuts(now, blocked)
    writeIfDue(now)
  }

  /** Failed tables hold WAL up to a limit. A full disk takes queues of failed tables, and then of copies. */
  private def limits(): Unit = {
    current.tables.values.foreach { table =>
      val work = works(table.oid)
      if (table.isFailed && !table.needsCopy && work.phase == Phase.Idle) {
        val held = readLsn - work.queue.flatMap(_.position).getOrElse(readLsn)
        if (held > settings.maxHeldWal)
          giveUpQueue(table, work, "It held back more WAL than maxHeldWal allows.")
      }
    }
    if (isFull) victim match {
      case Some(table) => giveUpQueue(table, works(table.oid), DiskFull)
      case None        => copyVictim.foreach(table => giveUpCopy(works(table.oid), table.oid))
    }
    val pauses = isFull && victim.isEmpty && copyVictim.isEmpty
    if (pauses != isPaused) {
      isPaused = pauses
      commands += (if (pauses) PauseReading else ResumeReading)
    }
  }

  private def victim: Option[TableState] = current.tables.values.filter { table =>
    val work = works(table.oid)
    table.isFailed && !table.needsCopy && work.phase == Phase.Idle && work.queue.exists(_.bytes > 0)
  }.maxByOption(table => works(table.oid).queue.get.bytes)

  private def copyVictim: Option[TableState] = current.tables.values.filter { table =>
    val work = works(table.oid)
    table.needsCopy && work.queue.exists(_.bytes > 0) && work.losing.isEmpty
  }.maxByOption(table => works(table.oid).queue.get.bytes)

  /**
   * The changes of a table that is copied go. The state forgets the LSN of the snapshot first: without the
   * changes from there on, the copy would not be the table.
   */
  private def giveUpCopy(work: Work, oid: Long): Unit = {
    change(oid)(kept => kept.copy(status = Copying(kept.status.why.getOrElse(""))))
    work.losing = Some(write())
  }

  /** The copy of a table that has lost its queue begins again, a few times. */
  private def copyAgain(oid: Long, work: Work, now: Long): Unit = {
    work.losing = None
    work.lost += 1
    work.notBefore = now + FirstRetry
    val since = Instant.ofEpochMilli(now)
    change(oid)(_.copy(status =
      if (work.lost < MostCopies) Copying(DiskFull)
      else
        Failed(s"$DiskFull Raise the option queueDisk.", since, needsCopy = true, isLasting = true)
    ))
    write(): Unit
  }

  /** The state says first that the table needs a copy. */
  private def giveUpQueue(table: TableState, work: Work, why: String): Unit = table.status match {
    case Failed(reason, since, _, isLasting) =>
      change(table.oid)(_.copy(status =
        Failed(s"$reason $why", since, needsCopy = true, isLasting)
      ))
      work.phase = Phase.Giving(write())
    case _ => ()
  }

  private def copies(now: Long, blocked: Set[Long]): Unit = {
    val due = current.tables.values.filter { table =>
      val work = works(table.oid)
      // The catalog says how the table is now, and that nothing is missing for a copy.
      val isReady = work.fingerprint.nonEmpty && work.problem.isEmpty
      isReady && work.phase == Phase.Idle && work.isDue(now) && !isFull && (table.status match {
        case Copying(_, _)               => true
        case Failed(_, _, true, lasting) => !lasting
        case _                           => false
      }) && !blocked(table.oid)
    }.toSeq.sortBy(_.oid)
    due.take(settings.copiers - copying).foreach { table =>
      val work = works(table.oid)
      // No other copy of the job has had this generation, also none of a table that lost its name.
      val generation = current.tables.values.map(_.generation).max + 1
      copying += 1
      val reason = table.status.why.getOrElse("")
      change(table.oid)(kept =>
        kept.copy(status = Copying(reason), generation = generation, next = None)
      )
      work.triedWith = work.fingerprint
      work.phase = Phase.Beginning(write())
    }
  }

  private def cuts(now: Long, blocked: Set[Long]): Unit = if (applying < settings.appliers) {
    val due = current.tables.values.filter { table =>
      val work = works(table.oid)
      work.phase == Phase.Idle && work.isDue(now) && (table.status match {
        case Live => now - work.lastCommit >= settings.intervalMillis &&
          (hasChanges(work) || table.next.nonEmpty || work.isNews)
        // A lasting error is tried again when the definition or the rights have changed since.
        case Failed(_, _, false, isLasting) => !isLasting || work.isNews
        case _                              => false
      }) && !blocked(table.oid)
    }.toSeq
    due.sortBy(table => works(table.oid).queue.flatMap(_.oldest).getOrElse(Long.MaxValue))
      .take(settings.appliers - applying).foreach { table =>
        val work = works(table.oid)
        applying += 1
        work.triedWith = work.fingerprint
        work.phase = Phase.Applying
        // A change of columns that was begun is ended first, also that of the last process.
        commands += (if (table.next.nonEmpty) AlterColumns(table.oid)
                     else ApplyCut(table.oid, upTo(work)))
      }
  }

  private def upTo(work: Work) = work.limit.fold(readLsn)(Lsn.min(_, readLsn))

  private def hasChanges(work: Work) = work.queue.exists(queue =>
    queue.oldest.nonEmpty && queue.position.exists(Lsn.isBelow(_, upTo(work)))
  )

  /** Tables that are not published any more end when their queues are empty. */
  private def drops(): Unit = works.foreach { case (oid, work) =>
    for (upTo <- work.leaving if work.phase == Phase.Idle && !Lsn.isBelow(readLsn, upTo)) {
      val table = current.tables(oid)
      val isEmpty = !work.queue.exists(_.position.nonEmpty)
      if (isEmpty || table.isFailed || table.needsCopy) {
        work.leaving = None
        drop(table)
      }
    }
  }

  private def writeIfDue(now: Long): Unit = {
    val isDue = now - lastWrite >= settings.writeMillis
    if (isDue) tell()
    if (writing == 0 && (isUrgent || (isDue && revision > written))) {
      isUrgent = false
      writing = revision
      commands += WriteState(current, revision)
    }
  }

  // Small steps.

  /** Ends what a table was doing. */
  private def end(oid: Long)(body: Work => Unit): Unit = works.get(oid).foreach { work =>
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

  private def dropQueue(oid: Long, work: Work): Unit = {
    work.wantsQueue = false
    work.queue.foreach { queue =>
      work.queue = None
      commands += DropQueue(oid, queue)
    }
  }

  private def change(oid: Long)(change: TableState => TableState): Unit =
    current.tables.get(oid).foreach { table =>
      val changed = change(table)
      if (changed != table) put(changed)
    }

  private def put(table: TableState): Unit = {
    current = current.put(table)
    revision += 1
  }

  /** What `status` shows of a table beside its state. */
  def shown(oid: Long): Shown = works.get(oid).fold(Shown.none)(work =>
    Shown(
      work.queue.fold(0L)(_.changes),
      work.queue.fold(0L)(_.bytes),
      work.queue.flatMap(_.oldest),
      work.waiting,
      Option.when(work.waiting.nonEmpty)(Instant.ofEpochMilli(work.notBefore))
    )
  )
}

object JobCore {

  /**
   * @param appliers how many tables are committed at the same time
   * @param copiers how many tables are copied at the same time
   * @param intervalMillis the least time between two commits of a table
   * @param maxHeldWal the bytes of WAL that a failed table holds back at most
   * @param stopsAtError whether the first failed table ends the job
   * @param copiesChanged whether a table is copied if its changes do not tell what happened to it
   * @param writeMillis the time between two writes of a state that only has new marks
   */
  final case class Settings(
      appliers: Int = 4,
      copiers: Int = 2,
      intervalMillis: Long = 0,
      maxHeldWal: Long = 10L << 30,
      stopsAtError: Boolean = false,
      copiesChanged: Boolean = true,
      writeMillis: Long = 10000
  )

  /** What the core asks of a queue. */
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
   * @param natural the name in the target by the options; None if it cannot have one
   * @param problem why the table cannot be in the target, with a way out; None if it can
   * @param fingerprint changes whenever the definition or the rights change
   */
  final case class Published(
      table: MirroredTable,
      natural: Option[String],
      problem: Option[String],
      fingerprint: String
  ) {
    def oid: Long = table.source.oid
  }

  /** An error of a table. */
  final case class Failure(kind: Failure.Kind, text: String)

  object Failure {
    sealed trait Kind

    /** The store, the catalog or the server is away, or somebody else committed: the table stays live. */
    case object Waits extends Kind

    /** It can pass without the user: the job tries again. */
    case object Passing extends Kind

    /** Only the user can mend it. */
    case object Lasting extends Kind

    /** The changes do not tell what happened to the table. A copy mends it. */
    case object Changed extends Kind
  }

  /** What is to be done. */
  sealed trait Command

  /** Writes the state, and reports [[JobCore.stateWritten]] or [[JobCore.stateFailed]]. */
  final case class WriteState(state: JobState, revision: Long) extends Command

  /** Tells the server that it may forget what is below an LSN. */
  final case class Confirm(lsn: Long) extends Command

  /** Begins a queue at the end of the transaction that is read, and reports [[JobCore.queueBegun]]. */
  final case class BeginQueue(oid: Long) extends Command
  final case class DropQueue(oid: Long, queue: ChangeQueue) extends Command

  /**
   * Takes a cut of the queue, plans it by the catalog, and commits it. The cut can be empty: then only the
   * definition is compared, because the catalog says that the table has changed.
   */
  final case class ApplyCut(oid: Long, upTo: Long) extends Command

  /** Changes the columns of the target to the next definition, and reports [[JobCore.defined]]. */
  final case class AlterColumns(oid: Long) extends Command

  /** Makes a snapshot of the table, and reports [[JobCore.snapshotMade]]. */
  final case class MakeSnapshot(oid: Long) extends Command

  /** Replaces the rows of the target by those of the snapshot, and reports [[JobCore.copied]]. */
  final case class CommitCopy(oid: Long) extends Command

  case object PauseReading extends Command
  case object ResumeReading extends Command

  /** A table has failed, and the option `onTableError` says that the job ends then. */
  final case class EndJob(oid: Long, reason: String) extends Command

  /** What `status` shows of a table beside its state. */
  final case class Shown(
      changes: Long,
      bytes: Long,
      oldest: Option[Long],
      waits: Option[String],
      nextTry: Option[Instant]
  )

  object Shown { val none: Shown = Shown(0, 0, None, None, None) }

  final private val FirstWait = 1000L
  final private val MostWait = 60000L
  final private val FirstRetry = 10000L
  final private val MostRetry = 600000L

  private val DiskFull = "The disk for queues was full."

  /** How often a table is copied for the same reason, without a cut or another definition in between. */
  final private val MostCopies = 3

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

  /** What the core knows of a table that is not kept. */
  final private class Work {
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

    def waits(text: String, now: Long, first: Long, most: Long): Unit = {
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
}
