package io.sparkpgoutput.lake.core

import io.sparkpgoutput.lake.catalog.TableMode
import io.sparkpgoutput.lake.core.JobCommand._
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Live}

/** What the core does if a user asks for a copy of a table that keeps old rows: its changes go on until the copy. */
class RequestedCopySuite extends JobCoreTests {
  private val copied = definition.copy(mode = TableMode.History("_"))
  private val history = JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", 100)
    .put(TableState(
      copied,
      Live,
      number = 2,
      generation = 1,
      mark = Some(100L)
    ))

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
}
