package io.sparkpgoutput.lake.core

import java.time.Instant

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.lake.catalog.{MirroredTable, TableMode}
import io.sparkpgoutput.lake.core.JobCommand._
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Dropped, Excluded, Failed, Live}

/**
 * Rules of the core that [[JobSimulationSuite]] cannot check, because it compares only the ends of histories.
 */
class JobCoreSuite extends AnyFunSuite {
  private val oid = 16400L
  private val definition = SimTable(oid, "orders", Vector("id")).definition
  private val other = SimTable(16500L, "lines", Vector("id")).definition
  private val start =
    JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", confirmed = 100)
      .put(TableState(definition, Live, generation = 1, mark = Some(100L)))

  /** A queue with one transaction, or none. */
  private class OneTransaction extends ChangeQueue {
    var position = Option.empty[Long]
    var isOpen = false
    override def from = 100L
    override def oldest: Option[Long] = position.filterNot(_ => isOpen)
    override def changes: Long = position.size.toLong
    override def bytes: Long = changes
  }

  /** A job with tables that are live and that the catalog has, and the queue of the first one. */
  private def job(
      tables: JobState = start,
      settings: JobSettings = JobSettings()
  ): (JobCore, OneTransaction) = {
    val core = new JobCore(settings, tables)
    val queues = tables.tables.keys.toSeq.sorted.map(_ -> new OneTransaction)
    queues.foreach { case (oid, queue) => core.queueBegun(oid, queue) }
    look(core, "as it is")
    core -> queues.head._2
  }

  private def look(core: JobCore, fingerprint: String): Unit = core.published(
    core.state.tables.values.map(table =>
      CatalogEntry(table.table, Some(table.target), None, fingerprint)
    ).toSeq,
    100,
    0
  )

  /** Runs the first commit, which compares the definition of the table with the catalog. */
  private def compared(core: JobCore): Unit = {
    assert(core.take(0).exists(_.isInstanceOf[ApplyCut]))
    core.applied(oid, 100, None, 0)
  }

  private def write(core: JobCore, now: Long): JobState = {
    val WriteState(state, revision) = core.take(now).collectFirst { case found: WriteState =>
      found
    }.get: @unchecked
    core.stateWritten(state, revision, now)
    state
  }

  test("a job with everything up to an LSN is done, also while later changes are committed") {
    val (core, queue) = job()
    queue.position = Some(150)
    core.read(200)
    assert(core.take(0).contains(ApplyCut(oid, 200)))
    assert(!core.isDone(180), "the cut is not committed")

    queue.position = Some(250)
    core.read(300)
    core.applied(oid, 200, None, 1)
    assert(core.take(2).contains(ApplyCut(oid, 300)))
    assert(core.isDone(180) && core.isDone(250))
    assert(!core.isDone(260) && !core.isDone(400))
    assert(!core.has(oid, 180), "a verification needs a table that does not change")
  }

  test("the cuts of a long queue follow one another at once, and later ones after the interval") {
    val (core, queue) = job(settings = JobSettings(intervalMillis = 1000))
    compared(core)
    queue.position = Some(150)
    core.read(200)
    assert(core.take(1000).contains(ApplyCut(oid, 200)))
    core.applied(oid, 160, None, 1100, hasMore = true)
    assert(core.take(1101).contains(ApplyCut(oid, 200)))
    core.applied(oid, 170, None, 1200)
    assert(!core.take(2199).contains(ApplyCut(oid, 200)))
    assert(core.take(2200).contains(ApplyCut(oid, 200)))
  }

  test("a table that waits for memory has no place, and gets one before tables that begin later") {
    val third = other.copy(source = other.source.copy(oid = 16600), target = "third")
    val tables = Seq(other, third).foldLeft(start)((state, table) =>
      state.put(TableState(table, Live, generation = 2, mark = Some(100L)))
    )
    val (core, _) = job(tables, JobSettings(appliers = 1))
    def begun = core.take(0).collect { case ApplyCut(oid, _) => oid }
    val first = begun
    assert(first == Seq(oid) && begun.isEmpty)
    core.leavesPlace(oid)
    assert(begun == Seq(other.source.oid) && begun.isEmpty)
    assert(core.isApplying(oid) && !core.takesPlace(oid), "the other table has the place")
    core.applied(other.source.oid, 100, None, 0)
    assert(begun.isEmpty && core.takesPlace(oid) && begun.isEmpty)
    core.applied(oid, 100, None, 0)
    assert(begun == Seq(16600L) && begun.isEmpty)
  }

  test("a job is not done before each definition is compared with the catalog") {
    val (core, _) = job()
    assert(core.take(0).contains(ApplyCut(oid, 100)))
    assert(!core.isDone(100), "the comparison runs")
    core.failed(oid, TableFailure(TableFailure.Waits, "The store is away."), 1)
    assert(!core.isDone(100), "the comparison has failed")
    assert(core.take(5000).contains(ApplyCut(oid, 100)), "it is tried again")
    core.applied(oid, 100, None, 5001)
    assert(core.isDone(100))
  }

  test("a request for a copy is in the state at once, also while a commit runs") {
    val (core, queue) = job()
    compared(core)
    queue.position = Some(150)
    core.read(200)
    assert(core.take(1).contains(ApplyCut(oid, 200)))
    assert(core.resync(oid, "asked", 2).nonEmpty)
    assert(write(core, 3).tables(oid).status == Copying("asked"))
    core.applied(oid, 200, None, 4)
    assert(core.state.tables(oid).status == Copying("asked"))
    assert(!core.isDone(100))
  }

