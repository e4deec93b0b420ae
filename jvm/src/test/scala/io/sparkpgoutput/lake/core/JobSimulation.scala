package io.sparkpgoutput.lake.core

import scala.collection.mutable

import io.sparkpgoutput.errors.{Errors, PgOutputException}
import io.sparkpgoutput.lake.catalog.TableMode
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Excluded, Failed, Live}

/** A history of the simulation did not end as it must. */
final class SimulationFailure(text: String) extends RuntimeException(text)

/**
 * One history of a job, against a simulated server, checkpoint folder and target in memory. A seed decides
 * who goes next, which call fails, which answer is lost, and when a process is stopped, killed or suspended. At the
 * end all causes are corrected, and the tables of the target must become equal to those of the server.
 */
final class JobSimulation(seed: Long, val mutation: Mutation, val isTraced: Boolean = false) {
  val random = new scala.util.Random(seed * 0x9e3779b97f4a7c15L)

  /** In some histories, each table has a mirror and a history. */
  val server = new SimulatedServer(
    random,
    if (seed % 3 == 0) TableMode.Both(TableMode.Mirror, TableMode.History("_"))
    else TableMode.Mirror
  )
  val lake = new SimulatedLake(mutation)
  var now = 0L
  private val epochs = mutable.TreeMap.empty[Int, JobState]
  private var live: Option[SimulatedProcess] = None

  /** Processes that were suspended, or that do not know yet that another one has the slot. */
  private val old = mutable.ArrayBuffer.empty[SimulatedProcess]

  /** The steps of a start. */
  private val starting = mutable.Queue.empty[() => Unit]
  private var isFailing = true

  /** The names of the tables that the last started process excludes. */
  private var excluded = Set.empty[String]
  private val excludes = random.nextInt(3) == 0
  private var isSlotMoved = false

  /** The condition of the error that has rightly ended the job. */
  var end: Option[String] = None
  private val trace = mutable.ArrayBuffer.empty[String]

  private val settings = JobSettings(
    appliers = 1 + random.nextInt(3),
    copiers = 1 + random.nextInt(2),
    maxHeldWal = if (random.nextBoolean()) 40 else 1 << 30
  )

  def say(text: => String): Unit = if (isTraced) trace += text

  /** Notes what has happened at the server. */
  private def happens(text: String): Unit = say(text)
  def fails(): Boolean = isFailing && random.nextInt(12) == 0
  def fail(text: String): Nothing = throw new SimulationFailure(text)

  def write(epoch: Int, state: JobState): Unit = epochs(epoch) = state

  /** Runs the history. Returns what is wrong at its end. */
  def run(): Option[String] =
    try {
      history()
      if (end.isEmpty) settle()
      None
    } catch {
      case failure: SimulationFailure => Some(failure.getMessage)
      case error: RuntimeException if !error.isInstanceOf[PgOutputException] =>
        Some(s"$error ${error.getStackTrace.take(6).mkString("\n")}")
    }

  def steps: Seq[String] = trace.toSeq

  private def history(): Unit = {
    for (_ <- 0 to random.nextInt(4)) happens(server.create())
    server.confirmed = server.end
    val failsOver = random.nextInt(4) == 0
    val movesSlot = random.nextInt(4) == 0
    val renames = random.nextInt(3) == 0
    var left = 200 + random.nextInt(600)
    while (left > 0 && end.isEmpty) {
      left -= 1
      if (starting.nonEmpty || live.isEmpty) if (random.nextInt(8) == 0) start()
      random.nextInt(200) match {
        case n if n < 14 => happens(server.write())
        case n if n < (if (renames) 20 else 18) =>
          happens(server.alter(onlyName = renames && random.nextInt(3) > 0))
        case 18           => happens(server.create())
        case 19 | 20      => happens(server.idle())
        case n if n < 26  => server.show(1 + random.nextInt(3))
        case n if n < 32  => live.foreach(_.look())
        case n if n < 80  => live.foreach(_.read())
        case n if n < 110 => live.foreach(_.take())
        case n if n < 165 => live.foreach(_.step())
        case n if n < 180 => wake()
        case n if n < 193 => now += random.nextInt(30000)
        case 193          => live.foreach(_.reconnect())
        case 194 => live.foreach(process => resync(process, process.core.state.tables.values.toSeq))
        case 195 => if (random.nextInt(2) == 0) crash()
        case 196 if failsOver => if (random.nextInt(2) == 0) failOver()
        case 196 | 197
            if movesSlot && live.isEmpty && server.reader.isEmpty && starting.isEmpty &&
              epochs.nonEmpty && epochs.last._2.tables.nonEmpty =>
          isSlotMoved = true
          server.confirmed = server.end
          say(s"somebody moves the slot to ${server.end}")
        case 199 => live.foreach(process => disturb(process.core))
        case 198 => if (live.nonEmpty && random.nextInt(6) == 0) start()
        case _   => ()
      }
    }
  }

