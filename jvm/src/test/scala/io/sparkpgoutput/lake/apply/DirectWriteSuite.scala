package io.sparkpgoutput.lake.apply

import java.nio.file.Files
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable
import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration.Duration
import scala.concurrent.{Await, Future}
import scala.util.{Random, Success, Try}

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.functions.{lit, udf}
import org.apache.spark.sql.types.{IntegerType, StringType, StructType, VarcharType}

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.catalog.{ReplicaIdentity, TableMode}
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct._
import io.sparkpgoutput.lake.target._
import io.sparkpgoutput.{DeltaTests, TakesLong}

/** Random histories of a server that are written directly into tables of Delta and Iceberg. */
class DirectWriteSuite extends DeltaTests {
  private def isTruncated(cut: CutOfServer) = {
    var found = false
    cut.foreach((_, message) => found ||= message(0) == 'T')
    found
  }

  /**
   * Applies cuts to the tables with a key.
   *
   * @param beside what runs beside each second commit to a table, and after the others
   * @param hasNoJobs whether no commit runs a job of Spark
   * @param most how many tables there are at most
   */
  private def run(
      target: Target,
      seed: Long,
      cuts: Int,
      transactions: Int,
      properties: Map[String, String],
      hasNoJobs: Boolean = false,
      most: Int = Int.MaxValue
  )(beside: String => Unit): Unit = {
    val history = new ServerHistory(new Random(seed))
    val tables = history.tables.filter(_.key.nonEmpty).take(most)
    val seen = mutable.Map.empty[Long, Array[Byte]]
    val marks = mutable.Map.empty[Long, Long]
    def name(table: ServerTable) = MarkName("job", table.oid, 0)
    tables.foreach { table =>
      target.create(table.name, table.target.schema, table.key, properties)
      val none = spark.createDataFrame(new java.util.ArrayList[Row], table.target.schema)
      target.commit(spark, table.name, name(table), None, 1)(TargetWrite.Append(none))
      marks(table.oid) = 1
    }
    (1 to cuts).foreach { number =>
      val batch = history.batch(transactions)
      tables.foreach { table =>
        val cut = CutOfServer(table.oid, batch, history.end, seen.get(table.oid))
        cut.definition.foreach(seen.update(table.oid, _))
        val other = if (number % 2 == 0) Future(beside(table.name)) else Future.unit
        val job = nextJob()
        val found = new CutApply(target, repairs = false).commit(
          spark,
          table.target,
          Map.empty,
          name(table),
          marks(table.oid),
          cut
        )
        if (hasNoJobs && !isTruncated(cut)) assert(nextJob() == job + 1, s"${table.name} ran a job")
        Await.result(other, Duration.Inf)
        if (number % 2 == 1) beside(table.name)
        assert(found.byMerge.isEmpty)
        if (found.committed) marks(table.oid) = history.end
        if (number % 3 == 0 || found.changes > 9)
          assert(table.contentOf(target, spark) == table.content, s"${table.name}, seed $seed")
      }
    }
  }

  Seq(
    "delta" -> Map.empty[String, String],
    "iceberg" -> Map("format-version" -> "3")
  ).foreach { case (format, properties) =>
    test(
      s"$format: the rows stay while files are rewritten beside the commits",
      TakesLong.when(format == "delta"): _*
    ) {
      // Room for the keys of a few files in memory, and of a few on disk.
      val keys = new KeyCache(2000, 2000, Files.createTempDirectory("keys").toFile)
      val target =
        if (format == "iceberg") IcebergTables.in(spark, "rewritten", keys)
        else Targets.of(spark, Files.createTempDirectory("direct").toString, Some(format), keys)
      val rewrites = new AtomicInteger
      run(target, 2, 12, 2, properties, most = 1)(table =>
        if (target.compact(table)) rewrites.incrementAndGet()
      )
      assert(rewrites.get >= 2)
    }
  }

  test("Iceberg: a commit runs no job of Spark") {
    run(IcebergTables.in(spark, "history"), 2, 2, 20, Map.empty, hasNoJobs = true)(_ => ())
  }