  private val copied = definition.copy(mode = TableMode.History("_"))
  private val history = JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", 100)
    .put(TableState(
      copied,
      Live,
      number = 2,
      generation = 1,
      mark = Some(100L)
    ))

  /** Takes the commands of the core, and reports that states are durable. */
  private def run(core: JobCore, now: Long): Seq[JobCommand] = {
    val commands = core.take(now)
    commands.foreach {
      case WriteState(state, revision) => core.stateWritten(state, revision, now)
      case _                           => ()
    }
    commands
  }

  /** A history that a user wants to be copied. Its snapshot is made at 300, and it lacks a change before it. */
  private def copiedHistory(): (JobCore, OneTransaction) = {
    val (core, queue) = job(history)
    compared(core)
    queue.position = Some(150)
    core.read(200)
    assert(core.resync(oid, "asked", 1).nonEmpty)
    val commands = run(core, 1)
    assert(commands.contains(MakeSnapshot(oid)))
    assert(
      commands.exists {
        case WriteState(state, _) => state.tables(oid).copyReason.contains("asked")
        case _                    => false
      },
      "a kill does not lose the request"
    )
    assert(core.snapshotMade(oid, MadeSnapshot(300, definition, newest = 1, 2)))
    assert(run(core, 3).contains(ApplyCut(oid, 200)))
    core -> queue
  }

  test("a history that is copied gets all changes before the snapshot first") {
    val (core, queue) = copiedHistory()
    queue.position = Some(250)
    core.applied(oid, 200, None, 4)
    assert(core.awaitsChanges && core.isCommittingCopy(oid))
    core.read(400)
    assert(run(core, 5).contains(ApplyCut(oid, 300)), "and no change after the snapshot")
    queue.position = Some(350)
    core.applied(oid, 260, None, 6)
    assert(!core.isDone(200))
    assert(run(core, 7).exists(_.isInstanceOf[WriteState]))
    assert(core.state.tables(oid).status == Copying("asked", Some(300)))
    assert(core.state.tables(oid).former.contains(FormerDefinition(copied, generation = 1)))
    assert(run(core, 8).contains(CommitCopy(oid)))
    core.copied(oid, 9)
    assert(run(core, 10).contains(ApplyCut(oid, 400)), "its queue is still there")
  }

  /** The same when its copy is committed, and the state that it had before. It has a change at 350. */
  private def committedHistory(): (JobCore, OneTransaction, TableState) = {
    val (core, queue) = copiedHistory()
    queue.position = Some(350)
    core.read(400)
    core.applied(oid, 300, None, 4)
    val before = core.state.tables(oid)
    run(core, 5)
    assert(run(core, 6).contains(CommitCopy(oid)))
    (core, queue, before)
  }

  test("a history whose copy cannot be committed keeps its changes, and is copied later") {
    val (core, queue, _) = committedHistory()
    val generation = core.state.tables(oid).generation
    core.failed(oid, TableFailure(TableFailure.Waits, "It was truncated."), 7)
    val commands = run(core, 8)
    assert(core.state.tables(oid).status == Live)
    assert(core.state.tables(oid).generation < generation, "the mark of the target is the same")
    assert(commands.contains(ApplyCut(oid, 400)) && !commands.exists(_.isInstanceOf[DropQueue]))
    // A part of the copy was committed nevertheless.
    core.closed(oid, generation + 1)
    queue.position = None
    core.applied(oid, 400, None, 9)
    assert(core.state.tables(oid).generation == generation + 1)
    assert(run(core, 60007).contains(MakeSnapshot(oid)))
  }

  test("a history gets a snapshot when its columns are those of the last look") {
    val (core, _) = job(history)
    core.resync(oid, "asked", 1)
    core.read(200)
    assert(!run(core, 1).contains(MakeSnapshot(oid)))
    core.applied(oid, 100, None, 1)
    assert(run(core, 2).contains(MakeSnapshot(oid)))
  }

  test("a history whose copy is committed at the end of the job keeps its changes") {
    val (core, _, before) = committedHistory()
    core.stop()
    core.finish()
    assert(core.state.tables(oid) == before && before.copyReason.contains("asked"))
    assert(core.state.confirmed == 350)
  }

  test("the end of the job brings back no queue that is given up") {
    val (core, _, _) = committedHistory()
    core.isFull = true
    assert(run(core, 7).nonEmpty)
    core.stop()
    core.finish()
    assert(core.state.tables(oid).isCopying)
  }

  test("the definition of the rows of a target is in the state until a copy is committed") {
    val known = start.tables(oid).copy(number = 2)
    val former = Some(FormerDefinition(definition, generation = 1))
    val (core, _) = job(start.put(known))
    compared(core)
    val renamed = SimTable(oid, "orders", Vector("order_id")).definition
    core.resync(oid, "asked", 1)
    def made(now: Long): Unit = {
      run(core, now)
      assert(core.state.tables(oid).former == former && core.state.tables(oid).generation > 1)
      run(core, now).collect { case BeginQueue(oid, _) => core.queueBegun(oid, new OneTransaction) }
      assert(run(core, now).contains(MakeSnapshot(oid)))
      assert(core.snapshotMade(oid, MadeSnapshot(300, renamed, newest = 1, now)))
      assert(core.state.tables(oid).table == renamed && core.state.tables(oid).former == former)
      run(core, now)
      assert(run(core, now).contains(CommitCopy(oid)))
    }
    made(1)
    core.failed(oid, TableFailure(TableFailure.Waits, "The store is away."), 2)
    made(100000)
    core.copied(oid, 100001)
    assert(core.state.tables(oid).status == Live && core.state.tables(oid).former.isEmpty)
  }

