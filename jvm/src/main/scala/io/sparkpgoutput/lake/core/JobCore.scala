package io.sparkpgoutput.lake.core

import java.time.Instant

import io.sparkpgoutput.lake.catalog.TableMode
import io.sparkpgoutput.lake.core.JobCommand._
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Dropped, Excluded, Failed, Live}
import io.sparkpgoutput.protocol.Lsn

/**
 * Decides what a job does next. This head argues why the job loses no change: '''queues and the confirmed LSN'''.
 *
 * {{{
 *   server                    driver                                                  target
 *   slot ──► walsender ──► SlotReader ──► TableQueue of orders ────► TableApplier ──► commit with a mark
 *                                   └───► TableQueue of customers ─► TableApplier ──► commit with a mark
 *   confirmed LSN ◄────── durable JobState ◄────── the least position of all tables that have a queue
 * }}}
 *
 * The ''read LSN'' is the LSN up to which the slot is read. The reader has put all changes of transactions with lower
 * commit LSNs into the queues of their tables. The ''position'' of a table is the commit LSN of the oldest
 * change in its queue, or the read LSN if the queue is empty. While a table is copied, its position is the LSN
 * at which its queue begins. The ''mark'' of a table is in the table of the target itself: the table has all
 * transactions with a lower commit LSN (see [[io.sparkpgoutput.lake.target.Target]]). A table is ''live'' if the job
 * applies its changes.
 *
 * '''When an LSN is confirmed.''' Each time the job writes its state, it computes the least position of all
 * tables that have a queue, or takes the read LSN if none has one. This LSN is a part of the state
 * ([[JobState.confirmed]]). The job writes the state at once if a step waits for it, such as a change of a table's
 * status. Otherwise, it writes a changed state ten seconds after the last write. It also writes the state at its end.
 * When the state is durable, and the session has received everything below the LSN,
 * [[io.sparkpgoutput.lake.queue.SlotReader]] confirms the LSN to the server, which may then remove the WAL below it.
 * [[JobMemory]] has this part of the core.
 *
 * '''Why no change is lost, and none is applied twice.''' If a table needs no copy, each of its changes that is read
 * and not committed is in its queue. So the change is not below the confirmed LSN. A crash loses the queues. The next
 * process begins at the LSN of the state. The server still has the WAL from there on, and sends all these changes
 * again. A change that is below the mark of its table is in the table already, and is left out. If a process ends
 * between a commit and the state that follows it, the mark of the table is greater than the state says. The next start
 * reads the mark, and goes on from there ([[JobStart]]).
 *
 * '''What a failed table holds back.''' A failed table that needs no copy keeps its queue. The server keeps the WAL
 * from the oldest change in it on, and the queue takes a part of the memory and the disk that all queues share
 * ([[io.sparkpgoutput.lake.queue.QueueSpace]]). The table continues without a copy when the cause of its error is gone.
 * Other tables go on. If a failed table holds back more WAL than `maxHeldWal`, or if the disk for queues is full, the
 * state says that the table needs a copy. When that is durable, the queue is dropped. The same limit applies to a live
 * table that waits while the job commits other tables. For example, the store refuses access to the folder of this
 * table. If all tables wait, for example for a store that is away, they hold back WAL without a limit.
 *
 * If a copy fails, the table loses its queue at once: the state has said since the beginning of the copy that the table
 * needs one. The exception is a requested copy of a live table. If its snapshot cannot be made, or if the commit of its
 * rows fails for a reason that passes, the table is live again, and keeps its queue. A table without a queue holds back
 * nothing. Unless it is dropped or excluded, the job copies it ([[io.sparkpgoutput.lake.job.TableCopier]]). After a
 * lasting error, the copy waits for another definition of the table, for a request, or for the next start.
 *
 * '''What a full disk stops.''' No copy begins, and reading pauses for all tables until there is room. The job drops
 * the largest queue of the first of these groups that has one: tables that have failed, or that wait while others are
 * committed; tables that are copied; and, if no queue has a whole transaction, so that no commit can make room, live
 * tables. If the disk cannot be written, reading pauses too, and the job drops a queue only after five seconds.
 *
 * '''Why a cut is right.''' A cut is the first part of a queue: whole transactions that one commit writes. It ends at
 * or below the read LSN. The cuts of a table are committed one after the other, and each commit succeeds only if the
 * table has the mark of the commit before it. [[io.sparkpgoutput.lake.fold.ChangeFold]] describes how a cut combines
 * its changes.
 *
 * The core has no threads, and does no input or output, so a test can run ten thousand histories of a job in seconds.
 * The methods report what happened, and take the current time in milliseconds since 1970. The caller synchronizes all
 * calls, runs the commands of [[take]] in any order and on any thread, and reports their results.
 *
 * @param start the state at the start. The reader gets all transactions from its confirmed LSN on.
 */