  private def resync(process: SimulatedProcess, tables: Seq[TableState]): Unit =
    if (tables.nonEmpty) {
      val oid = tables(random.nextInt(tables.size)).oid
      say(s"a user asks for a copy of $oid")
      process.core.resync(oid, "A user asks for it.", now): Unit
    }

  /** The disk is full for a while, or a verification holds the appliers. */
  private def disturb(core: JobCore): Unit = random.nextInt(4) match {
    case 0 => core.isFull = true
    case 1 => core.isFull = false
    case 2 => core.hold(core.state.tables.keys, core.readUpTo)
    case _ => core.release(core.state.tables.keys)
  }

  private def wake(): Unit = if (old.nonEmpty) {
    val process = old(random.nextInt(old.size))
    random.nextInt(8) match {
      case 0 => process.read()
      case 1 => if (!process.isOver) process.take()
      case _ => process.step()
    }
    if (process.isOver && !process.hasTasks) old -= process
  }

  private def crash(isSuspended: Boolean = random.nextBoolean()): Unit = live.foreach { process =>
    if (isSuspended) {
      old += process
      say(s"${process.epoch} is suspended")
    } else {
      // Half of the processes end in order.
      if (process.epoch % 2 == 0) process.stop()
      server.reader = server.reader.filterNot(_ eq process)
      say(s"${process.epoch} is killed")
    }
    live = None
  }

  private def failOver(): Unit = {
    happens(server.failOver())
    starting.clear()
    crash(isSuspended = true)
  }

  /** The steps of a start. Another process can do something between them. */
  private def start(): Unit = if (starting.nonEmpty) {
    val step = starting.dequeue()
    try step()
    catch {
      case error: PgOutputException =>
        val isRight = error.getCondition match {
          case "PGOUTPUT_SLOT_MOVED" => isSlotMoved
          case "PGOUTPUT_TIMELINE"   => true
          case _                     => false
        }
        if (!isRight) fail(s"The job does not start: ${error.getMessage}")
        say(s"the job ends: ${error.getMessage}")
        end = Some(error.getCondition)
    }
  } else {
    live.foreach(old += _)
    live = None
    val session = new Object
    var kept: Option[(Int, JobState)] = None
    starting += (() => server.reader = Some(session))
    starting += { () =>
      kept = if (mutation == Mutation.OldEpoch) epochs.headOption else epochs.lastOption
      if (mutation != Mutation.TimelineUnclosed)
        kept.toSeq.flatMap(found => JobStart.closed(fresh, found._2, lake.generation(_)))
          .foreach(lake.close(_): Unit)
    }
    starting += { () =>
      val start = decide(kept.map(_._2), server.confirmed)
      val epoch = epochs.lastOption.fold(0)(_._1) + 1
      if (server.reader.contains(session)) {
        epochs(epoch) = start.state
        if (excludes) excluded = SimulatedServer.Names.filter(_ => random.nextInt(4) == 0).toSet
        val names = excluded
        val settings = this.settings.copy(excludes = table => names(table.name))
        val process = new SimulatedProcess(this, epoch, start.state, settings)
        server.reader = Some(process)
        live = Some(process)
        say(s"$epoch begins without $excluded, with ${JobSimulation.text(start.state)}")
      }
    }
  }

  private def fresh =
    JobState("job", "1", server.timeline, "db", "slot", Seq("all"), "lake", "delta", confirmed = 0)

  private def decide(kept: Option[JobState], confirmed: Long): JobStart = JobStart.of(
    fresh,
    FoundJob(
      kept,
      Some(
        if (mutation == Mutation.SlotMovedUnnoticed)
          math.min(confirmed, kept.fold(confirmed)(_.confirmed))
        else confirmed
      ),
      server.end,
      isInRecovery = false,
      lake.found("job"),
      (kept, lsn) =>
        if (mutation != Mutation.TimelineUnchecked)
          server.branches.filter { case (other, branch) => other > kept.timeline && branch < lsn }
            .foreach(_ => throw Errors.source("PGOUTPUT_TIMELINE.BRANCHED_OFF"))
    )
  )

  // Checks.

  /** How many commits were compared. */
  var commits = 0

  /** Checks that a table of the target has the server's rows at an LSN, and that its log has each change. */
  def checkRows(name: String, oid: Long, lsn: Long): Unit = {
    commits += 1
    val before = server.asOf(lsn).getOrElse(oid, fail(s"There is no table $oid at $lsn."))
    // If the table is dropped, it is not known which of its columns were dropped since then.
    if (server.tables.contains(oid)) compare(lake.tables(name), before, s"after a commit at $lsn")
    checkLog(name, oid, lsn)
  }

  /** How many copies followed on all changes before them. */
  var caughtUp = 0

  /** Checks that a table that keeps its past has all changes before the copy that replaces its rows. */
  def checkCaughtUp(kept: TableState, lsn: Long): Unit = {
    caughtUp += 1
    kept.parts.foreach(part => checkLog(part.target, kept.oid, lsn))
  }