  test("the names that an interrupted change gives to columns are kept while the table is copied") {
    def named(name: String) = definition.copy(source =
      definition.source.copy(columns =
        definition.source.columns.map(_.copy(number = 1, name = name))
      )
    )
    val (before, next) = (named("id"), NextDefinition(named("order_id"), Map.empty))
    val kept = TableState(before, Copying("lost"), 2, Some(next), generation = 1, mark = Some(100L))
    val (core, _) = job(start.put(kept))
    run(core, 1)
    val table = core.state.tables(oid)
    assert(table.next.isEmpty)
    assert(table.former.contains(FormerDefinition(before, 1, Map(1 -> "order_id"))))
  }

  test("the former definition of a table that is published again is kept, and a new one has none") {
    for ((status, number) <- Seq(Dropped -> 2, Excluded -> 2, Dropped -> 1)) {
      val kept = TableState(definition, status, number, generation = 1)
      val core = new JobCore(JobSettings(), start.put(kept))
      val renamed = SimTable(oid, "orders", Vector("order_id")).definition
      core.published(Seq(CatalogEntry(renamed, Some("orders"), None, "renamed")), 100, 0)
      assert(core.state.tables(oid).table == renamed)
      val former = Option.when(number > 1)(FormerDefinition(definition, 1))
      assert(core.state.tables(oid).former == former)
    }
  }

  test("a table that comes back with a problem keeps its hidden columns and its mode") {
    val users =
      SimTable(oid, "users", Vector("id", "ssn"), mode = TableMode.History("_")).definition
    val hiding = users.copy(source = users.source.hiding(_.name == "ssn", _ => None))
    for (status <- Seq(Dropped, Excluded)) {
      val core =
        new JobCore(JobSettings(), start.put(TableState(hiding, status, 2, generation = 1)))
      // The options do not hide the column under the new name of the table.
      val people = SimTable(oid, "people", Vector("id", "ssn")).definition
      val problem = "The options hide columns of public.users."
      val refused = CatalogEntry(MirroredTable.none(people.source), None, Some(problem), "renamed")
      for (now <- 0 to 1) {
        core.published(Seq(refused), 100, now.toLong)
        run(core, now.toLong)
        val kept = core.state.tables(oid)
        assert(kept.table == hiding && kept.status.why.contains(problem) && kept.needsCopy)
      }
      core.published(Seq(CatalogEntry(hiding, Some("users"), None, "as before")), 100, 2)
      assert(run(core, 3).exists(_.isInstanceOf[BeginQueue]) || run(
        core,
        4
      ).exists(_.isInstanceOf[BeginQueue]))
      assert(core.state.tables(oid).table.mode == TableMode.History("_"))
    }
  }

  test("each look at a table without a copy notes its hidden columns, whatever is wrong with it") {
    val core = new JobCore(JobSettings(), start.copy(tables = Map.empty))
    def looked(columns: String*): Seq[(Int, String)] = {
      val source = SimTable(oid, "users", columns.toVector).definition.source
      val found = MirroredTable.none(source.hiding(_.name == "ssn", _ => None))
      core.published(
        Seq(CatalogEntry(found, None, Some("It has no key."), columns.mkString)),
        100,
        0
      )
      core.state.tables(oid).table.source.hidden.map(column => column.number -> column.name)
    }
    val first = looked("id", "v")
    val second = looked("id", "v", "ssn")
    assert(first.isEmpty && second.map(_._2) == Seq("ssn"))
    val third = looked("id", "v", "social", "ssn")
    assert(third.head == second.head && third.map(_._2) == Seq("ssn", "ssn"))
  }

  test("a table that has left loses its name, and is forgotten unless it has hidden columns") {
    for (isHiding <- Seq(true, false); status <- Seq(Dropped, Excluded)) {
      val users = SimTable(oid, "users", Vector("id", "ssn")).definition
      val source = users.source.hiding(column => isHiding && column.name == "ssn", _ => None)
      val kept = TableState(users.copy(source = source), status, 2, generation = 1)
      val core = new JobCore(
        JobSettings(excludes = _.name == "staged" && status == Excluded),
        start.put(kept)
      )
      val another = SimTable(16600, "users", Vector("id")).definition
      val staged = CatalogEntry(SimTable(oid, "staged", Vector("id")).definition, None, None, "")
      val found = CatalogEntry(another, Some("users"), None, "new")
      core.published(found +: Seq(staged).filter(_ => status == Excluded), 100, 0)
      run(core, 1)
      assert(core.state.tables(16600).target == "users")
      val nameless = kept.copy(table = kept.table.copy(target = ""))
      assert(core.state.tables.get(oid) == Option.when(isHiding)(nameless))
      // It comes back under another name.
      val people = SimTable(oid, "people", Vector("id", "ssn")).definition
      core.published(Seq(found, CatalogEntry(people, Some("people"), None, "renamed")), 100, 2)
      run(core, 3)
      assert(core.state.tables(oid).target == "people" && core.state.tables(oid).isCopying)
    }
  }

  test("a history whose copy needs a right goes on with its changes") {
    val (core, queue) = job(history)
    compared(core)
    core.read(200)
    queue.position = Some(150)
    core.resync(oid, "asked", 1)
    val found = history.tables.values.map(table =>
      CatalogEntry(table.table, Some(table.target), Some("GRANT SELECT"), "without the right")
    )
    core.published(found.toSeq, 100, 1)
    val commands = run(core, 2)
    assert(commands.contains(ApplyCut(oid, 200)) && !commands.exists(_.isInstanceOf[DropQueue]))
    assert(core.state.tables(oid).status == Live)
    assert(core.shown(oid).waits.contains("GRANT SELECT"))
    queue.position = None
    core.applied(oid, 200, None, 3)
    assert(!run(core, 4).contains(MakeSnapshot(oid)))
    assert(core.isDone(180), "a job with `once` does not wait for the right")
    look(core, "with the right")
    assert(run(core, 5).contains(ApplyCut(oid, 200)))
    core.applied(oid, 200, None, 6)
    assert(run(core, 7).contains(MakeSnapshot(oid)))
  }

