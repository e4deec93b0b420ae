package io.sparkpgoutput.lake.apply

import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger

import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration.Duration
import scala.concurrent.{Await, Future}
import scala.util.Random

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.types.IntegerType

import io.sparkpgoutput.DeltaTests
import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.lake.catalog.ReplicaIdentity
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct._
import io.sparkpgoutput.lake.queue.{CutLimit, CutMessages}
import io.sparkpgoutput.lake.target._

/** Which cuts the driver folds and writes directly, by the memory that they take. */
class CutMemorySuite extends DeltaTests {
  test("a long queue is written in several cuts if its table is written directly") {
    val target = IcebergTables.in(spark, "long")
    val history = new ServerHistory(new Random(1))
    val most = CutLimit(1L << 30)
    val long = CutLimit(bytes = 1 << 20, changes = 1000000)
    val table = history.wide
    val cuts = new CutApply(target, repairs = false, memory = 40000)
    def limit(table: ServerTable, queue: CutLimit) = cuts.limit(table.target, queue, most)
    val mark = table.madeIn(spark, target)
    assert(limit(table, long).changes < 1000000)
    assert(limit(table, CutLimit(bytes = 1 << 29, changes = 10)).bytes < most.bytes)
    assert(limit(table, CutLimit(bytes = 1 << 10, changes = 10)) == most)
    assert(limit(history.tables.find(_.key.isEmpty).get, long) == most)

    // A transaction is too large for a direct write, so the next cut has as many as a MERGE may take. The queue has
    // grown during this time, so the cut after it is small again.
    def write(lsn: Long, keys: Range) = {
      val rows = keys.map(key => table.insert(Seq(s"$key", "a", "1", "b", "c")))
      val messages = CutOfServer.transaction(lsn, table.relation +: rows)
      cuts.commit(
        spark,
        table.target,
        Map.empty,
        mark,
        lsn - 9,
        CutOfServer(table.oid, messages, lsn + 1)
      )
    }
    write(10, 1 to 101)
    assert(limit(table, long) == most)
    write(20, 102 to 202)
    assert(limit(table, long).changes < 1000000)
    write(30, 203 to 203)
    assert(limit(table, long).changes < 1000000)
    write(40, 204 to 304)
    assert(limit(table, long) == most)
  }

  /**
   * Writes cuts of tables. The commits of large ones begin, and go on when they are let.
   *
   * @param isEnding whether the end of the job interrupts a cut that waits for memory
   */
  final private class WaitingCuts(namespace: String, names: Seq[String], isEnding: Boolean) {
    val target = IcebergTables.in(spark, namespace)
    private val table = new ServerHistory(new Random(1)).wide
    private val mark = MarkName("job", table.oid, 0)
    private val (begun, goesOn, waits) =
      (new CountDownLatch(1), new CountDownLatch(1), new CountDownLatch(1))
    private val (now, most) = (new AtomicInteger, new AtomicInteger)

    private val slow = new TargetBehind(target) {
      override def commit(
          session: SparkSession,
          table: String,
          name: MarkName,
          expected: Option[Long],
          lsn: Long
      )(write: TargetWrite): Unit = {
        assert(write.isInstanceOf[TargetWrite.Direct])
        if (table != "small") {
          most.accumulateAndGet(now.incrementAndGet(), math.max(_, _))
          begun.countDown()
          goesOn.await()
        }
        super.commit(session, table, name, expected, lsn)(write)
        if (table != "small") now.decrementAndGet(): Unit
      }
    }

    private def waiting(oid: Long)(wait: => Unit): Unit = {
      assert(oid == table.oid && waits.getCount > 0)
      waits.countDown()
      wait
      if (isEnding) throw new InterruptedException
    }
    private val cuts = new CutApply(slow, repairs = false, waiting = waiting(_), memory = 60000)

    names.foreach { name =>
      target.create(name, table.target.schema, table.key, Map.empty)
      target.commit(spark, name, mark, None, 1)(
        TargetWrite.Direct(_ => DirectChange(Map.empty, Vector.empty))
      )
    }

    def write(name: String, keys: Range): CutResult = {
      val rows = keys.map(key => table.insert(Seq(s"$key", "a", "1", "b", "c")))
      val messages = CutOfServer.transaction(10, table.relation +: rows)
      val to = table.target.copy(target = name)
      cuts.commit(spark, to, Map.empty, mark, 1, CutOfServer(table.oid, messages, 11))
    }

    /** Waits until the commit of a large cut has begun. */
    def begin(): Unit = begun.await()

    /** Waits until a cut waits for memory, and lets the commits of large cuts go on. */
    def goOn(): Unit = {
      waits.await()
      goesOn.countDown()
    }

    /** The most commits of large cuts at one time. */
    def mostAtOnce: Int = most.get
  }

  test("large cuts wait for memory, and small ones do not") {
    val names = Seq("one", "two", "small")
    val cuts = new WaitingCuts("room", names, isEnding = false)
    val large = names.take(2).map(name => Future(cuts.write(name, 1 to 101)))
    cuts.begin()
    assert(cuts.write("small", 1 to 3).changes == 3)
    cuts.goOn() // One of the large cuts says that it waits, so another table can have its place.
    assert(large.map(Await.result(_, Duration.Inf).changes) == Seq(101, 101))
    assert(cuts.mostAtOnce == 1)
    assert(names.map(cuts.target.read(spark, _).count()) == Seq(101, 101, 3))
  }

