package io.sparkpgoutput.lake.job

import java.time.{Duration, Instant}
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.collection.mutable
import scala.util.Random

import org.scalatest.concurrent.Eventually.eventually
import org.scalatest.concurrent.PatienceConfiguration.Timeout
import org.scalatest.time.{Seconds, Span}

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.lake.apply.{MemoryTarget, ServerHistory}
import io.sparkpgoutput.lake.catalog.MirroredTable
import io.sparkpgoutput.lake.core.{JobCore, JobSettings, JobState, TableState, TableStatus}
import io.sparkpgoutput.lake.target.{OwnTables, Target, TargetBehind}

class TableMaintenanceSuite extends SparkSessionTests {

  /** A target. A part of its maintenance fails if `problems` has an error for the part. */
  private class Failing(isMaintained: Boolean = false)
      extends TargetBehind(new MemoryTarget(spark)) {
    val done = mutable.Buffer.empty[String]
    val problems = mutable.Map.empty[String, String]
    var kept = Option.empty[String]
    var orphans = Instant.EPOCH
    override def maintainer: Option[String] = Option.when(isMaintained)("A service")

    private def attempt(part: String): Unit = {
      done += part
      problems.get(part).foreach(text => throw new IllegalArgumentException(text))
    }
    override def checkpoint(table: String): Unit = attempt("checkpoint")
    override def keepKeys(table: String): Unit = attempt("keepKeys")
    override def expire(table: String, since: Instant, versions: Int): Option[String] = {
      attempt("expire")
      kept
    }
    override def removeOrphans(table: String, before: Instant): Option[String] = {
      attempt("removeOrphans")
      orphans = before
      kept
    }
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

  /** A job with `once` does not rest after a part. */
  private def maintained(target: Failing, pause: Duration, options: ReplicateOptions) = {
    val all = options.copy(once = true)
    val job = new JobParts(spark, all, new OwnTables(spark, target), null, null, new JobLog, null)
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

  test("two parts of a table that fail for one cause are one line") {
    val target = new Failing
    val (job, maintenance) = maintained(target, Duration.ZERO, ReplicateOptions())
    for (attempt <- 1 to 2) {
      for (part <- Seq("checkpoint", "compact"))
        target.problems(part) = s"denied (status code 403, id $part$attempt)"
      assert(target.doneBy(maintenance) == parts)
      assert(job.log.take().length == (if (attempt == 1) 1 else 0))
    }
    target.problems("compact") = "away"
    target.doneBy(maintenance)
    assert(job.log.take().length == 1)
  }

  test("a reason for which a table keeps its old versions is logged once") {
    val target = new Failing
    val (job, maintenance) = maintained(target, Duration.ZERO, ReplicateOptions())
    val reasons = Seq(None, Some("one"), Some("one"), None, Some("one"), Some("two"))
    val lines = reasons.map { reason =>
      target.kept = reason
      target.doneBy(maintenance)
      job.log.take()
    }
    assert(lines.map(_.length) == Seq(0, 1, 0, 0, 0, 1) && lines(1).head.contains("of t: one."))
  }

  test("files that no version needs are removed once a day, if they are old") {
    for (retain <- Seq(Duration.ofHours(1), Duration.ofDays(7))) {
      val target = new Failing
      val options = ReplicateOptions(removesOrphans = true, retain = retain)
      val (_, maintenance) = maintained(target, Duration.ZERO, options)
      val expected = Seq("expire", "removeOrphans") ++ parts.tail
      assert(target.doneBy(maintenance) == expected && target.doneBy(maintenance) == parts)
      val age = Duration.between(target.orphans, Instant.now)
      assert(age.toHours == Seq(Duration.ofDays(3), retain).max.toHours)
    }
  }

  private val table = new ServerHistory(new Random(1)).tables.head.target

  /** Ends a job that has committed a cut of a table. */
  private def ended(
      target: Target,
      options: ReplicateOptions = ReplicateOptions(once = true),
      others: Seq[MirroredTable] = Nil,
      gathering: Duration = Duration.ZERO
  )(body: (JobParts, TableMaintenance) => Unit): Unit = {
    val none = JobState("job", "1", 1, "db", "slot", Seq("all"), "lake", "memory", confirmed = 0)
    val state = (table +: others).foldLeft(none)((state, table) =>
      state.put(TableState(table, TableStatus.Live, generation = 1, mark = Some(1L)))
    )
    val core = new SharedCore(new JobCore(JobSettings(), state))
    val job =
      new JobParts(spark, options, new OwnTables(spark, target), null, null, new JobLog, core)
    val threads = new JobThreads(spark, "a test", copiers = 1)
    try {
      job.committed(table.source.oid, 1)
      body(job, new TableMaintenance(job, threads, () => false, gathering = gathering))
    } finally threads.close()
  }

  test("a table that is behind is maintained after some commits only") {
    val target = new Failing
    ended(target) { (_, maintenance) =>
      def commit() = maintenance.after(table.source.oid, waiting = 20000)
      (1 to 15).foreach(_ => commit())
      Thread.sleep(50)
      assert(target.done.isEmpty)
      commit()
      val end = System.nanoTime() + 10000000000L
      while (target.done.length < parts.length && System.nanoTime() < end) Thread.sleep(1)
      assert(target.done.toSeq == parts)
    }
  }

  test("a job that ends by itself waits for the maintenance of the tables that it has written") {
    val target = new Failing
    ended(target) { (_, maintenance) =>
      maintenance.last(() => Thread.sleep(1))
      assert(target.done.toSeq == parts)
    }
  }

  test("the commits of some seconds share the rewrites that are due") {
    val gathering = Duration.ofMillis(400)
    val due = new AtomicInteger(3)
    @volatile var rewrites = Seq.empty[Long]
    val checkpoints = new AtomicInteger
    val target = new TargetBehind(new MemoryTarget(spark)) {
      override def checkpoint(table: String): Unit = checkpoints.incrementAndGet(): Unit
      override def compact(table: String): Boolean = {
        rewrites :+= System.nanoTime()
        due.decrementAndGet() > 0
      }
    }
    ended(target, ReplicateOptions(maintenanceShare = 100), gathering = gathering) {
      (_, maintenance) =>
        val begin = System.nanoTime()
        for (commit <- 1 to 3) {
          maintenance.after(table.source.oid)
          eventually(Timeout(Span(10, Seconds)))(assert(checkpoints.get >= commit))
        }
        eventually(Timeout(Span(10, Seconds)))(assert(rewrites.length == 3))
        assert(rewrites.head - begin >= gathering.toNanos)
        Thread.sleep(2 * gathering.toMillis)
        assert(rewrites.length == 3)
    }
  }

  test("a table whose turn comes while a query writes it is rewritten after the query") {
    val turns = new AtomicInteger
    @volatile var queried = true
    @volatile var rewrites = Seq.empty[Boolean]
    val target = new TargetBehind(new MemoryTarget(spark)) {
      override def isQueried(table: String): Boolean = {
        turns.incrementAndGet()
        queried
      }
      override def compact(table: String): Boolean = {
        rewrites :+= queried
        false
      }
    }
    ended(target, ReplicateOptions()) { (_, maintenance) =>
      maintenance.after(table.source.oid)
      eventually(Timeout(Span(10, Seconds)))(assert(turns.get == 1))
      Thread.sleep(50)
      assert(rewrites.isEmpty)
      queried = false
      maintenance.after(table.source.oid)
      eventually(Timeout(Span(10, Seconds)))(assert(rewrites == Seq(false)))
    }
  }

  test("the rest after a rewrite delays the next rewrite, and no checkpoint") {
    val took = Duration.ofMillis(200)
    @volatile var times = Seq.empty[(String, Long)]
    val target = new TargetBehind(new MemoryTarget(spark)) {
      private def note(part: String): Unit = times :+= part -> System.nanoTime()
      override def checkpoint(table: String): Unit = note("checkpoint")
      override def compact(table: String): Boolean = {
        Thread.sleep(took.toMillis)
        note("compact")
        false
      }
    }
    ended(target, ReplicateOptions(maintenanceShare = 20)) { (_, maintenance) =>
      def hasCommitted(parts: Int) = {
        maintenance.after(table.source.oid)
        eventually(Timeout(Span(10, Seconds)))(assert(times.length >= parts))
      }
      hasCommitted(2)
      hasCommitted(3)
      hasCommitted(5)
      assert(times.map(_._1) == Seq("checkpoint", "compact", "checkpoint", "checkpoint", "compact"))
      val Seq(first, second) = times.collect { case ("compact", nanos) => nanos }
      assert(second - first >= took.multipliedBy(5).toNanos)
    }
  }

  test("work after each commit does not delay rewrites for ever, and tables get them in turn") {
    @volatile var rewritten = Seq.empty[String]
    @volatile var nanos = 0L
    def takes(millis: Long): Unit = {
      Thread.sleep(millis)
      nanos += millis * 1000000
    }
    val target = new TargetBehind(new MemoryTarget(spark)) {
      override def keepKeys(table: String): Unit = Thread.sleep(20)
      override def expire(table: String, since: Instant, versions: Int): Option[String] = {
        takes(20)
        None
      }
      override def compact(table: String): Boolean = {
        takes(20)
        rewritten :+= table
        false
      }
    }
    val others = new ServerHistory(new Random(1)).tables.map(_.target).slice(1, 3)
    ended(target, ReplicateOptions(maintenanceShare = 20), others) { (_, maintenance) =>
      val begin = System.nanoTime()
      def seconds = (System.nanoTime() - begin) / 1e9
      while (seconds < 3) {
        // The table has more commits than the others.
        maintenance.after(table.source.oid)
        Thread.sleep(10)
        others.foreach(other => maintenance.after(other.source.oid))
      }
      val turns = (table +: others).map(table => rewritten.count(_ == table.target))
      assert(turns.min > 0 && turns.max - turns.min <= 2, rewritten)
      assert(nanos / 1e9 <= seconds * 0.3, rewritten)
    }
  }

  test("if a job is stopped, it does not wait for the maintenance") {
    val (begun, goesOn) = (new CountDownLatch(1), new CountDownLatch(1))
    val target = new TargetBehind(new MemoryTarget(spark)) {
      override def compact(table: String): Boolean = {
        begun.countDown()
        goesOn.await(60, TimeUnit.SECONDS)
      }
    }
    ended(target) { (job, maintenance) =>
      maintenance.last { () =>
        assert(begun.await(10, TimeUnit.SECONDS))
        job.stop()
      }
      assert(goesOn.getCount == 1)
      goesOn.countDown()
    }
  }

  test("without maintenance, a table only gets its checkpoints, and the cache its keys") {
    for (isMaintained <- Seq(false, true)) {
      val target = new Failing(isMaintained)
      val options = ReplicateOptions(maintains = isMaintained, removesOrphans = true)
      val (job, maintenance) = maintained(target, Duration.ZERO, options)
      (1 to 2).foreach(_ =>
        assert(target.doneBy(maintenance) == Seq("checkpoint", "keepKeys"))
      )
      assert(job.log.take().count(_.startsWith("A service maintains the tables")) ==
        (if (isMaintained) 1 else 0))
    }
  }
}