  test("the snapshot of a history does not lock the table while the reader is far behind") {
    val (core, queue) = copiedHistory()
    queue.position = None
    core.applied(oid, 200, None, 4)
    assert(!run(core, 300000).contains(DropSnapshot(oid)))
    assert(run(core, 300003).contains(DropSnapshot(oid)))
    assert(core.state.tables(oid).status == Live)
    assert(!run(core, 360000).contains(MakeSnapshot(oid)))
    assert(run(core, 360003).contains(MakeSnapshot(oid)))
  }

  test("a history that waits for its store gives up the snapshot, and is copied later") {
    val (core, _) = copiedHistory()
    core.failed(oid, TableFailure(TableFailure.Waits, "The store is away."), 4)
    assert(run(core, 5).contains(DropSnapshot(oid)))
    assert(core.state.tables(oid).status == Live)
    assert(run(core, 10000).contains(MakeSnapshot(oid)))
  }

  test("a history whose snapshot cannot be made goes on with its changes, and tries again later") {
    val (core, queue) = job(history)
    compared(core)
    core.read(200)
    core.resync(oid, "asked", 1)
    assert(run(core, 1).contains(MakeSnapshot(oid)))
    queue.position = Some(150)
    core.failed(oid, TableFailure(TableFailure.Retried, "All slots are in use."), 2)
    assert(core.state.tables(oid).status == Live)
    assert(run(core, 3).contains(ApplyCut(oid, 200)))
    queue.position = None
    core.applied(oid, 200, None, 4)
    assert(!run(core, 50000).contains(MakeSnapshot(oid)))
    assert(core.shown(oid).waits.contains("All slots are in use."))
    assert(run(core, 60002).contains(MakeSnapshot(oid)))
    core.failed(oid, TableFailure(TableFailure.Retried, "All slots are in use."), 60003)
    core.giveUp(since = 1, now = 60004)
    assert(!core.isDone(180))
    assert(run(core, 120003).contains(MakeSnapshot(oid)))
    assert(core.snapshotMade(oid, MadeSnapshot(300, definition, newest = 1, 120004)))
    core.giveUp(since = 2, now = 120005)
    assert(core.state.tables(oid).status == Live, "the snapshot is made")
    assert(core.shown(oid).waits.isEmpty)
    assert(run(core, 420005).contains(DropSnapshot(oid)), "and waits too long for its changes")
    assert(core.shown(oid).waits.exists(_.contains("within five minutes")))
    core.giveUp(since = 2, now = 420006)
    assert(core.state.tables(oid).status.why.exists(_.contains("within five minutes")))
    assert(core.state.tables(oid).copyReason.isEmpty)
    assert(core.isDone(180), "a job with `once` ends")
  }

  test("a history is not locked by a snapshot while the reader is far behind") {
    val (core, _) = job(history)
    compared(core)
    core.published(
      Seq(CatalogEntry(history.tables(oid).table, Some("orders"), None, "as it is")),
      5000,
      0
    )
    core.resync(oid, "asked", 1)
    assert(!run(core, 1).contains(MakeSnapshot(oid)))
    assert(core.awaitsChanges, "the server says how far it is")
    core.read(5000)
    assert(run(core, 2).contains(MakeSnapshot(oid)))
  }

  test("a history whose oldest change is old is not locked by a snapshot before it has caught up") {
    val (core, queue) = job(history, JobSettings(intervalMillis = 3600000))
    compared(core)
    core.published(
      Seq(CatalogEntry(history.tables(oid).table, Some("orders"), None, "as it is")),
      5000,
      0
    )
    queue.position = Some(150)
    core.read(5000)
    core.resync(oid, "asked", 400000)
    val commands = run(core, 400000)
    assert(!commands.contains(MakeSnapshot(oid)))
    assert(commands.contains(ApplyCut(oid, 5000)), "the copy does not wait for the interval, too")
    // A table that always has changes is copied as soon as it has those before the look.
    queue.position = Some(5100)
    core.read(5200)
    core.applied(oid, 5000, None, 400001)
    assert(run(core, 400002).contains(MakeSnapshot(oid)))
  }

  test("a history that is minutes behind gets its snapshot at once") {
    val (core, queue) = job(history)
    compared(core)
    look(core, "as it is")
    queue.position = Some(50)
    core.resync(oid, "asked", 200000)
    assert(run(core, 200000).contains(MakeSnapshot(oid)))
  }

  test("a history whose changes cannot be applied is copied without them") {
    val (core, _) = copiedHistory()
    core.failed(oid, TableFailure(TableFailure.Lasting, "A value does not fit."), 4)
    assert(run(core, 5).contains(DropSnapshot(oid)))
    assert(core.state.tables(oid).status == Copying("asked"))
    assert(run(core, 7).exists(_.isInstanceOf[DropQueue]))
  }