  test("the end of a job interrupts a cut that has its memory, and the next one does not wait") {
    val cuts = new WaitingCuts("ending", Seq("one", "two", "three"), isEnding = true)
    val first = Future(cuts.write("one", 1 to 101))
    cuts.begin()
    val interrupted = Future(cuts.write("two", 1 to 101))
    cuts.goOn()
    assert(Await.result(first, Duration.Inf).changes == 101)
    assert(Await.ready(interrupted, Duration.Inf).value.exists(_.isFailure))
    assert(cuts.write("three", 1 to 101).changes == 101)
  }

  /** Notes whether each write of a cut is a direct one, and refuses direct ones if it is asked to. */
  final private class NotedTarget(target: Target, refuses: Boolean = false)
      extends TargetBehind(target) {
    var writes = Vector.empty[TargetWrite]
    def direct: Seq[Boolean] = writes.map(_.isInstanceOf[TargetWrite.Direct])

    override protected def written(write: TargetWrite): TargetWrite = {
      writes = writes :+ write
      if (refuses && direct.last) throw new NotDirect("the test refuses it")
      write
    }
  }

  /** A cut that counts how often its messages are read. */
  final private class CountedCut(cut: CutOfServer) extends CutMessages {
    var reads = 0
    override def changes: Long = cut.changes
    override def bytes: Long = cut.bytes
    override def end: Long = cut.end
    override def foreach(take: (Long, Array[Byte]) => Unit): Unit = {
      reads += 1
      cut.foreach(take)
    }
  }

  test("executors fold a large cut with a TRUNCATE, so the driver gives its rows to no query") {
    val target = new NotedTarget(IcebergTables.in(spark, "truncated"))
    val table = new ServerHistory(new Random(1)).wide
    val mark = table.madeIn(spark, target)
    val cuts = new CutApply(target, repairs = false, memory = 60000)
    def cut(lsn: Long, keys: Range) = {
      val rows = keys.map(key => table.insert(Seq(s"$key", "a", "1", "b", "c")))
      val messages = table.relation +: StreamMessages.truncate(Seq(table.oid)) +: rows
      CutOfServer(table.oid, CutOfServer.transaction(lsn, messages), lsn + 1)
    }
    def local = target.writes.last match {
      case TargetWrite.Overwrite(rows) =>
        rows.queryExecution.analyzed.exists(_.isInstanceOf[LocalRelation])
      case other => fail(s"$other")
    }
    def commit(expected: Long, cut: CutOfServer) =
      cuts.commit(spark, table.target, Map.empty, mark, expected, cut)
    assert(commit(1, cut(10, 1 to 101)).byMerge.exists(_.contains("truncate")) && !local)
    assert(commit(11, cut(20, 1 to 3)).byMerge.isEmpty && local)
    assert(target.read(spark, table.name).count() == 3)
  }

  test("the memory of a cut has room for the columns that have no value") {
    val names = (1 to 200).map(number => s"c$number")
    val table = new ServerTable(
      17,
      "null",
      ReplicaIdentity.Default,
      Seq("c1"),
      names.map(_ -> TypeOids.Int4),
      names.map(_ -> IntegerType)
    )
    val target = new NotedTarget(IcebergTables.in(spark, "nulls"))
    val mark = table.madeIn(spark, target)
    val rows = (1 to 101).map(key => table.insert(s"$key" +: names.tail.map(_ => null)))
    val messages = CutOfServer.transaction(10, table.relation +: rows)
    // In the fold, each of these rows has more than 1,600 bytes.
    val cuts = new CutApply(target, repairs = false, memory = 101 * 1600)
    cuts.commit(spark, table.target, Map.empty, mark, 1, CutOfServer(table.oid, messages, 11))
    assert(target.direct.tail == Seq(false)) // The first one is that of `madeIn`.
  }

  test("if a large cut was not written directly, the driver does not fold the next one") {
    val made = IcebergTables.in(spark, "refused")
    val table = new ServerHistory(new Random(1)).wide
    val mark = table.madeIn(spark, made)
    val target = new NotedTarget(made, refuses = true)
    val cuts = new CutApply(target, repairs = false, memory = 100000)
    // The next but one can be written directly again, also if no long queue has come in between.
    val cutKeys = Seq(10L -> (1 to 101), 20L -> (102 to 202), 30L -> (203 to 303))
    val reads = cutKeys.map { case (lsn, keys) =>
      val rows = keys.map(key => table.insert(Seq(s"$key", "a", "1", "b", "c")))
      val messages = CutOfServer.transaction(lsn, table.relation +: rows)
      val cut = new CountedCut(CutOfServer(table.oid, messages, lsn + 1))
      val expected = if (lsn == 10) 1L else lsn - 9
      cuts.commit(spark, table.target, Map.empty, mark, expected, cut)
      val queue = CutLimit(bytes = if (lsn == 10) 1 << 20 else 1000, changes = 10)
      cuts.limit(table.target, queue, CutLimit(1L << 30))
      cut.reads
    }
    assert(reads == Seq(2, 1, 2) && target.read(spark, table.name).count() == 303)
  }
}
