package io.sparkpgoutput.lake.core

import scala.collection.mutable

/** The queue of a table in the memory of a process. */
final class SimQueue(val from: Long) extends ChangeQueue {
  var entries = Vector.empty[(SimTransaction, SimChange)]

  /** The transaction that is being read. */
  var open: Option[SimTransaction] = None

  override def position: Option[Long] = entries.headOption.map(_._1.commit)
  override def oldest: Option[Long] =
    entries.headOption.map(
      _._1
    ).filter(transaction => !open.exists(_ eq transaction)).map(_.commit)
  override def changes: Long = entries.size.toLong
  override def bytes: Long = entries.size.toLong
}

/**
 * A process of the job. It runs the commands of its core in steps; between them, anything else can
 * happen.
 */
final class SimulatedProcess(
    world: JobSimulation,
    val epoch: Int,
    start: JobState,
    settings: JobSettings
) {
  import world.{fails, lake, mutation, random, say, server}

  val core = new JobCore(settings, start)
  val timeline: Int = server.timeline

  /** Whether it has found out that another process has the slot. */
  var isOver = false
  private var next = {
    val index = server.wal.indexWhere(_.commit >= math.max(start.confirmed, server.confirmed))
    if (index < 0) server.wal.size else index
  }
  private var open: Option[(SimTransaction, Int)] = None
  private val queues = mutable.LongMap.empty[SimQueue]
  private val tasks = mutable.ArrayBuffer.empty[(String, () => Unit)]
  private val snapshots = mutable.LongMap.empty[(Long, SimTable)]

  /** The tables whose copy comes after all changes before it. */
  private val caughtUp = mutable.Set.empty[Long]
  private var isLooking = false

  core.queuesAtStart.foreach { table =>
    queues(table.oid) = new SimQueue(start.confirmed)
    core.queueBegun(table.oid, queues(table.oid))
  }

  private def now = world.now
  private def table(oid: Long) = core.state.tables.get(oid)
  private def later(what: => String)(step: => Unit): Unit =
    tasks += ((if (world.isTraced) what else "", () => step))

  def hasTasks: Boolean = tasks.nonEmpty

  /** Runs one of the steps that are due. */
  def step(): Unit = if (tasks.nonEmpty) {
    val (what, step) = tasks.remove(random.nextInt(tasks.size))
    say(s"$epoch: $what")
    step()
  }

  def take(): Unit = core.take(now).foreach { command =>
    say(s"$epoch> ${text(command)}")
    run(command)
  }

  private def text(command: JobCommand) = command match {
    case JobCommand.WriteState(state, revision) =>
      s"WriteState $revision ${JobSimulation.text(state)}"
    case other => other.toString
  }

  private def failed(oid: Long, kind: TableFailure.Kind, text: String): Unit = {
    say(s"$epoch: $oid fails, $kind: $text")
    core.failed(oid, TableFailure(kind, text), now)
  }

  private def passing: TableFailure.Kind =
    if (random.nextInt(3) == 0) TableFailure.Retried else TableFailure.Waits

  private def run(command: JobCommand): Unit = command match {
    case JobCommand.WriteState(state, revision) => write(state, revision)
    case JobCommand.Confirm(lsn)                => later(s"confirm $lsn")(confirm(lsn))
    case JobCommand.BeginQueue(oid, _) => later(s"begin the queue of $oid") {
        val queue = new SimQueue(open.fold(core.readUpTo)(_._1.end))
        queues(oid) = queue
        caughtUp -= oid
        core.queueBegun(oid, queue)
      }
    case JobCommand.DropQueue(oid, queue) =>
      if (queues.get(oid).exists(_ eq queue)) queues -= oid
    case JobCommand.ApplyCut(oid, upTo) => later(s"cut $oid up to $upTo")(cut(oid, upTo))
    case JobCommand.AlterColumns(oid)   => later(s"alter the columns of $oid")(alter(oid))
    case JobCommand.MakeSnapshot(oid) =>
      if (table(oid).exists(_.status == TableStatus.Live)) caughtUp += oid
      later(s"snapshot of $oid")(snapshot(oid))
    case JobCommand.DropSnapshot(oid) => snapshots -= oid
    case JobCommand.CommitCopy(oid)   => later(s"commit the copy of $oid")(copy(oid))
    case JobCommand.EndJob(_, _)      => ()
  }

  private def write(asked: JobState, revision: Long): Unit = {
    val state = mutation match {
      case Mutation.ConfirmAbovePosition => asked.copy(confirmed = core.readUpTo)
      case Mutation.QueueDroppedTooEarly =>
        asked.copy(tables = asked.tables.map {
          case (oid, kept) if kept.isFailed && kept.needsCopy && kept.mark.nonEmpty =>
            oid -> kept.copy(status = TableStatus.Live)
          case same => same
        })
      case Mutation.ExcludedStaysLive =>
        asked.copy(tables = asked.tables.map {
          case (oid, kept) if kept.status == TableStatus.Excluded && kept.mark.nonEmpty =>
            oid -> kept.copy(status = TableStatus.Live)
          case same => same
        })
      case _ => asked
    }
    if (mutation == Mutation.ConfirmBeforeWrite) confirm(state.confirmed)
    later(s"write the state $revision") {
      val isLost = fails()
      if (!isLost || random.nextBoolean()) world.write(epoch, state)
      if (isLost) core.stateFailed(now) else core.stateWritten(state, revision, now)
    }
  }

  /** Ends the process in order: its work is interrupted, and then it writes its last state. */
  def stop(): Unit = if (!isOver) {
    core.stop()
    core.finish()
    say(s"$epoch: ends with ${JobSimulation.text(core.state)}")
    world.write(epoch, core.state)
    confirm(core.state.confirmed)
  }

  private def confirm(lsn: Long): Unit =
    if (server.reader.contains(this) && lsn > server.confirmed) {
      server.confirmed = lsn
      world.checkRecovery()
    }

  /** Reads one change, the end of a transaction, or a keepalive. */
  def read(): Unit =
    if (!server.reader.contains(this)) {
      say(s"$epoch: the session was ended")
      isOver = true
    } else if (!core.isFull) open match {
      case Some((transaction, index)) if index < transaction.changes.size =>
        val change = transaction.changes(index)
        queues.get(change.oid).filter(_.from <= transaction.commit).foreach { queue =>
          queue.entries :+= (transaction -> change)
          queue.open = Some(transaction)
        }
        open = Some((transaction, index + 1))
      case Some((transaction, _)) =>
        queues.values.foreach(_.open = None)
        open = None
        core.read(transaction.end)
        say(s"$epoch: has read ${transaction.commit}/${transaction.end}")
      case None if next < server.wal.size =>
        open = Some((server.wal(next), 0))
        next += 1
      case None => core.read(server.end)
    }

  /** The connection breaks, and the session begins again where the last whole transaction has ended. */
  def reconnect(): Unit = if (open.nonEmpty) {
    open = None
    next -= 1
    queues.values.foreach { queue =>
      queue.open.foreach(cut => queue.entries = queue.entries.filterNot(_._1 eq cut))
      queue.open = None
    }
  }

  /** Looks at the catalog. */
  def look(): Unit = if (!isLooking) {
    isLooking = true
    val found =
      server.visible.fold(Map.empty[Long, SimTable])(_.tables).values.filter(_.isPublished)
        .toSeq.sortBy(_.oid).map(_.published)
    val end = server.end
    later(s"look finds ${found.map(one => s"${one.oid}=${one.fingerprint}").mkString(", ")}")(
      looked(found, end)
    )
  }

  private def looked(found: Seq[CatalogEntry], end: Long): Unit = {
    isLooking = false
    core.published(found, end, now)
  }

  // A cut.

  private def cut(oid: Long, upTo: Long): Unit = table(oid).foreach { kept =>
    val targets = kept.parts.map(part => lake.tables.get(part.target))
    def newest = targets.map(_.map(_.marks.maxBy(_._1._2)).collect { case ((`oid`, _), mark) =>
      mark
    })
    val marks = targets.flatten.flatMap(_.marks.get((oid, kept.generation)))
    if (targets.flatten.exists(lake.isClosed(_, oid, kept.generation))) {
      if (kept.copyReason.nonEmpty && newest.forall(_.exists(_ >= kept.mark.get))) {
        say(s"$epoch: the requested copy of $oid was given up")
        core.closed(oid, lake.close(kept))
        applied(oid, newest.flatten.min)
      } else failed(oid, TableFailure.NeedsCopy, "Another process has copied the table.")
    } else if (marks.length < targets.length || marks.min < kept.mark.get)
      failed(oid, TableFailure.NeedsCopy, "The mark is lost.")
    else if (marks.min > kept.mark.get && mutation != Mutation.ForgottenMark)
      applied(oid, marks.min)
    else {
      val limit = if (mutation == Mutation.CutAboveReadLsn) Long.MaxValue else upTo
      val changes = queues(oid).entries.filter { case (transaction, _) =>
        transaction.commit < limit && transaction.commit >= kept.mark.get
      }
      val expected =
        if (mutation == Mutation.ForgottenMark) marks.map(_ => kept.mark.get) else marks
      later(s"plan the cut of $oid")(planned(kept, kept.parts.zip(expected), changes))
    }
  }

  /** @param parts the tables of the target, with the marks that they have */
  private def planned(
      kept: TableState,
      parts: Seq[(TableState, Long)],
      changes: Vector[(SimTransaction, SimChange)]
  ): Unit = {
    val visible = server.visible
    val isNew = changes.lastOption.forall(last => visible.exists(_.commit >= last._1.commit))
    val found = visible.flatMap(_.tables.get(kept.oid)).filter(_.isPublished)
    val known = kept.table.source.columns.map(_.name)
    if (fails()) failed(kept.oid, passing, "The catalog is away.")
    else if (!isNew && mutation != Mutation.CatalogBehind)
      failed(kept.oid, TableFailure.Waits, "The catalog is behind.")
    else found match {
      case Some(table) if table.isBroken =>
        failed(kept.oid, TableFailure.Lasting, "The definition cannot be followed.")
      case Some(table) if kept.table.source.memberships != Seq(table.membership.toLong) =>
        failed(kept.oid, TableFailure.NeedsCopy, "It was published again.")
      case Some(table) if !table.columns.forall(known.contains) =>
        val next = table.definition.copy(target = kept.target)
        core.defines(kept.oid, NextDefinition(next, Map.empty))
      case _ =>
        for (table <- found if table.columns != known)
          core.redefined(kept.oid, table.definition.copy(target = kept.target), Map.empty)
        if (changes.isEmpty) applied(kept.oid, kept.mark.get)
        else if (found.isEmpty && changes.exists(_._2.row.exists(!_.keys.forall(known.contains))))
          failed(
            kept.oid,
            TableFailure.NeedsCopy,
            "It is not published any more, and had other columns."
          )
        else if (changes.exists(_._2.row.exists(SimTable.isBad)))
          failed(kept.oid, TableFailure.Lasting, "A value cannot be read.")
        else
          later(s"commit the cut of ${kept.oid}")(commit(kept, parts, changes, found))
    }
  }

  /** Commits to the first one of the tables, and then to the others. */
  private def commit(
      whole: TableState,
      parts: Seq[(TableState, Long)],
      cut: Vector[(SimTransaction, SimChange)],
      found: Option[SimTable]
  ): Unit = {
    val (kept, expected) = parts.head
    val isLost = fails()
    val changes =
      if (mutation == Mutation.CutWrittenTwice) cut
      else cut.filter { case (transaction, _) => transaction.commit >= expected }
    def next(): Unit =
      if (parts.length == 1) applied(whole.oid, cut.last._1.end)
      else later(s"commit the cut of ${whole.oid} again")(commit(whole, parts.tail, cut, found))
    val columns = found.fold(kept.table.source.columns.map(_.name))(_.columns)
    val mark = cut.last._1.end
    def rows(before: Map[Int, Map[String, Int]]) = changes.map(_._2).foldLeft(before) {
      case (_, change) if change.isTruncate => Map.empty
      case (rows, SimChange(_, key, row, _)) =>
        row.fold(rows - key)(row =>
          rows + (key -> row.filter { case (column, _) => columns.contains(column) })
        )
    }
    if (changes.isEmpty) next()
    else if (isLost && random.nextBoolean()) failed(kept.oid, passing, "The store is away.")
    else if (lake.tables.get(kept.target).exists(target => !columns.forall(target.columns)))
      failed(kept.oid, TableFailure.NeedsCopy, "The target lacks a column.")
    else if (
      !lake.commit(kept.target, kept.oid, kept.generation, expected, mark)(target =>
        target.copy(
          rows = rows(target.rows),
          log = target.log ++ changes.map { case (transaction, change) =>
            transaction.commit -> change
          }
        )
      )
    ) failed(kept.oid, TableFailure.Waits, "Somebody else has committed.")
    else {
      say(s"$epoch: $isLost commit of ${kept.oid} in ${kept.target} at $mark")
      // A table that was dropped can have had changes while it was not published.
      if (timeline == server.timeline && found.nonEmpty)
        world.checkRows(kept.target, kept.oid, mark)
      if (isLost) failed(kept.oid, passing, "The answer of the commit is lost.")
      else next()
    }
  }

  private def applied(oid: Long, mark: Long): Unit = {
    queues.get(oid).foreach(queue => queue.entries = queue.entries.filter(_._1.commit >= mark))
    core.applied(oid, mark, None, now)
  }

  private def alter(oid: Long): Unit = table(oid).foreach { kept =>
    val targets = kept.parts.flatMap(part => lake.tables.get(part.target).map(part.target -> _))
    val columns = kept.next.get.table.source.columns.map(_.name)
    def add(name: String, target: SimTarget, columns: Seq[String]): Unit =
      lake.tables += name -> target.copy(columns = target.columns ++ columns)
    if (
      targets.isEmpty || targets.exists { case (_, target) =>
        lake.isClosed(target, oid, kept.generation)
      }
    ) failed(oid, TableFailure.NeedsCopy, "Another process has copied the table.")
    else {
      val (name, first) = targets.head
      add(name, first, if (random.nextBoolean()) columns else columns.take(1))
      if (fails()) failed(oid, passing, "The store is away.")
      else {
        targets.foreach { case (name, target) => add(name, target, columns) }
        core.defined(oid, now)
      }
    }
  }

  // A copy.

  private def snapshot(oid: Long): Unit = {
    val isBehind = random.nextInt(8) == 0
    val lsn =
      if (isBehind && server.wal.size > 1) server.wal(server.wal.size - 2).end else server.end
    val least = math.max(
      queues.get(oid).fold(0L)(_.from),
      table(oid).flatMap(_.newestMark).getOrElse(0L)
    )
    val shown = if (mutation == Mutation.OldCopy) math.max(lsn, least) else lsn
    if (timeline != server.timeline || fails()) failed(oid, passing, "The server is away.")
    else server.asOf(lsn).get(oid) match {
      case Some(found) if found.isPublished && found.isAllowed =>
        def known = table(oid).filter(_.copyReason.nonEmpty).map(_.table.source.columns.map(_.name))
        if (found.hasBadValue) failed(oid, TableFailure.Lasting, "A value cannot be read.")
        else if (known.exists(known => !found.columns.forall(known.contains)))
          failed(oid, TableFailure.Waits, "The target has to follow the columns first.")
        else later(s"snapshot of $oid is made at $lsn") {
          snapshots(oid) = shown -> found
          core.snapshotMade(oid, MadeSnapshot(shown, found.definition, newest = 0, now)): Unit
        }
      case _ => failed(oid, TableFailure.Retried, "The table cannot be read.")
    }
  }

  private def copy(oid: Long): Unit =
    for (kept <- table(oid); (lsn, found) <- snapshots.remove(oid)) {
      if (caughtUp(oid) && timeline == server.timeline)
        world.checkCaughtUp(kept, lsn)
      copy(kept.parts, lsn, found)
    }

  private def copy(parts: Seq[TableState], lsn: Long, found: SimTable): Unit = {
    val kept = parts.head
    val oid = kept.oid
    val isLost = fails()
    if (isLost && random.nextBoolean()) failed(oid, passing, "The store is away.")
    else if (!lake.replace(kept.target, oid, kept.generation, lsn, found.columns.toSet, found.rows))
      failed(oid, TableFailure.Waits, "Somebody else has committed.")
    else {
      say(s"$epoch: $isLost copy of $oid in ${kept.target} at $lsn")
      if (timeline == server.timeline) world.checkRows(kept.target, oid, lsn)
      if (isLost) failed(oid, passing, "The answer of the commit is lost.")
      else if (parts.length > 1)
        later(s"commit the copy of $oid again")(copy(parts.tail, lsn, found))
      else core.copied(oid, now)
    }
  }
}