  test("a history whose changes meet an error that passes tries them again before it is copied") {
    val (core, _) = copiedHistory()
    def fails(now: Long): Unit =
      core.failed(oid, TableFailure(TableFailure.Retried, "A right is missing."), now)
    fails(4)
    val commands = run(core, 5)
    assert(commands.contains(DropSnapshot(oid)) && !commands.exists(_.isInstanceOf[DropQueue]))
    assert(core.state.tables(oid).status == Live)
    assert(core.state.tables(oid).copyReason.contains("asked"))
    assert(core.shown(oid).waits.contains("A right is missing."))
    assert(!run(core, 10003).contains(ApplyCut(oid, 200)))
    val again = run(core, 10004)
    assert(again.contains(ApplyCut(oid, 200)) && !again.contains(MakeSnapshot(oid)))
    core.applied(oid, 200, None, 10005)
    assert(run(core, 10006).contains(MakeSnapshot(oid)), "the changes are applied")
  }

  test("a history whose changes meet the same error again and again is copied without them") {
    val (core, _) = copiedHistory()
    def fails(now: Long): TableStatus = {
      core.failed(oid, TableFailure(TableFailure.Retried, "Unknown."), now)
      core.state.tables(oid).status
    }
    (1 to 7).foreach { number =>
      assert(fails(number * 600000L) == Live)
      assert(run(core, (number + 1) * 600000L).contains(ApplyCut(oid, 200)))
    }
    assert(fails(4800000) == Copying("asked"))
  }

  test(
    "a definition that meets an error that passes is compared again before a history is copied"
  ) {
    val (core, _) = job(history)
    compared(core)
    look(core, "altered")
    assert(run(core, 2).contains(ApplyCut(oid, 100)))
    core.resync(oid, "asked", 3)
    core.failed(oid, TableFailure(TableFailure.Retried, "A right is missing."), 4)
    assert(run(core, 10004).contains(ApplyCut(oid, 100)))
  }

  test("a cut that has to wait is tried again as it is, and the next one follows at once") {
    val (core, queue) = job(settings = JobSettings(intervalMillis = 600000))
    compared(core)
    queue.position = Some(150)
    core.read(200)
    assert(core.take(600000).contains(ApplyCut(oid, 200)))
    // Each try with newer commits would wait again until the server has made them visible.
    core.read(300)
    core.failed(oid, TableFailure(TableFailure.Waits, "It is not visible."), 602000)
    assert(core.take(603000).contains(ApplyCut(oid, 200)))
    core.read(400)
    core.failed(oid, TableFailure(TableFailure.Waits, "It is not visible."), 605000)
    assert(core.take(607000).contains(ApplyCut(oid, 200)))
    queue.position = Some(250)
    core.applied(oid, 200, None, 607001)
    assert(core.take(607002).contains(ApplyCut(oid, 400)))
  }

  test("after a wait, a table gets later changes if the cut was empty, has failed or was copied") {
    val waits = TableFailure(TableFailure.Waits, "It is not visible.")
    def waiting(position: Option[Long]) = {
      val (core, queue) = job()
      compared(core)
      queue.position = position
      core.read(200)
      look(core, "altered")
      assert(core.take(1).contains(ApplyCut(oid, 200)))
      core.failed(oid, waits, 2)
      queue.position = Some(250)
      core.read(300)
      core -> queue
    }
    val (empty, _) = waiting(None)
    assert(empty.take(5000).contains(ApplyCut(oid, 300)))
    for (kind <- Seq(TableFailure.Retried, TableFailure.Lasting)) {
      val (core, queue) = waiting(Some(150))
      queue.position = Some(150)
      assert(core.take(5000).contains(ApplyCut(oid, 200)))
      core.failed(oid, TableFailure(kind, "A value does not fit."), 5001)
      look(core, "corrected")
      assert(core.take(100000).contains(ApplyCut(oid, 300)))
    }
    val (copied, queue) = waiting(Some(150))
    queue.position = Some(150)
    copied.resync(oid, "asked", 3)
    assert(copy(copied, 5000, Some(250)))
    assert(run(copied, 5001).contains(ApplyCut(oid, 300)))
  }

  /** Copies a table, whose new queue has a change then. Returns whether the copy begins now. */
  private def copy(core: JobCore, now: Long, change: Option[Long]): Boolean = {
    val begins = (1 to 3).flatMap(_ => run(core, now)).exists(_.isInstanceOf[BeginQueue])
    if (begins) {
      val queue = new OneTransaction
      queue.position = change
      core.queueBegun(oid, queue)
      assert(run(core, now).contains(MakeSnapshot(oid)))
      val lsn = math.max(200L, core.state.tables(oid).mark.get)
      assert(core.snapshotMade(oid, MadeSnapshot(lsn, definition, newest = 1, now)))
      assert((1 to 2).flatMap(_ => run(core, now)).contains(CommitCopy(oid)))
      core.copied(oid, now)
    }
    begins
  }

  test("copies that always find another reason follow each other with pauses") {
    val (core, queue) = job()
    compared(core)
    queue.position = Some(150)
    core.read(300)
    var reason = 0
    def copies(now: Long, change: Option[Long]): Boolean = copy(core, now, change)
    def failsAt(now: Long): Unit = {
      assert(run(core, now).contains(ApplyCut(oid, 300)), now)
      reason += 1
      core.failed(oid, TableFailure(TableFailure.NeedsCopy, s"A row moved at 0/$reason."), now)
    }
    val during = Some(250L)
    // While each copy runs, a change comes that needs another one.
    for (now <- Seq(0L, 1L, 2L)) {
      failsAt(now)
      assert(copies(now, during))
    }
    failsAt(3)
    assert(!copies(3, during) && !copies(10002, during) && copies(10003, during))
    assert(core.state.tables(oid).status == Live, "the reason is another one each time")
    failsAt(10003)
    assert(!copies(30002, during) && copies(30003, during))
    for (now <- 1 to 10) {
      failsAt(now * 600000L)
      assert(copies((now + 1) * 600000L, during), "a pause has at most ten minutes")
    }
    failsAt(7000000)
    assert(!copies(7000000, None) && copies(7600000, None))
    // The table had everything after the copy, so it is not one of those that no copy helps.
    core.queueBegun(oid, queue)
    queue.position = during
    for (now <- 7600001L to 7600003L) {
      failsAt(now)
      assert(copies(now, during))
    }
    run(core, 7600004)
    core.applied(oid, 300, None, 7600005)
    val later = new OneTransaction
    later.position = Some(350)
    core.queueBegun(oid, later)
    core.read(400)
    assert(run(core, 7600006).contains(ApplyCut(oid, 400)))
    core.failed(oid, TableFailure(TableFailure.NeedsCopy, "A row moved at 0/A."), 7600006)
    assert(copies(7600006, None), "a cut was applied")
  }