  private def keepsNulls(target: Target): Unit = {
    val table = new ServerHistory(new Random(1)).wide
    val name = table.madeIn(spark, target)
    val rows = Seq(Seq("1", "a", "1", "b", "c"), Seq("1", "z", "1", "b", "c"))
    def commit(expected: Long, lsn: Long, sent: Array[Byte]*): Unit = {
      val messages = CutOfServer.transaction(lsn, table.relation +: sent)
      val found = new CutApply(target, repairs = false).commit(
        spark,
        table.target,
        Map.empty,
        name,
        expected,
        CutOfServer(table.oid, messages, lsn + 1)
      )
      assert(found.byMerge.isEmpty)
    }
    commit(1, 10, table.insert(rows.head), table.insert("2" +: rows.head.tail))
    target.alter(table.name, Seq(ColumnChange.Add("mine", IntegerType)))
    commit(11, 20, table.update(rows.head, rows(1)))
    def found = target.read(spark, table.name).select("id", "name", "mine").orderBy("id")
      .collect().toSeq
    assert(found == Seq(Row(1, "z", null), Row(2, "a", null)))
    assert(target.compact(table.name))
    assert(found == Seq(Row(1, "z", null), Row(2, "a", null)))
    // A cut with a TRUNCATE is not written directly.
    commit(21, 30, StreamMessages.truncate(Seq(table.oid)), table.insert(rows.head))
    assert(found == Seq(Row(1, "a", null)))
  }

  test("the rows of a partition are made when they are written, and not kept") {
    var made = 0
    def rows(number: Int) = new IndexedSeq[InternalRow] {
      override def length: Int = number
      override def apply(index: Int): InternalRow = { made += 1; InternalRow(index) }
    }
    val parts = DirectTable.byPartition(rows(10), hasPartitions = true)(_.getInt(0) % 2)
    assert(parts.map(_._1) == Seq(0, 1) && made == 10)
    assert(parts.map(_._2.map(_.getInt(0)).sum) == Seq(20, 25) && made == 20)
    made = 0
    intercept[NotDirect](DirectTable.byPartition(rows(100000), hasPartitions = true)(_.getInt(0)))
    assert(made < 100)
  }

  /** A target of each format. */
  private def targets(name: String, keys: => KeyCache = KeyCache.none): Seq[Target] = Seq(
    Targets.of(spark, Files.createTempDirectory(name).toString, Some("delta"), keys),
    IcebergTables.in(spark, name, keys)
  )

  test(
    "a cut that needs many values of the target is written by a MERGE, with the same rows",
    TakesLong
  ) {
    def written(to: Target, mode: TableMode, mostOld: Long) = {
      val table = new WrittenTable(spark, to, ReplicaIdentity.Default, mode, mostOld = mostOld)
      import table.row
      import table.server._
      val long = "T" * 5000
      val inserts = Seq(row(1, "a", "T1"), row(2, "a", long), row(3, "a", "T3"), row(4, "a", "x"))
      table.cut(10L -> inserts.map(insert))
      table.sql("UPDATE {} SET mine = 7 WHERE id < 3")
      val few = table.cut(
        20L -> Seq(update(row(3, "a", "T3"), row(3, "b", "T3")), delete(row(4, "a", "x")))
      )
      val many = table.cut(
        30L -> Seq(update(row(1, "a", "T1"), row(1, "b", "T1")), insert(row(4, "c", "d"))),
        40L -> Seq(update(row(2, "a", long), row(5, "a", long)), delete(row(3, "b", "T3")))
      )
      val found = to.read(spark, name).collect().map(_.toString).sorted.toSeq
      (few.byMerge, many.byMerge, found)
    }
    // Each mode with one format, because the histories have all of them.
    val modes = Seq(TableMode.Mirror, TableMode.Marking, TableMode.Versions)
    val (direct, merged) = (targets("direct"), targets("merged"))
    for ((mode, at) <- modes.zipWithIndex) {
      val (one, other) = (direct(at % direct.length), merged(at % direct.length))
      withClue(s"${one.format}, $mode: ") {
        val (_, noReason, expected) = written(one, mode, mostOld = 10000)
        val (few, many, rows) = written(other, mode, mostOld = 5000)
        assert(few.isEmpty && noReason.isEmpty)
        assert(many.exists(_.contains("of values that only the target has")))
        assert(rows == expected && rows.length >= 3)
      }
    }
  }

  /** A target that watches what direct commits read. */
  final private class WatchedTarget(target: Target) extends TargetBehind(target) {

    /** The files that were still open after a read. */
    var left = Vector.empty[String]

    /** The columns and the number of rows of each read. */
    var reads = Vector.empty[(Seq[String], Int)]

    override protected def written(write: TargetWrite) = write match {
      case TargetWrite.Direct(change) => TargetWrite.Direct(table => change(watched(table)))
      case query                      => query
    }

