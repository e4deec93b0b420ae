package io.sparkpgoutput.lake.core

import java.time.Instant

import io.sparkpgoutput.lake.catalog.{MirroredTable, TableMode}
import io.sparkpgoutput.lake.core.JobCommand._
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Dropped, Excluded, Failed, Live}

/**
 * Rules of the core that [[JobSimulationSuite]] cannot check, because it compares only the ends of histories.
 */
class JobCoreSuite extends JobCoreTests {
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

    val (full, _) = job(tables, JobSettings(appliers = 1, mostWaiting = 1))
    assert(full.take(0).exists(_.isInstanceOf[ApplyCut]))
    full.leavesPlace(oid)
    assert(full.take(0).isEmpty, "each table that waits has a thread")
    assert(full.takesPlace(oid))
    full.applied(oid, 100, None, 0)
    assert(full.take(0).exists(_.isInstanceOf[ApplyCut]))
  }

  test(
    "a table that fails again and again does not keep its place from tables that are due for longer"
  ) {
    val away = TableFailure(TableFailure.Waits, "The store is away.")
    def second(status: TableStatus) = TableState(other, status, generation = 2, mark = Some(100L))
    val (commits, _) = job(start.put(second(Live)), JobSettings(appliers = 1))
    assert(commits.take(0).contains(ApplyCut(oid, 100)))
    commits.failed(oid, away, 10000)
    assert(commits.take(20000).contains(ApplyCut(other.source.oid, 100)), "its commit took long")

    val copied = start.put(second(Copying("new"))).put(start.tables(oid).copying("new"))
    val copies = new JobCore(JobSettings(copiers = 1), copied)
    look(copies, "as it is")
    def begun(now: Long) = (1 to 2).flatMap(_ => run(copies, now)).collect {
      case BeginQueue(oid, _) => oid
    }
    assert(begun(0) == Seq(oid))
    copies.queueBegun(oid, new OneTransaction)
    assert(run(copies, 1).contains(MakeSnapshot(oid)))
    copies.failed(oid, away, 3600000)
    assert(begun(3700000) == Seq(other.source.oid), "its copy took long")
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

  test(
    "a snapshot, which locks its table, is given up if the state cannot be written for five minutes"
  ) {
    val copying = start.put(start.tables(oid).copying("new"))
    val core = new JobCore(JobSettings(), copying)
    look(core, "as it is")
    (1 to 2).foreach(_ => run(core, 0))
    core.queueBegun(oid, new OneTransaction)
    assert(run(core, 1).contains(MakeSnapshot(oid)))
    assert(core.snapshotMade(oid, MadeSnapshot(300, definition, newest = 1, 2)))
    def fails(now: Long) = {
      val commands = core.take(now)
      if (commands.exists(_.isInstanceOf[WriteState])) core.stateFailed(now)
      commands
    }
    val early = (3L to 290000L by 1000).flatMap(fails)
    assert(early.count(_.isInstanceOf[WriteState]) > 100 && !early.contains(DropSnapshot(oid)))
    assert(fails(310000).contains(DropSnapshot(oid)))
    assert(core.state.tables(oid).awaitsSnapshot && core.shown(oid).waits.nonEmpty)
    val later = (320000L to 325000L by 1000).flatMap(run(core, _))
    assert(
      later.exists(_.isInstanceOf[BeginQueue]),
      "it is copied as soon as the state can be written"
    )
    assert(!later.contains(CommitCopy(oid)))
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