  test("a failed table whose cause was corrected is tried again, also after an error that passes") {
    val (core, _) = job()
    compared(core)
    look(core, "altered")
    assert(core.take(1).contains(ApplyCut(oid, 100)))
    core.failed(oid, TableFailure(TableFailure.Lasting, "A value does not fit."), 2)
    look(core, "corrected")
    assert(core.take(3).contains(ApplyCut(oid, 100)))
    core.failed(oid, TableFailure(TableFailure.Waits, "The store is away."), 4)
    assert(core.take(10000).contains(ApplyCut(oid, 100)))
  }

  test("a table has failed since its first error, until a commit or a copy succeeds") {
    val monday = Instant.ofEpochMilli(1)
    val failed = Failed("A value does not fit.", monday, needsCopy = false, isLasting = true)
    val (core, _) = job(start.put(start.tables(oid).copy(status = failed)))
    def since = core.state.tables(oid).status match {
      case Failed(_, since, _, _) => since
      case other                  => fail(s"$other")
    }
    assert(core.take(1000).contains(ApplyCut(oid, 100)), "a start tries it again")
    core.failed(oid, TableFailure(TableFailure.Retried, "It still does not."), 1001)
    assert(since == monday)
    assert(core.take(100000).contains(ApplyCut(oid, 100)))
    core.applied(oid, 100, None, 100001)
    look(core, "altered")
    assert(core.take(200000).contains(ApplyCut(oid, 100)))
    core.failed(oid, TableFailure(TableFailure.Retried, "Now it does not."), 200001)
    assert(since == Instant.ofEpochMilli(200001))
  }

  test("each look at the catalog that finds the same definition renews the horizon of the table") {
    val (core, _) = job()
    def seen(horizon: Long, fingerprint: String) = {
      val table = definition.copy(source = definition.source.copy(horizon = horizon))
      core.published(Seq(CatalogEntry(table, Some("orders"), None, fingerprint)), 100, 0)
      core.state.tables(oid).table.source.horizon
    }
    assert(seen(700, "as it is") == definition.source.horizon, "it is not compared yet")
    compared(core)
    assert(seen(710, "as it is") == 710)
    assert(seen(720, "altered") == 710, "rows that were removed before the change must be found")
    assert(seen(730, "as it is") == 730)
  }

  /** A job with two tables. One waits for its store, and commits of the other one begin. */
  private def waitsBesideOther(settings: JobSettings) = {
    val (core, queue) =
      job(start.put(TableState(other, Live, generation = 2, mark = Some(100L))), settings)
    core.take(0)
    core.applied(other.source.oid, 100, None, 0)
    queue.position = Some(150)
    core.failed(oid, TableFailure(TableFailure.Waits, "The store denies access."), 1)
    core.read(5000)
    core.take(2)
    assert(core.state.tables(oid).status == Live, "all tables wait: the store can be away")
    core.applied(other.source.oid, 5000, None, 3)
    waitsAgain(core, 2000)
    // That commit stored no rows, so the store can still be away.
    core.read(5100)
    core.take(2001)
    assert(core.state.tables(oid).status == Live)
    core.applied(other.source.oid, 5100, Some(Instant.EPOCH), 2002)
    core.take(2003)
    assert(core.state.tables(oid).status == Live, "the store can have been away for a moment")
    waitsAgain(core, 6000)
    core
  }

  private def waitsAgain(core: JobCore, now: Long): Unit = {
    assert(core.take(now).exists { case ApplyCut(`oid`, _) => true; case _ => false })
    core.failed(oid, TableFailure(TableFailure.Waits, "The store denies access."), now)
  }

  test("a table that waits while others are committed holds back no more WAL than a failed one") {
    val core = waitsBesideOther(JobSettings(maxHeldWal = 1000))
    core.take(6001)
    assert(core.state.tables(oid).needsCopy)
    assert(!core.state.tables(other.source.oid).needsCopy)
  }

  test("if the disk is full, a table that waits while others are committed loses its queue") {
    val core = waitsBesideOther(JobSettings())
    core.take(6001)
    assert(core.state.tables(oid).status == Live)
    core.isFull = true
    core.take(6002)
    assert(core.state.tables(oid).needsCopy)
    assert(!core.state.tables(other.source.oid).needsCopy)
  }

  test("a table that waited alone does not lose its queue when the others wait, too") {
    val core = waitsBesideOther(JobSettings())
    val away = TableFailure(TableFailure.Waits, "The store is away.")
    core.read(6000)
    core.take(6001)
    core.failed(other.source.oid, away, 6002)
    core.isFull = true
    core.take(6003)
    assert(core.state.tables.values.forall(_.status == Live))
  }

