package io.sparkpgoutput.lake.core

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.lake.core.JobCommand.ApplyCut
import io.sparkpgoutput.lake.core.TableStatus.Live

class JobDoneSuite extends AnyFunSuite {
  private val oid = 16400L
  private val definition = SimTable(oid, "orders", Vector("id")).definition
  private val start = JobState("job", "7", 1, "shop", "slot", Seq("all"), "lake", "delta", confirmed = 100)
    .put(TableState(definition, Live, generation = 1, mark = Some(100L)))

  /** A queue with one transaction, or none. */
  private class OneTransaction extends ChangeQueue {
    var position = Option.empty[Long]
    override def from = 100L
    override def oldest: Option[Long] = position
    override def changes: Long = position.size.toLong
    override def bytes: Long = changes
  }

  test("a job with everything up to an LSN is done, also while later changes are committed") {
    val core = new JobCore(JobSettings(), start, begin = 100)
    val queue = new OneTransaction
    core.queueBegun(oid, queue)
    core.published(Seq(CatalogEntry(definition, Some("orders"), None, "as it is")), 100, 0)
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
    assert(!core.has(oid, 180), "a verification needs a table that stands still")
  }
}