final class JobCore(settings: JobSettings, start: JobState) extends JobMemory(start) {

  /** Whether the queues have no room in memory and on the local disk, so that nothing can be read. */
  var isFull: Boolean = false
  private var isStopping = false

  /** The new names that tables are to get in the target, by the oids of the tables. */
  private var moves = Map.empty[Long, String]
  private var isLooked = false

  /** The published tables that the options exclude, as of the last look at the catalog. */
  private var excluded = Set.empty[Long]

  current.tables.values.foreach { table =>
    val work = new TableWork
    works(table.oid) = work
    work.failedSince = Some(table.status).collect { case Failed(_, since, _, _) => since }
    // The status changes at once, because an excluded table has no errors any more.
    if (settings.excludes(table.name)) {
      if (table.isFollowed) put(table.copy(status = Excluded))
    } else if (!table.needsCopy && table.isFollowed) {
      work.wantsQueue = true
      // Each start tries a table with a lasting error once.
      if (table.isFailed) put(table.copy(status = Live))
    } else if (table.isFailed) put(table.copy(status = Copying(table.status.why.get)))
  }

  /** The tables whose queues begin with the first session, at their marks. */
  def queuesAtStart: Seq[TableState] =
    current.tables.values.filter(table => works(table.oid).wantsQueue).toSeq.sortBy(_.oid)