  test("a table with news is not behind tables that always have changes") {
    val (core, queue) = job(
      start.put(TableState(other, Live, generation = 2, mark = Some(100L))),
      JobSettings(appliers = 1)
    )
    queue.position = Some(150)
    core.read(1000)
    val first = core.take(0).collect { case ApplyCut(oid, _) => oid }
    core.applied(first.head, 1000, None, 0)
    val second = core.take(1).collect { case ApplyCut(oid, _) => oid }
    assert(first ++ second == Seq(other.source.oid, oid), "the news came before the change")
  }

  test("while the queues are full, tables do not wait for their interval") {
    val (core, queue) = job(settings = JobSettings(intervalMillis = 600000))
    compared(core)
    queue.position = Some(150)
    core.read(200)
    assert(!core.take(1).contains(ApplyCut(oid, 200)))
    core.isFull = true
    assert(core.take(2).contains(ApplyCut(oid, 200)))
  }

  test("each state that is written has the newest LSN that can be confirmed") {
    val (core, _) = job()
    compared(core)
    core.resync(oid, "asked", 0)
    write(core, 0)
    // Copies that begin and end, and requests for them, can write the state more often than every ten seconds.
    for (second <- 1 to 30) {
      core.read(100L + second)
      core.resync(oid, "asked again", second * 1000L)
      assert(write(core, second * 1000L).confirmed == 100 + second)
    }
  }

  test(
    "when the state says that a table needs a copy, its queue is dropped and holds back no WAL"
  ) {
    val (core, queue) = job()
    compared(core)
    core.read(500)
    look(core, "altered")
    assert(core.take(1).contains(ApplyCut(oid, 500)))
    val changed = TableFailure(TableFailure.NeedsCopy, "It was rewritten.")
    core.failed(oid, changed, 2)
    assert(core.confirmable == 100 && core.state.tables(oid).needsCopy)
    // The catalog says that the table cannot be copied, so its copy does not begin.
    core.published(
      Seq(CatalogEntry(definition, Some("orders"), Some("The role has no rights."), "altered")),
      100,
      3
    )
    write(core, 4)
    assert(core.take(5).contains(DropQueue(oid, queue)))
    assert(core.confirmable == 500)
  }

  test("if the disk is full, one failed table at a time loses its queue") {
    val (core, queue) = job(start.put(TableState(other, Live, generation = 2, mark = Some(100L))))
    queue.position = Some(150)
    core.read(200)
    core.take(0)
    Seq(oid, other.source.oid).foreach(
      core.failed(_, TableFailure(TableFailure.Lasting, "A value does not fit."), 1)
    )
    queue.position = Some(150)
    core.isFull = true
    (2 to 4).foreach(now => core.take(now.toLong))
    val needCopies = core.state.tables.values.map(_.status).collect {
      case Failed(_, _, true, _) => 1
    }
    assert(needCopies.size == 1)
  }

  test(
    "a transaction that is larger than memory and disk costs its table a copy, and the others go on"
  ) {
    val (core, queue) = job(start.put(TableState(other, Live, generation = 2, mark = Some(100L))))
    compared(core)
    core.applied(other.source.oid, 100, None, 0)
    queue.position = Some(150)
    // The other changes in the queue are applied first.
    core.read(200)
    core.isFull = true
    val first = core.take(2000)
    assert(first.contains(ApplyCut(oid, 200)), first)
    queue.isOpen = true
    // The transaction has a change of another table, which is not given up.
    val lines = new OneTransaction
    lines.position = Some(150)
    lines.isOpen = true
    core.queueBegun(other.source.oid, lines)
    core.applied(oid, 150, None, 2001)
    write(core, 2002)
    val last = core.take(2003)
    assert(last.contains(DropQueue(oid, queue)), last)
    assert(core.state.tables.values.filter(_.needsCopy).map(_.oid).toSeq == Seq(oid))
  }

  test(
    "a table that waits for the name of one that leaves keeps no changes, which could fill the disk"
  ) {
    val (core, queue) = job(start.put(TableState(other, Live, generation = 2, mark = Some(100L))))
    compared(core)
    core.applied(other.source.oid, 100, None, 0)
    val waiting = new OneTransaction
    core.queueBegun(other.source.oid, waiting)
    Seq(queue, waiting).foreach(_.position = Some(150))
    core.read(200)
    // The table orders is dropped, and lines is renamed to orders.
    core.published(Seq(CatalogEntry(other, Some("orders"), None, "renamed")), 1000, 1)
    core.isFull = true
    val first = core.take(2000)
    assert(first.contains(ApplyCut(oid, 200)), first)
    first.foreach {
      case WriteState(state, revision) => core.stateWritten(state, revision, 2001)
      case _                           => ()
    }
    val last = core.take(2002)
    assert(last.contains(DropQueue(other.source.oid, waiting)), last)
    assert(core.state.tables(other.source.oid).needsCopy && !core.state.tables(oid).needsCopy)
  }

  private def excluding(names: String*) = JobSettings(
    stopsAtError = true,
    excludes = table => names.contains(table.name)
  )

  test("a table that is excluded at a start is not applied, has no error, and holds back no WAL") {
    val failed =
      Failed("A value cannot be read.", Instant.EPOCH, needsCopy = false, isLasting = true)
    for (status <- Seq(Live, failed, Copying("It is new."))) {
      val state = start.put(TableState(definition, status, generation = 1, mark = Some(100L)))
      val core = new JobCore(excluding("orders"), state)
      assert(core.queuesAtStart.isEmpty && core.state.tables(oid).status == Excluded)
      core.read(500)
      look(core, "as it is")
      assert(core.isDone(500) && core.confirmable == 500)
      assert(core.resync(oid, "asked", 1).isEmpty)
      // The job confirms what only this table lacks when the state says that the table is excluded.
      assert(write(core, 20000).tables(oid).status == Excluded)
      assert(core.take(20001) == Seq(Confirm(500)))
    }
  }