  private def checkLog(name: String, oid: Long, lsn: Long): Unit = {
    val target = lake.tables(name)
    val sent = server.wal.toVector.filter(one => one.commit >= target.from && one.commit < lsn)
      .flatMap(one => one.changes.filter(_.oid == oid).map(one.commit -> _))
    if (target.log != sent)
      fail(s"The table $name has ${target.log} after a commit at $lsn, and the server sent $sent.")
  }

  private def compare(target: SimTarget, table: SimTable, when: String): Unit = {
    // The target keeps a column that was dropped, and does not get its last values.
    val columns =
      server.tables.get(table.oid).fold(table.columns)(_.columns.intersect(table.columns))
    def narrow(rows: Map[Int, Map[String, Int]]) =
      rows.map { case (key, row) =>
        key -> row.filter { case (column, _) => columns.contains(column) }
      }
    if (narrow(target.rows) != narrow(table.rows))
      fail(
        s"The table ${table.oid} ${table.name} has $when ${target.rows}, and must have ${table.rows}."
      )
  }

  /** Checks that a process that starts now, with what is durable, gets all that its tables lack. */
  def checkRecovery(): Unit = if (epochs.last._2.timeline == server.timeline) {
    val start =
      try decide(Some(epochs.last._2), server.confirmed)
      catch {
        case error: PgOutputException => fail(s"The job could not start again: ${error.getMessage}")
      }
    for (table <- start.state.tables.values if !table.needsCopy && table.isFollowed) {
      val gone = server.wal.find(transaction =>
        transaction.commit >= table.mark.get && transaction.commit < server.confirmed &&
          transaction.changes.exists(_.oid == table.oid)
      )
      gone.foreach(transaction =>
        fail(s"The slot is at ${server.confirmed}, and ${table.oid} lacks ${transaction.commit}.")
      )
    }
  }

  /** Ends the history: nothing fails any more, and all causes are corrected. */
  private def settle(): Unit = {
    say("all causes are corrected")
    isFailing = false
    happens(server.correct())
    server.show(Int.MaxValue)
    val wakes = random.nextInt(3)
    if (live.exists(process => !server.reader.contains(process))) live = None
    while (live.isEmpty && end.isEmpty) start()
    live.foreach { process =>
      process.core.isFull = false
      process.core.release(process.core.state.tables.keys)
    }
    var rounds = 0
    while (end.isEmpty && (rounds < 4 || !isEqual)) {
      // The last steps of an old process can come early or late.
      if (rounds == wakes) while (old.exists(_.hasTasks)) wake()
      rounds += 1
      if (rounds > 40) fail(s"The job hangs: ${JobSimulation.text(live.get.core.state)}")
      round(live.get)
    }
    if (end.isEmpty) checkEnd()
  }

  private def round(process: SimulatedProcess): Unit = {
    now += 700000
    process.look()
    for (_ <- 0 until 12) {
      process.take()
      while (process.hasTasks) process.step()
      for (_ <- 0 until 100) process.read()
    }
    process.core.state.tables.values.foreach { table =>
      table.status match {
        case Failed(reason, _, _, true) if reason.contains("value") =>
          process.core.resync(table.oid, "A user asks for it.", now): Unit
        case _ => ()
      }
    }
  }

  private def isEqual = {
    val state = live.get.core.state
    server.tables.values.filter(_.isPublished).forall(table =>
      if (excluded(table.name)) state.tables.get(table.oid).forall(_.status == Excluded)
      else
        state.tables.get(table.oid).exists(kept =>
          kept.status == Live && kept.target == table.name || isRenamed(kept)
        )
    ) && live.get.core.isDone(server.end) && !live.get.core.isBusy
  }

  /** A table keeps its name in the target after it was renamed to a name that no table had. */
  private def isRenamed(kept: TableState) =
    kept.status == Live && kept.target.nonEmpty &&
      !server.tables.values.exists(other => isFollowed(other) && other.name == kept.target)

  private def isFollowed(table: SimTable) = table.isPublished && !excluded(table.name)

  private def checkEnd(): Unit = {
    val state = live.get.core.state
    for (table <- server.tables.values if isFollowed(table)) {
      val kept = state.tables(table.oid)
      for (part <- kept.parts)
        compare(
          lake.tables.getOrElse(part.target, fail(s"There is no table ${part.target}.")),
          table,
          "at the end"
        )
    }
    state.tables.values.foreach { table =>
      table.status match {
        case Copying(_, _) | Failed(_, _, _, _) =>
          fail(s"${table.oid} is ${table.status} at the end.")
        case _ => ()
      }
    }
    val owners = state.tables.values.filter(_.owns).flatMap(_.parts).groupBy(_.target)
    owners.values.find(_.size > 1).foreach(two => fail(s"A name has two owners: $two"))
  }
}

object JobSimulation {
  def text(state: JobState): String = s"confirmed=${state.confirmed} " + state.tables.values.map {
    table =>
      s"${table.oid}:${table.target}#${table.generation}@${table.mark.getOrElse(0)}=${table.status}"
  }.mkString(" | ")
}