  /** Returns the commands that are to be run, each once. */
  def take(now: Long): Seq[JobCommand] = {
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

  // What the appliers report.

  /**
   * A cut is committed, or the target has a newer mark of the same generation than the job knew: another
   * process of the job, which was slow to end, has committed a cut that is right.
   *
   * @param hasMore whether the cut was only a part of what was to be committed. The next part follows at once.
   */
  def applied(
      oid: Long,
      mark: Long,
      lastChange: Option[Instant],
      now: Long,
      hasMore: Boolean = false
  ): Unit =
    end(oid) { work =>
      // After a wait, a cut with the changes that came during the wait follows at once.
      val isFollowed = hasMore || work.waiting.nonEmpty
      work.succeeded(if (isFollowed) now - settings.intervalMillis else now)
      if (lastChange.nonEmpty) work.lastStored = now
      work.followed = work.triedWith
      if (!current.tables(oid).mark.contains(mark)) {
        work.copiedFor = None
        work.copiesInRow = 0
      }
      change(oid)(table =>
        table.copy(
          status = if (table.isFailed) Live else table.status,
          mark = Some(mark),
          lastChange = lastChange.orElse(table.lastChange),
          ahead = table.ahead.filter(Lsn.isBelow(mark, _))
        )
      )
    }

  /** The columns of the target must change first. The state gets the definition before the first ALTER. */
  def defines(oid: Long, next: NextDefinition): Unit = works.get(oid).foreach { work =>
    change(oid)(_.copy(next = Some(next)))
    work.phase = Phase.Defining(write())
  }

  // What the copies report.

  /** A snapshot is made. Returns whether it is still wanted. */
  def snapshotMade(oid: Long, made: MadeSnapshot): Boolean = works.get(oid).exists { work =>
    val kept = current.tables(oid)
    val isLosing = work.losing.nonEmpty
    val least = Lsn.max(work.queue.fold(readLsn)(_.from), kept.newestMark.getOrElse(0L))
    if (isLosing) end(oid)(copyAgain(oid, _, made.time))
    else if (Lsn.isBelow(made.lsn, least)) commands += MakeSnapshot(oid)
    else if (kept.copyReason.nonEmpty) end(oid)(_.snapshot = Some(made))
    else notes(oid, work, made, made.time)
    !isLosing
  }

  /** The state gets the snapshot before its rows are committed. */
  private def notes(oid: Long, work: TableWork, made: MadeSnapshot, now: Long): Unit = {
    val before = current.tables(oid)
    change(oid)(kept =>
      kept.keepingFormer.copy(
        table = made.table.copy(target = kept.target),
        status =
          Copying(kept.status.why.orElse(kept.copyReason).getOrElse(""), Some(made.lsn)),
        number = kept.number + 1,
        next = None,
        formerNames = Map.empty,
        // The target can have a greater generation: that of a table which the job has left and forgotten.
        generation =
          math.max(if (kept.needsCopy) kept.generation else nextGeneration, made.newest + 1)
      )
    )
    work.snapshot = None
    work.live = Option.when(before.copyReason.nonEmpty)(before)
    work.phase = Phase.NotingSnapshot(write(), now)
  }

  /** No other copy of the job has had this generation, not even one of a table that lost its name. */
  private def nextGeneration = current.tables.values.map(_.generation).max + 1

  /** The rows of the snapshot are committed. */
  def copied(oid: Long, now: Long): Unit = end(oid) { work =>
    if (work.losing.nonEmpty) copyAgain(oid, work, now)
    else {
      work.succeeded(now)
      work.lastStored = now
      work.followed = work.triedWith
      work.lost = 0
      if (!work.queue.exists(_.position.nonEmpty)) work.copiesInRow = 0
      work.snapshotFailure = None
      change(oid)(table =>
        table.status match {
          case Copying(_, lsn) =>
            table.copy(status = Live, mark = lsn, ahead = None, former = None)
          case _ => table
        }
      )
      write(): Unit
    }
  }

  // Errors.

  /** The work on a table has failed. */
  def failed(oid: Long, failure: TableFailure, now: Long): Unit = {
    val wasApplying = isApplying(oid)
    val wasMakingSnapshot = works.get(oid).exists(_.phase == Phase.Snapshot)
    end(oid) { work =>
      val table = current.tables(oid)
      dropSnapshot(oid, work)
      // The core forgets the end of a cut without changes, because all later changes can be above it.
      if (failure.kind != TableFailure.Waits || !hasChanges(work)) work.cutEnd = None
      if (work.losing.nonEmpty) {
        dropQueue(oid, work)
        copyAgain(oid, work, now)
      } else if (wasApplying && table.copyReason.nonEmpty && !work.triesAgain(failure)) {
        // Some tries have not applied the changes that should come before the requested copy, so the copy leaves them
        // out. With the status `Failed`, the table would need a copy too: see `JobState.put`.
        work.notBefore = now
        change(oid)(_.copying(table.copyReason.get))
        write(): Unit
      } else if (
        wasMakingSnapshot && table.copyReason.nonEmpty || failure.passes && work.live.nonEmpty
      ) {
        // The table is live, and goes on with its changes until the next try.
        work.snapshotFails(failure.text, now)
        work.live.filter(_ => table.needsCopy).foreach(put)
        write(): Unit
      } else failed(oid, work, failure, now)
    }
  }

  private def failed(oid: Long, work: TableWork, failure: TableFailure, now: Long): Unit = {
    val table = current.tables(oid)
    val wasCopying = table.needsCopy
    val text = failure.text
    def reason =
      if (failure.kind == TableFailure.NeedsCopy)
        s"$text Run spark-pgoutput resync --table '${table.name.unambiguous}' with the --checkpoint of the job."
      else text
    val passesBeforeCopy = failure.kind == TableFailure.Retried && table.copyReason.nonEmpty
    failure.kind match {
      // A live table with a requested copy tries its changes again. If it became `Failed`, the copy would leave them
      // out.
      case kind if kind == TableFailure.Waits || passesBeforeCopy =>
        waitsAgain(work)
        if (passesBeforeCopy) work.retries(text, now) else work.waits(text, now)
        // Nothing is known of what has changed, so the next try counts as the first.
        work.triedWith = None
        // Its queue is dropped below. So it needs another copy, even if this one was committed in spite of the error.
        if (wasCopying) change(oid)(kept => kept.copy(status = Copying(kept.status.why.get)))
      case TableFailure.NeedsCopy if settings.copiesByItself && work.mayCopyAgain(text) =>
        work.newSince = now
        change(oid)(_.copy(status = Copying(text)))
        work.notBefore = now + work.pauseBeforeCopy
      case kind =>
        val isLasting = kind != TableFailure.Retried
        if (!isLasting) work.retries(text, now) else work.waiting = None
        val needsCopy = wasCopying || (kind == TableFailure.NeedsCopy && settings.copiesByItself)
        stays(oid, work.failed(reason, now, needsCopy, isLasting))
    }
    // Since the copy began, the state has said that the table needs a copy.
    if (wasCopying) dropQueue(oid, work)
  }

  // What the server's catalog says.

  /**
   * Takes all published tables, as a look at the catalog has found them. The look sees everything below an LSN.
   *
   * @param upTo the end of the WAL at that look: no table that has left the publication has changes above it
   */
  def published(entries: Seq[CatalogEntry], upTo: Long, now: Long): Unit = {
    val (others, wanted) = entries.partition(entry => settings.excludes(entry.table.source.name))
    excluded = others.map(_.oid).toSet
    val oids = wanted.map(_.oid).toSet
    endAtLook = upTo
    tables.foreach { case (table, work) =>
      if (oids(table.oid)) work.leaving = None
      else if (!table.isFollowed) change(table.oid)(_.copy(status = notFollowedStatus(table.oid)))
      else if (work.leaving.isEmpty) work.leaving = Some(upTo)
    }
    drops()
    // A later look reads what is locked now.
    wanted.filterNot(_.isLocked).foreach(published(_, now))
    moves = TargetOwners.moves(wanted.filter(entry => current.tables.contains(entry.oid)), current)
    isLooked = !wanted.exists(entry =>
      entry.isLocked && current.tables.get(entry.oid).forall(!_.isFollowed)
    )
  }

  /** Returns whether the job knows a table, also one that it does not follow. */
  def knows(oid: Long): Boolean = excluded(oid) || current.tables.contains(oid)

  private def notFollowedStatus(oid: Long): TableStatus = if (excluded(oid)) Excluded else Dropped

  private def published(entry: CatalogEntry, now: Long): Unit = {
    val work = works.getOrElseUpdate(entry.oid, new TableWork)
    if (!work.fingerprint.contains(entry.fingerprint)) work.newSince = now
    work.fingerprint = Some(entry.fingerprint)
    work.problem = entry.problem
    work.mode = Some(entry.mode)
    def markForCopy(reason: String): Unit = change(entry.oid)(kept =>
      kept.keepingFormer
        .copy(table = entry.table.copy(target = kept.target), status = Copying(reason))
    )
    current.tables.get(entry.oid) match {
      case None =>
        put(TableState(entry.table, status = Copying("It was added to the publication.")))
        entry.problem.foreach(refuse(entry.oid, _, now))
      case Some(table) if !table.isFollowed =>
        val reason =
          if (table.status == Excluded) "It is not excluded any more."
          else "It is published again."
        // A table with a problem keeps the definition that the state has. Perhaps only this one says which columns are
        // hidden.
        entry.problem.fold(markForCopy(reason))(refuse(entry.oid, _, now))
      case Some(table) if work.phase == Phase.Idle && table.wantsCopy =>
        // Between two looks that find a problem, a hidden column can get another name. Both names stay hidden.
        if (table.generation == 0) change(entry.oid)(_.hidingAlso(entry.table.source))
        (table.status, entry.problem) match {
          case (Failed(reason, _, _, _), Some(problem)) if reason == problem => ()
          // A live table waits for what its copy needs, and goes on with its changes.
          case (_, Some(problem)) if table.needsCopy => refuse(entry.oid, problem, now)
          case (Failed(reason, _, _, true), None) if work.isRefused || work.hasNewFingerprint =>
            work.isRefused = false
            markForCopy(reason)
          // An earlier process has refused the table, so the target has nothing of its definition.
          case (Copying(_, _), None) if table.generation == 0 =>
            change(entry.oid)(_.copy(table = entry.table.copy(target = table.target)))
          case _ => ()
        }
      case Some(table) if table.isFailed && work.hasNewFingerprint => work.notBefore = now
      case Some(table) if !table.needsCopy && work.followed.contains(entry.fingerprint) =>
        // The definition is the same, so only later transactions can have removed rows without a message.
        change(entry.oid)(_.seenAt(entry.table.source.horizon))
      case _ => ()
    }
  }

  /** A table cannot be in the target as it is. It is copied when the reason is gone. */
  private def refuse(oid: Long, problem: String, now: Long): Unit = {
    val work = works(oid)
    work.isRefused = true
    work.waiting = None
    stays(oid, work.failed(problem, now, needsCopy = true))
  }

  /** A table has failed, and stays as it is. The options say whether the job ends. */
  private def stays(oid: Long, status: Failed): Unit = {
    change(oid)(_.copy(status = status))
    if (settings.stopsAtError) {
      isStopping = true
      commands += EndJob(oid, status.reason)
    }
    write(): Unit
  }

  /**
   * Gives tables their new names in the target, in one change of the state, when no commit of the old and the new
   * owners runs. A table can lose its name and get no other one, because it is not published any more, or because it
   * cannot be in the target as it is. It then has the empty name until it can be there. If it is not published, the job
   * forgets it, unless it has hidden columns.
   */
  private def move(now: Long): Unit = if (moves.nonEmpty && involved.forall(canMove)) {
    val newest = current.tables.values.map(_.generation).max
    (involved -- moves.keySet).foreach { oid =>
      val table = current.tables(oid)
      put(table.copy(table = table.table.copy(target = "")))
      if (table.isForgettable) {
        current = current.copy(tables = current.tables - oid)
        works -= oid
      } else if (table.isFollowed) {
        val problem = works(oid).problem.getOrElse("Another table has its name in the target now.")
        refuse(oid, problem, now)
        works(oid).phase = Phase.GivingUpQueue(write())
      }
    }
    moves.foreach { case (oid, name) =>
      val reason = s"The name '$name' in the target belongs to the table now."
      change(oid)(table =>
        table.keepingFormer.copy(
          // The name decides which mode the options give the table.
          table =
            table.table.copy(target = name, mode = works(oid).mode.getOrElse(table.table.mode)),
          status = Copying(reason),
          generation = newest
        )
      )
    }
    moves = Map.empty
    write(): Unit
  }

  // A table that is not published any more keeps its name until its last changes are applied.
  private def canMove(oid: Long) = works(oid).phase == Phase.Idle && works(oid).leaving.isEmpty

  /** The tables that get or lose a name in the target. */
  private def involved =
    if (moves.isEmpty) Set.empty[Long] else TargetOwners.involved(moves, current, works(_).mode)

  // Requests.

  /**
   * A user asks for a copy. A copy that runs counts if its snapshot is not made yet. If the snapshot is made,
   * the caller asks again when [[isCommittingCopy]] is false.
   *
   * @return the revision of the state that has the request; None if there is no such table
   */
  def resync(oid: Long, reason: String, now: Long): Option[Long] =
    current.tables.get(oid).filter(_.isFollowed).map { table =>
      val work = works(oid)
      val hasBegun = table.isCopying && work.phase != Phase.Idle
      if (!hasBegun) {
        work.waiting = None
        work.snapshotFailure = None
        work.notBefore = now
        work.failures = 0
        // The state has the request at once, also if a commit still runs.
        if (table.status == Live && table.table.mode != TableMode.Mirror)
          change(oid)(_.copy(copyReason = Some(reason)))
        else {
          change(oid)(_.copy(status = Copying(reason)))
          if (work.phase != Phase.Idle) work.copyNext = Some(reason)
        }
      }
      write()
    }

  /** Returns whether each table has all transactions below an LSN, or will not get them. */
  def isDone(lsn: Long): Boolean = isLooked && !Lsn.isBelow(readLsn, lsn) && moves.isEmpty &&
    current.tables.values.forall(table =>
      table.status match {
        // A commit may still run: while clients write, a commit of some table runs all the time.
        case Live | Failed(_, _, false, false) =>
          hasAll(table.oid, lsn) && (table.copyReason.isEmpty || works(table.oid).problem.nonEmpty)
        case Copying(_, _)              => false
        case Failed(_, _, _, isLasting) => isLasting && works(table.oid).phase == Phase.Idle
        case Dropped | Excluded         => works(table.oid).phase == Phase.Idle
      }
    )

  /** Lets no new work begin. */
  def stop(): Unit = isStopping = true

  // Plans.

  private def plan(now: Long): Unit = {
    limits()
    drops()
    move(now)
    // A table whose name in the target changes begins nothing until then.
    val (leaving, blocked) = involved.partition(works(_).leaving.nonEmpty)
    if (leaving.nonEmpty) giveUpWaiting(blocked.filter(moves.contains))
    commitSnapshots(now)
    copies(now, blocked)
    cuts(now, blocked)
    writeIfDue(now)
  }

  /**
   * Limits the WAL of tables that do not advance while others do. If the disk is full, reading pauses until there is
   * room. Tables that apply what they have make room, and so does the table that loses its queue (see the head).
   */
  private def limits(): Unit = {
    tables.foreach { case (table, work) =>
      def held = readLsn - work.queue.flatMap(_.position).getOrElse(readLsn)
      if (isStuck(table, work) && held > settings.maxHeldWal)
        giveUpQueue(table, work, "It held back more WAL than maxHeldWal allows.")
    }
    if (isFull && !isGivingUpQueue) giveUpOne()
  }

  /**
   * Commits the snapshots of tables that have all changes before them. None locks its table for long without a commit.
   */
  private def commitSnapshots(now: Long): Unit = tables.foreach { case (table, work) =>
    def isLate(since: Long) = now - since > TableWork.MostSnapshot
    def waitsTooLong = work.snapshot.exists(made => isLate(made.time)) && lacksChanges(work)
    work.phase match {
      case Phase.NotingSnapshot(_, since) if isLate(since) =>
        commands += DropSnapshot(table.oid)
        failed(table.oid, TableFailure(TableFailure.Waits, JobMemory.StateLate), now)
      case _ => ()
    }
    if (table.copyReason.isEmpty) dropSnapshot(table.oid, work)
    else if (waitsTooLong) {
      dropSnapshot(table.oid, work)
      work.snapshotFails(JobMemory.SnapshotLate, now)
    } else if (work.phase == Phase.Idle && table.next.isEmpty && !lacksChanges(work))
      work.snapshot.foreach(notes(table.oid, work, _, now))
  }

  private def copies(now: Long, blocked: Set[Long]): Unit = {
    def isDue(table: TableState, work: TableWork) = {
      // The catalog shows the table as it is now, and that nothing is missing for a copy.
      val isReady = work.fingerprint.nonEmpty && work.problem.isEmpty
      isReady && work.phase == Phase.Idle && work.isDue(now) && (table.status match {
        case Copying(_, _)               => true
        case Failed(_, _, true, lasting) => !lasting
        case Live                        => mayMakeSnapshot(table, work, now)
        case _                           => false
      }) && !blocked(table.oid)
    }
    val places = if (isFull) 0 else settings.copiers - works.values.count(_.holdsCopier)
    // A table whose copy has failed comes after those that were due before its next try.
    first(places, isDue)((table, work) => (work.notBefore, table.oid)).foreach {
      case (table, work) =>
        work.triedWith = work.fingerprint
        if (table.needsCopy) {
          val copying = Copying(table.status.why.getOrElse(""))
          change(table.oid)(
            _.keepingFormer.copy(status = copying, generation = nextGeneration, next = None)
          )
          work.phase = Phase.Beginning(write())
        } else {
          work.phase = Phase.Snapshot
          commands += MakeSnapshot(table.oid)
        }
    }
  }

  /**
   * A table that [[leavesPlace]] has its memory now. Returns whether it has a place again. It gets a place before
   * tables whose commits have not begun.
   */
  def takesPlace(oid: Long): Boolean = works.get(oid).forall { work =>
    work.place = CommitPlace.Wanted
    if (committed(_ == CommitPlace.Held) < settings.appliers) work.place = CommitPlace.Held
    work.place == CommitPlace.Held
  }

  private def committed(isOne: CommitPlace => Boolean) =
    works.values.count(work => work.isCommitted && isOne(work.place))

  private def cuts(now: Long, blocked: Set[Long]): Unit = {
    def isDue(table: TableState, work: TableWork) =
      work.phase == Phase.Idle && work.isDue(now) && (table.status match {
        case Live =>
          (isFull || work.snapshot.nonEmpty || catchesUp(table, work, now) ||
            now - work.lastCommit >= settings.intervalMillis) &&
          (hasChanges(work) || table.next.nonEmpty || work.hasNewFingerprint)
        // After a lasting error, the job tries again when the definition or the rights have changed.
        case Failed(_, _, false, isLasting) => !isLasting || work.hasNewFingerprint
        case _                              => false
      }) && !blocked(table.oid)
    val places =
      if (committed(_ == CommitPlace.Lent) >= settings.mostWaiting) 0
      else settings.appliers - committed(_ != CommitPlace.Lent)
    first(places, isDue)(dueSince).foreach { case (table, work) =>
      work.triedWith = work.fingerprint
      work.phase = Phase.Applying
      val end = upTo(work)
      work.cutEnd = Some(end)
      // A change of columns that has begun is finished first, also if the last process began it.
      commands += (if (table.next.nonEmpty) AlterColumns(table.oid) else ApplyCut(table.oid, end))
    }
  }

  /**
   * Drops tables that are not published any more. The changes up to the end of the WAL at the look are applied first,
   * if this is possible and the table is not excluded.
   */
  private def drops(): Unit = for {
    (table, work) <- tables
    upTo <- work.leaving if work.phase == Phase.Idle
  } {
    val endsAtOnce = table.needsCopy || table.isFailed || excluded(table.oid)
    def hasEnded = !Lsn.isBelow(readLsn, upTo) && !work.queue.exists(_.position.nonEmpty)
    if (endsAtOnce || hasEnded) {
      work.leaving = None
      change(table.oid)(_.copy(status = notFollowedStatus(table.oid)))
      work.waiting = None
      work.failedSince = None
      work.phase = Phase.Dropping(write())
    }
  }
}