  test("an excluded table is copied if it is included again, and dropped if it is unpublished") {
    val state = start.copy(confirmed = 500)
      .put(TableState(definition, Excluded, generation = 1, mark = Some(100L)))
    val core = new JobCore(JobSettings(), state)
    assert(core.queuesAtStart.isEmpty && core.state.tables(oid).status == Excluded)
    look(core, "as it is")
    assert(core.state.tables(oid).status == Copying("It is not excluded any more."))
    assert(core.take(0).exists(_.isInstanceOf[WriteState]))
    assert(core.state.tables(oid).generation == 2)

    val gone = new JobCore(JobSettings(), state)
    gone.published(Nil, 500, 0)
    assert(gone.state.tables(oid).status == Dropped)
  }

  test("a table that is renamed to an excluded name ends at once, and a new one is not added") {
    val core = new JobCore(excluding("staged", "new"), start)
    val queue = new OneTransaction
    core.queueBegun(oid, queue)
    look(core, "as it is")
    compared(core)
    queue.position = Some(150)
    core.read(200)
    val renamed = SimTable(oid, "staged", Vector("id")).definition
    val added = SimTable(16600, "new", Vector("id")).definition
    val problem = Some("It has no key.")
    core.published(
      Seq(
        CatalogEntry(renamed, None, problem, ""),
        CatalogEntry(added, None, problem, "")
      ),
      200,
      1
    )
    assert(core.state.tables(oid).status == Excluded)
    assert(core.state.tables.keySet == Set(oid) && core.knows(16600) && !core.knows(16601))
    assert(!core.take(2).exists(_.isInstanceOf[ApplyCut]))
    // A commit that runs ends first.
    val busy = new JobCore(excluding("staged"), start)
    busy.queueBegun(oid, queue)
    look(busy, "as it is")
    busy.read(200)
    assert(busy.take(0).contains(ApplyCut(oid, 200)))
    busy.published(Seq(CatalogEntry(renamed, None, None, "")), 200, 1)
    assert(busy.state.tables(oid).status == Live)
    busy.applied(oid, 120, None, 2)
    busy.take(3)
    assert(busy.state.tables(oid).status == Excluded)
  }

  test("a table that leaves while its copy or its retry commits gets the changes up to the look") {
    // The rows of its copy are committed.
    val (copied, _) = job()
    compared(copied)
    copied.resync(oid, "asked", 1)
    (1 to 2).foreach(now => run(copied, now.toLong))
    copied.queueBegun(oid, new OneTransaction)
    assert(copied.snapshotMade(oid, MadeSnapshot(300, definition, newest = 1, 3)))
    run(copied, 4)
    assert(run(copied, 5).contains(CommitCopy(oid)))
    // A table that has failed is tried again.
    val (retried, _) = job()
    run(retried, 0)
    retried.failed(oid, TableFailure(TableFailure.Retried, "A value does not fit."), 1)
    assert(run(retried, 20000).contains(ApplyCut(oid, 100)))

    val ends = Seq[(JobCore, () => Unit)](
      copied -> (() => copied.copied(oid, 20001)),
      retried -> (() => retried.applied(oid, 300, None, 20001))
    )
    for ((core, end) <- ends) {
      core.read(300)
      core.published(Nil, 500, 20000)
      end()
      run(core, 20002)
      assert(core.state.tables(oid).status == Live, "the reader is not at the end of the look")
      core.read(500)
      run(core, 20003)
      assert(core.state.tables(oid).status == Dropped)
    }

    // A copy that has failed is not tried again.
    val (core, _) = job()
    compared(core)
    core.resync(oid, "asked", 1)
    (1 to 2).foreach(now => run(core, now.toLong))
    core.published(Nil, 500, 3)
    core.failed(oid, TableFailure(TableFailure.Waits, "It is gone."), 4)
    run(core, 5)
    assert(core.state.tables(oid).status == Dropped)
  }

  test(
    "a table that another session has locked stays as it is, and the job is not done without a new one"
  ) {
    val (core, _) = job()
    compared(core)
    core.read(500)
    val added = SimTable(16600, "new", Vector("id")).definition
    def found(table: MirroredTable, isLocked: Boolean) = CatalogEntry(
      table.copy(source = table.source.copy(isLocked = isLocked)),
      Some(table.target),
      None,
      if (isLocked) "of a locked table" else "as it is"
    )
    def look(isLocked: Boolean, isNewLocked: Boolean): Unit =
      core.published(Seq(found(definition, isLocked), found(added, isNewLocked)), 500, 0)
    val before = core.state
    look(isLocked = true, isNewLocked = true)
    core.take(1)
    core.applied(oid, 500, None, 1)
    assert(core.state.tables.keySet == before.tables.keySet && !core.isDone(500))
    assert(core.state.tables(oid).table == definition && core.state.tables(oid).status == Live)
    look(isLocked = true, isNewLocked = false)
    assert(core.state.tables(16600).status.name == "copying")
    val only = job()._1
    only.read(100)
    only.published(Seq(found(definition, isLocked = true)), 100, 0)
    compared(only)
    assert(only.isDone(100))
  }

  test("only a table that has waited for too long is given up") {
    val (core, _) = job()
    assert(core.take(0).contains(ApplyCut(oid, 100)))
    core.failed(oid, TableFailure(TableFailure.Waits, "The store is away."), 1000)
    core.giveUp(since = 999, now = 5000)
    assert(core.state.tables(oid).status == Live)
    core.giveUp(since = 1000, now = 5000)
    assert(core.state.tables(oid).status.why.contains("The store is away."))
    assert(core.isDone(100))
  }
}
