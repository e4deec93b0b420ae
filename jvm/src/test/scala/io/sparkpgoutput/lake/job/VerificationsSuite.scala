package io.sparkpgoutput.lake.job

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.lake.apply.MemoryTarget
import io.sparkpgoutput.lake.catalog.MirroredTable
import io.sparkpgoutput.lake.core.JobCommand.ApplyCut
import io.sparkpgoutput.lake.core.TableStatus.Live
import io.sparkpgoutput.lake.core.{
  CatalogEntry,
  ChangeQueue,
  JobCore,
  JobSettings,
  JobState,
  SimTable,
  TableState
}
import io.sparkpgoutput.lake.target.OwnTables

class VerificationsSuite extends SparkSessionTests {
  private val oid = 16400L
  private val table = SimTable(oid, "orders", Vector("id")).definition
  private val name = table.source.name

  private class OneChange extends ChangeQueue {
    var position = Option.empty[Long]
    override def from = 100L
    override def oldest: Option[Long] = position
    override def changes: Long = position.size.toLong
    override def bytes: Long = changes
  }

  /** A job whose table has everything below 200, and is held there. */
  private class Held {
    private val start = JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", 100)
      .put(TableState(table, Live, generation = 1, mark = Some(100L)))
    val queue = new OneChange
    val core = new JobCore(JobSettings(), start)
    core.queueBegun(oid, queue)
    look(table)
    core.take(0)
    core.applied(oid, 100, None, 0)
    core.read(200)
    core.hold(Seq(oid), 200)
    val verifications = new Verifications(
      new JobParts(
        spark,
        ReplicateOptions(),
        new OwnTables(spark, new MemoryTarget(spark)),
        null,
        null,
        new JobLog,
        new SharedCore(core)
      ),
      null,
      () => ()
    )

    def look(tables: MirroredTable*): Unit = core.published(
      tables.map(found => CatalogEntry(found, Some(found.target), None, "as it is")),
      200,
      0
    )

    def goesOn: Boolean = {
      queue.position = Some(250)
      core.read(300)
      core.take(2000).contains(ApplyCut(oid, 300))
    }
  }

  test("a table that is renamed while it is held is pinned, and its commits go on") {
    val held = new Held
    val renamed = SimTable(oid, "renamed", Vector("id")).definition
    held.core.redefined(oid, renamed, Map.empty)
    val pinned = held.verifications.pinAll(Seq(name -> Some(oid)), Seq(oid), 200)
    assert(held.goesOn, pinned)
    assert(pinned.map(_.map(_.state.name)) == Seq(Right(renamed.source.name)))
  }

  test("a table that is made again while it is held goes on, and the new one is compared later") {
    val held = new Held
    val again = SimTable(oid + 1, "orders", Vector("id")).definition
    held.queue.position = Some(250)
    held.look(again)
    val pinned = held.verifications.pinAll(Seq(name -> Some(oid)), Seq(oid), 200)
    assert(held.goesOn, pinned)

    held.queue.position = None
    held.core.applied(oid, 300, None, 3000)
    held.look(again)
    assert(held.core.state.tables(oid).isLeft)
    val later = held.verifications.pinAll(Seq(name -> Some(oid)), Seq(oid), 300)
    assert(later.map(_.left.map(_.canPass)) == Seq(Left(true)))
  }
}