    private def watched(table: DirectTable) = new DirectTable {
      override def schema: StructType = table.schema
      override def column(at: Int): String = table.column(at)
      override def files: Seq[DirectFile] = table.files
      override def keys: TableKeys = table.keys
      override def read[T](file: DirectFile, columns: Seq[Int])(
          use: Iterator[InternalRow] => T
      ): T = {
        var count = 0
        try table.read(file, columns)(rows => use(rows.tapEach(_ => count += 1)))
        finally
          WatchedTarget.this.synchronized {
            reads :+= (columns.map(schema(_).name) -> count)
            left ++= openFiles.filter(_ == file.path.split('/').last)
          }
      }
    }
  }

  /** The names of the files that this process has open, on a system that says it. */
  private def openFiles: Seq[String] = {
    val links = new java.io.File("/proc/self/fd").listFiles
    Option(links).toSeq.flatten.flatMap(link =>
      Try(Files.readSymbolicLink(link.toPath).getFileName.toString).toOption
    )
  }

  test("the files of a table that is forgotten are read again for the next commit") {
    for (to <- targets("forgotten")) withClue(s"${to.format}: ") {
      val table = new WrittenTable(spark, to, ReplicaIdentity.Default)
      import table.server._
      table.cut(10L -> Seq(insert(table.row(1, "a", "b"))))
      to.forgetOthers(Set(name))
      assert(to.files(name).exists(_.files == 1))
      to.forgetOthers(Set("another"))
      assert(to.files(name).isEmpty)
      table.cut(20L -> Seq(insert(table.row(2, "a", "b"))))
      assert(to.files(name).exists(_.files == 2) && to.read(spark, name).count() == 2)
    }
  }

  test("the next lookup does not read the file of a commit to know its keys") {
    def keys = new KeyCache(1 << 20, 0, Files.createTempDirectory("keys").toFile)
    for (to <- targets("kept", keys); mode <- Seq(TableMode.Mirror, TableMode.Versions))
      withClue(s"${to.format}, $mode: ") {
        val watched = new WatchedTarget(to)
        val table = new WrittenTable(spark, watched, mode = mode)
        import table.row
        import table.server._
        table.cut(10L -> (1 to 5).map(id => insert(row(id, "0", "b"))))
        val texts = mutable.Map.empty[Int, String].withDefaultValue("0")
        for ((ids, round) <- Seq(2 to 3, 3 to 5, 1 to 4).zip(1 to 3))
          table.cut(10L + 10 * round -> ids.map { id =>
            val before = row(id, texts(id), "b")
            texts(id) = round.toString
            update(before, row(id, texts(id), "b"))
          })
        assert(watched.reads.nonEmpty)
        val ofKeys = Seq(Seq("id"), Seq("id", TableMode.Versions.ToLsn))
        assert(!watched.reads.exists(read => ofKeys.contains(read._1)))
      }
  }

  test("no rewrite of files waits while a query writes the table", TakesLong) {
    import DirectWriteSuite._
    for (to <- targets("queried")) withClue(s"${to.format}: ") {
      val table = new WrittenTable(spark, to, ReplicaIdentity.Default)
      import table.server._
      (1 to 8).foreach(id => table.cut(10L * id -> Seq(insert(table.row(id, "a", "b")))))
      query = (new CountDownLatch(1), new CountDownLatch(1))
      val waits = udf { (id: Int) =>
        query._1.countDown()
        query._2.await()
        id
      }
      val rows = to.read(spark, name).limit(1).withColumn("id", waits(lit(9)))
      val written = Future(
        to.commit(spark, name, WrittenTable.Name, Some(81), 91)(TargetWrite.Append(rows))
      )
      query._1.await()
      val compaction = Future(to.compact(name))
      val isDone = Try(Await.result(compaction, Duration(20, "s")))
      query._2.countDown()
      Await.result(written, Duration.Inf)
      assert(isDone == Success(false))
      assert(to.compact(name) && to.read(spark, name).count() == 9)
    }
  }

  test("queries that leave out files by their statistics find NULLs, also after a rewrite") {
    for (to <- targets("statistics")) withClue(s"${to.format}: ") {
      val table = new WrittenTable(spark, to, ReplicaIdentity.Default)
      import table.server._
      (1 to 8).foreach { id =>
        table.cut(10L * id -> Seq(insert(table.row(id, if (id % 2 == 0) null else "a", "b"))))
      }
      def nulls =
        Seq("v", "mine").map(column => to.read(spark, name).where(s"$column IS NULL").count())
      assert(nulls == Seq(4, 8))
      assert(to.compact(name) && nulls == Seq(4, 8))
    }
  }

