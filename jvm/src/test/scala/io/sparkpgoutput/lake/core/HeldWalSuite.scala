package io.sparkpgoutput.lake.core

import java.time.Instant

import io.sparkpgoutput.lake.core.JobCommand._
import io.sparkpgoutput.lake.core.TableStatus.{Failed, Live}

/** Which queues the core gives up so that they hold back no WAL and leave memory and disk to the others. */
class HeldWalSuite extends JobCoreTests {

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

  test(
    "a table whose new columns wait for the checkpoint folder takes no place from other tables"
  ) {
    val (core, _) = job(
      start.put(TableState(other, Live, generation = 2, mark = Some(100L))),
      JobSettings(appliers = 1)
    )
    def cuts(commands: Seq[JobCommand]) = commands.collect { case ApplyCut(oid, _) => oid }
    val Seq(first) = cuts(core.take(0)): @unchecked
    core.defines(first, NextDefinition(core.state.tables(first).table, Map.empty))
    val commands = core.take(1)
    assert(cuts(commands) == core.state.tables.keySet.toSeq.filter(_ != first))
    val write = commands.collectFirst { case found: WriteState => found }.get
    core.stateWritten(write.state, write.revision, 2)
    assert(core.take(2).contains(AlterColumns(first)))
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
}
