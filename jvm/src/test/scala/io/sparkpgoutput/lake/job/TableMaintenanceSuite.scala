package io.sparkpgoutput.lake.job

import java.time.{Duration, Instant}

import scala.collection.mutable

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.lake.apply.MemoryTarget
import io.sparkpgoutput.lake.target.{OwnTables, TargetBehind}

class TableMaintenanceSuite extends SparkSessionTests {

  /** A target. A part of its maintenance fails if `problems` has an error for the part. */
  private class Failing extends TargetBehind(new MemoryTarget(spark)) {
    val done = mutable.Buffer.empty[String]
    val problems = mutable.Map.empty[String, String]

    private def attempt(part: String): Unit = {
      done += part
      problems.get(part).foreach(text => throw new IllegalArgumentException(text))
    }
    override def checkpoint(table: String): Unit = attempt("checkpoint")
    override def keepKeys(table: String): Unit = attempt("keepKeys")
    override def expire(table: String, since: Instant, versions: Int): Unit = attempt("expire")
    override def compact(table: String): Boolean = {
      attempt("compact")
      false
    }

    def doneBy(maintenance: TableMaintenance): Seq[String] = {
      done.clear()
      maintenance.maintain("t")
      done.toSeq
    }
  }

  private val parts = Seq("expire", "checkpoint", "keepKeys", "compact")

  private def maintained(target: Failing, pause: Duration, options: ReplicateOptions) = {
    val job =
      new JobParts(spark, options, new OwnTables(spark, target), null, null, new JobLog, null)
    (job, new TableMaintenance(job, null, () => false, pause))
  }

  for (failing <- parts)
    test(s"if $failing fails, the other parts run, and it is not tried again at once") {
      val target = new Failing
      val (job, maintenance) = maintained(target, Duration.ofHours(1), ReplicateOptions())
      target.problems(failing) = "away"
      assert(target.doneBy(maintenance) == parts)
      assert(target.doneBy(maintenance) == parts.filter(_ != failing))
      val lines = job.log.take()
      assert(
        lines.length == 1 && lines.head.contains("The table t ") && lines.head.contains("away")
      )
    }

  test("a part that has failed is tried again later, and each cause is logged once") {
    val target = new Failing
    val (job, maintenance) = maintained(target, Duration.ZERO, ReplicateOptions())
    def lines(problem: Option[String]) = {
      problem.fold(target.problems.clear())(target.problems("expire") = _)
      assert(target.doneBy(maintenance) == parts)
      job.log.take().length
    }
    val causes = Seq(Some("away"), Some("away"), Some("denied"), None, Some("denied"))
    assert(causes.map(lines) == Seq(1, 0, 1, 0, 1))
  }

  test("without maintenance, a table only gets its checkpoints, and the cache its keys") {
    val target = new Failing
    val (_, maintenance) =
      maintained(target, Duration.ZERO, ReplicateOptions(maintains = false))
    assert(target.doneBy(maintenance) == Seq("checkpoint", "keepKeys"))
  }
}