  test(
    "a VARCHAR is written directly with the rows and errors of a MERGE, if its length is the same"
  ) {
    val target = Targets.of(spark, Files.createTempDirectory("varchar").toString, Some("delta"))
    def written(statement: String*) = {
      val table = new WrittenTable(spark, target, v = VarcharType(3))
      statement.foreach(table.sql)
      import table.{row, server}
      val found = Seq(
        table.cut(20L -> (1 to 3).map(id => server.insert(row(id, "äöü", "b")))),
        table.cut(30L -> Seq(
          server.update(row(1, "äöü", "b"), row(1, "é ", "b")),
          server.update(row(2, "äöü", "b"), row(7, "äöü", "c")),
          server.delete(row(3, "äöü", "b"))
        ))
      )
      val errors = Seq("four", "ab  ").map { text =>
        val wrong = Seq(server.insert(row(9, text, "b")))
        intercept[PgOutputException](table.cut(40L -> wrong)).getMessage
      }
      assert(errors.forall(_.contains("more than 3 characters")))
      (found.map(_.byMerge).distinct, (table.server.contentOf(target, spark), errors))
    }
    val (Seq(none), direct) = written(): @unchecked
    val (Seq(feed), merged) =
      written("ALTER TABLE {} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"): @unchecked
    assert(none.isEmpty && feed.exists(_.contains("changeDataFeed")) && direct == merged)
    val (Seq(longer), _) = written("ALTER TABLE {} ALTER COLUMN v TYPE VARCHAR(9)"): @unchecked
    assert(longer.contains("the column v has the type VARCHAR(9), and the changes have VARCHAR(3)"))
  }

  test("the values of a row are read up to this row only, and the file is closed then") {
    for {
      to <- targets("watched")
      mostOld <- Seq(10000L, 1L)
    } withClue(s"${to.format}, $mostOld: ") {
      val watched = new WatchedTarget(to)
      val table =
        new WrittenTable(spark, watched, mostOld = mostOld)
      import table.row
      import table.server._
      table.cut(10L -> (1 to 20).map(id => insert(row(id, "a", s"T$id"))))
      val second = to.read(spark, name).select("id").collect()(1).getInt(0)
      val done = table.cut(
        20L -> Seq(update(row(second, "a", s"T$second"), row(second, "b", s"T$second")))
      )
      assert(done.byMerge.nonEmpty == (mostOld == 1))
      assert(watched.reads.collect { case (Seq("big", "mine"), rows) => rows } == Seq(2))
      assert(watched.left.isEmpty)
    }
  }

  test(
    "a MERGE sees a column that another process has added since the last direct commit",
    TakesLong
  ) {
    val target = Targets.of(spark, Files.createTempDirectory("added").toString, Some("delta"))
    val columns =
      new StructType().add("id", IntegerType).add("v", StringType).add("big", StringType)
    target.create("t", columns, Seq("id"), Map.empty)
    target.commit(spark, "t", WrittenTable.Name, None, 1)(
      TargetWrite.Direct(_ => DirectChange(Map.empty, Vector.empty))
    )
    val table = new WrittenTable(spark, target, made = Some("t"))
    import table.{row, server}
    assert(table.cut(10L -> Seq(server.insert(row(1, "a", "b")))).byMerge.isEmpty)
    DeltaLog.clearCache() // The log of another process is another one, too.
    table.sql("ALTER TABLE {} ADD COLUMNS (mine INT)")
    table.sql("UPDATE {} SET mine = 7")
    table.memory = 0
    val again = 20L -> Seq(server.delete(row(1, "a", "b")), server.insert(row(1, "c", "b")))
    val problem = intercept[PgOutputException](table.cut(again))
    assert(problem.getCondition == "PGOUTPUT_COMMIT_CONFLICT")
    assert(table.cut(again).committed)
    assert(target.read(spark, "t").collect().toSeq == Seq(Row(1, "c", "b", null)))
  }

  test(
    "a column that a user adds is NULL in all rows, also after updates and rewrites",
    TakesLong
  ) {
    keepsNulls(
      Targets.of(spark, Files.createTempDirectory("direct").toString, Some("delta"))
    )
    keepsNulls(IcebergTables.in(spark, "nulls"))
  }
}

private object DirectWriteSuite {

  /** Says that a query has begun, and lets it go on. */
  @volatile var query = (new CountDownLatch(0), new CountDownLatch(0))
}
