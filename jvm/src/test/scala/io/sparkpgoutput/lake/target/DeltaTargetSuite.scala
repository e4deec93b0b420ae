package io.sparkpgoutput.lake.target

import java.lang.ref.SoftReference
import java.nio.file.{Files, Path}
import java.time.{Duration, Instant}

import scala.jdk.CollectionConverters._
import scala.util.{Random, Try}

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.delta.actions.SetTransaction
import org.apache.spark.sql.delta.{DeltaLog, DeltaOperations, Snapshot}
import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types._

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.apply.ServerHistory
import io.sparkpgoutput.lake.catalog.TableColumn
import io.sparkpgoutput.lake.core.{JobState, MarkName, TableState, TableStatus}
import io.sparkpgoutput.lake.direct._
import io.sparkpgoutput.{DeltaTests, TakesLong}

/** Tables of Delta. */
class DeltaTargetSuite extends DeltaTests {
  import OldTables._

  private val schema = new StructType().add("id", IntegerType)
  private val name = MarkName("job", 1, 0)

  /** A VACUUM runs many small queries. By default, it also writes two commits that say when it ran. */
  private val settings =
    Seq("spark.sql.adaptive.enabled", "spark.databricks.delta.vacuum.logging.enabled")

  override def beforeAll(): Unit = {
    super.beforeAll()
    settings.foreach(spark.conf.set(_, "false"))
  }
  override def afterAll(): Unit = {
    settings.foreach(spark.conf.unset)
    super.afterAll()
  }

  test("a setting with which Delta would remove marks is refused, and no table is made") {
    val root = Files.createTempDirectory("expiry")
    val setting = TableProperties.MarkExpiryDefault
    spark.conf.set(setting, "interval 1 hour")
    try {
      val error = intercept[LakeException](Targets.of(spark, root.toString, Some("delta")))
      assert(error.getCondition == "PGOUTPUT_TARGET_FORMAT")
      assert(error.getMessage.contains(s"With the setting $setting, Delta would remove the mark"))
      assert(files(root).isEmpty)
    } finally spark.conf.unset(setting)
    Targets.of(spark, root.toString, Some("delta"))
  }

  test("a column cannot have the name of the metadata column of Spark, in any case") {
    val target = Targets.of(spark, Files.createTempDirectory("names").toString, Some("delta"))
    val allowed =
      Seq("_metadata", "_Metadata", "metadata", "_pos").filter(target.columnProblem(_).isEmpty)
    assert(allowed == Seq("metadata", "_pos"))
  }

  test(
    "old files are removed when it is time and if the table allows it, and unknown files stay",
    TakesLong
  ) {
    val root = Files.createTempDirectory("vacuum")
    val folder = root.resolve("t")
    val target = Targets.of(spark, root.toString, Some("delta"))
    def expire(last: Duration, kept: Duration = Duration.ZERO, versions: Int = 1): Set[Path] = {
      noteVacuum(folder, """{"latestCommitVersionOutsideOfRetentionWindow":0}""", last)
      val again = Targets.of(spark, root.toString, Some("delta"))
      again.commit(spark, "t", name, again.mark("t", name), again.mark("t", name).get + 1)(
        TargetWrite.Direct(_ => DirectChange(Map.empty, Vector.empty))
      )
      again.expire("t", Instant.now.minus(kept), versions)
      files(folder)
    }
    val retention = "delta.deletedFileRetentionDuration"
    target.create("t", schema, Nil, Map(retention -> "interval 30 days"))
    (1 to 9).foreach { lsn =>
      target.commit(spark, "t", name, Option.when(lsn > 1)(lsn - 1L), lsn.toLong)(
        TargetWrite.Direct(_ => DirectChange(Map.empty, Vector(InternalRow(lsn))))
      )
    }
    assert(target.compact("t"))
    val unknown = folder.resolve("part-of-another-writer.parquet")
    Files.write(unknown, Array[Byte](1))
    // Delta cannot distinguish the file of an interrupted commit from that of another writer, so only its age counts.
    val orphan = Files.write(folder.resolve("part-of-an-old-commit.parquet"), Array[Byte](1))
    files(folder).foreach(age(_, Duration.ofDays(10)))
    age(unknown, Duration.ofDays(2))
    val before = files(folder) - orphan
    def removeOrphans(days: Long) =
      target.removeOrphans("t", Instant.now.minus(Duration.ofDays(days)))
    assert(removeOrphans(3).contains(s"the table has the property $retention"))
    assert(files(folder)(orphan))
    assert(expire(Duration.ofHours(2)) == before + orphan) // A property says how long files stay.
    spark.sql(s"ALTER TABLE ${target.sqlName("t")} UNSET TBLPROPERTIES ($retention)")
    assert(removeOrphans(9).exists(_.contains("more than the 7 days")) && files(folder)(orphan))
    assert(removeOrphans(3).isEmpty && files(folder) == before)
    // A reader can have the files open, however short the time is that versions stay.
    assert(expire(Duration.ofHours(2)) == before)
    ageLog(folder, Duration.ofHours(5))
    assert(expire(Duration.ofMinutes(5)) == before) // Files were removed less than an hour ago.
    assert(expire(Duration.ofHours(2), kept = Duration.ofHours(6), versions = 1000) == before)
    // Delta's own time is a week.
    val left = expire(Duration.ofHours(2), kept = Duration.ofHours(3), versions = 1000)
    assert(left(unknown) && (left - unknown).size == 1)
    assert(target.read(spark, "t").orderBy("id").collect().toSeq == (1 to 9).map(Row(_)))
  }

  test("the state of a table names removed files for as long as versions stay that need them") {
    val root = Files.createTempDirectory("vacuum")
    val folder = root.resolve("t")
    val target = Targets.of(spark, root.toString, Some("delta"))
    target.create("t", schema, Nil, Map.empty)
    (1 to 9).foreach(commit(target, _))
    ageLog(folder, Duration.ofHours(5))
    val names = Seq("delta.deletedFileRetentionDuration", "spark-pgoutput.file-retention")
    def expire(kept: Duration) = {
      noteVacuum(
        folder,
        """{"latestCommitVersionOutsideOfRetentionWindow":0}""",
        Duration.ofHours(2)
      )
      val again = Targets.of(spark, root.toString, Some("delta"))
      val reason = again.expire("t", Instant.now.minus(kept), 1000)
      (reason, names.map(again.properties("t").get))
    }
    def both(value: String) = (None, Seq.fill(2)(Some(value)))
    assert(expire(Duration.ofDays(5)) == (
      None,
      Seq(None, None)
    )) // Delta's limit of a week does not matter.
    assert(expire(Duration.ofMinutes(170)) == both("interval 3 hours"))
    assert(expire(Duration.ofMinutes(100)) == both("interval 3 hours"))
    assert(expire(Duration.ofMinutes(10)) == both("interval 1 hours"))
    // Delta itself refuses older versions, of which some files can be gone. A verification keeps the files.
    val old = s"SELECT * FROM ${target.sqlName("t")} VERSION AS OF 3"
    assert(Try(spark.sql(old).collect()).isFailure)
    assert(target.readVersion(ClonedSession.of(spark), "t", "3").count() == 3)
    assert(expire(Duration.ofHours(9)) == both("interval 2 hours"))
    assert(target.removeOrphans("t", Instant.now.minus(Duration.ofDays(9))).isEmpty)
    spark.sql(
      s"ALTER TABLE ${target.sqlName("t")} SET TBLPROPERTIES (${names.head} = 'interval 1 day')"
    )
    assert(expire(Duration.ofHours(1))._1.contains(s"the table has the property ${names.head}"))
    assert(target.read(spark, "t").count() == 9)
  }

  test(
    "old files are removed also if the log lacks commits since they were removed last",
    TakesLong
  ) {
    val root = Files.createTempDirectory("vacuum")
    val folder = root.resolve("t")
    val target = Targets.of(spark, root.toString, Some("delta"))
    target.create("t", schema, Nil, Map.empty)
    (1 to 9).foreach(commit(target, _))
    val log = DeltaLog.forTable(spark, folder.toString)
    log.checkpoint(log.update())
    (0 to 8).foreach(version => Files.delete(folder.resolve(f"_delta_log/$version%020d.json")))
    DeltaLog.clearCache()
    val again = Targets.of(spark, root.toString, Some("delta"))
    commit(again, 10)
    assert(again.compact("t"))
    val before = files(folder).size
    ageLog(folder, Duration.ofHours(5))
    // A VACUUM of the whole folder notes no commit, and one of a user can be long ago.
    Seq("{}", """{"latestCommitVersionOutsideOfRetentionWindow":3}""").foreach { noted =>
      noteVacuum(folder, noted, Duration.ofHours(2))
      val last = Targets.of(spark, root.toString, Some("delta"))
      commit(last, 11)
      last.expire("t", Instant.now.minus(Duration.ofHours(1)), 1000)
      assert(files(folder).size < before)
      assert(target.read(spark, "t").distinct().count() == 11)
    }
  }

  test("a session without the catalog of Delta is refused, with the settings that it needs") {
    val other = spark.newSession()
    other.conf.unset("spark.sql.catalog.spark_catalog")
    val folder = Files.createTempDirectory("settings").toString
    // Spark loads the catalog of a session by the settings of the active one.
    val error = ClonedSession.within(other)(
      intercept[LakeException](Targets.of(other, folder, Some("delta")))
    )
    assert(error.getCondition == "PGOUTPUT_TARGET_FORMAT")
    assert(error.getMessage.contains(LakeFormat.Delta.settings))
  }

  test("a table is written directly again when the reason for a MERGE is gone") {
    val root = Files.createTempDirectory("reason")
    val target = Targets.of(spark, root.toString, Some("delta"))
    target.create("t", schema, Nil, Map.empty)
    commit(target, 1)
    val table = target.sqlName("t")
    val property = "delta.appendOnly"
    spark.sql(s"ALTER TABLE $table SET TBLPROPERTIES ('$property' = 'true')")
    Try(commit(target, 2)): Unit
    val reason = target.look("t").notDirect
    DeltaLog.clearCache() // as Delta does if a table is not used for an hour
    spark.sql(s"ALTER TABLE $table UNSET TBLPROPERTIES ('$property')")
    assert(reason.nonEmpty && target.look("t").notDirect.isEmpty, reason)
  }

  private def commit(target: Target, id: Int): Unit = {
    val mark = target.mark("t", name)
    target.commit(spark, "t", name, mark, mark.getOrElse(0L) + 1)(
      TargetWrite.Direct(_ => DirectChange(Map.empty, Vector(InternalRow(id))))
    )
  }

  test("a commit that another writer prevents leaves no files", TakesLong) {
    val root = Files.createTempDirectory("conflict")
    val folder = root.resolve("t")
    val target = Targets.of(spark, root.toString, Some("delta"))
    target.create("t", schema, Nil, Map.empty)
    def commit(lsn: Long)(change: DirectTable => DirectChange): Unit =
      target.commit(
        spark,
        "t",
        name,
        Option.when(lsn > 1)(lsn - 1),
        lsn
      )(TargetWrite.Direct(change))
    commit(1)(_ => DirectChange(Map.empty, Vector(InternalRow(1), InternalRow(2))))
    val attempts = Iterator.from(1)
    var last = 0
    commit(2) { table =>
      last = attempts.next()
      if (last == 1) spark.sql(s"INSERT INTO delta.`$folder` VALUES (3)"): Unit
      val file = table.files.find(_.rows == 2).get
      DirectChange(Map(file.path -> Array(0L)), Vector(InternalRow(4)))
    }
    assert(last == 2)
    val log = files(folder.resolve("_delta_log")).filter(_.toString.endsWith(".json"))
    // The files that Spark writes are in subfolders.
    val inLog = log.flatMap { file =>
      "\"path\":\"(part-[^\"]+)".r.findAllMatchIn(Files.readString(file)).map(_.group(1))
    }
    val (vectors, data) = files(folder).map(_.getFileName.toString).partition(_.endsWith(".bin"))
    assert(data == inLog && vectors.size == 1)
    val rows = target.read(spark, "t").collect().map(_.getInt(0)).toSet
    assert(rows == Set(2, 3, 4))
  }

  test("a log that somebody has replaced by an older one has other commits of the same versions") {
    val root = Files.createTempDirectory("replaced")
    val folder = root.resolve("t")
    val backup = Files.createTempDirectory("backup").resolve("t")
    val target = Targets.of(spark, root.toString, Some("delta"))
    target.create("t", schema, Nil, Map.empty)
    def copy(from: Path, to: Path): Unit = {
      val paths = Files.walk(from)
      try paths.forEach(path => Files.copy(path, to.resolve(from.relativize(path))): Unit)
      finally paths.close()
    }
    def version = target.version("t").toInt
    (1 to 2).foreach(commit(target, _))
    copy(folder, backup)
    (3 to 5).foreach(commit(target, _))
    val last = version
    val paths = Files.walk(folder)
    try paths.sorted(java.util.Comparator.reverseOrder[Path]).forEach(Files.delete(_))
    finally paths.close()
    copy(backup, folder)
    val rows = spark.range(1).selectExpr("int(9) id")
    while (version < last) {
      val mark = target.mark("t", name)
      target.commit(spark, "t", name, mark, mark.get + 1)(TargetWrite.Append(rows))
    }
    var found = Set.empty[String]
    val mark = target.mark("t", name)
    target.commit(spark, "t", name, mark, mark.get + 1)(TargetWrite.Direct { table =>
      found = table.files.map(_.path).toSet
      DirectChange(Map.empty, Vector.empty)
    })
    val all = DeltaLog.forTable(spark, folder.toString).update().allFiles.collect().map(_.path)
    assert(found == all.toSet)
    assert(target.read(spark, "t").orderBy("id").collect().toSeq == Seq(1, 2, 9, 9, 9).map(Row(_)))
  }

  test("the list of a table's files is read again if the JVM has forgotten it") {
    val root = Files.createTempDirectory("forgotten")
    Targets.of(spark, root.toString, Some("delta")).create("t", schema, Nil, Map.empty)
    val log = DeltaLog.forTable(spark, root.resolve("t").toString)
    val direct = new DeltaDirect(spark, log, None, KeyCache.none.table("t"))
    def filesOf(commit: Int) = {
      var found = 0
      val mark = SetTransaction(name.toString, commit.toLong, None)
      direct.commit(log.update(), mark, "", _ => ()) { table =>
        found = table.files.length
        DirectChange(Map.empty, Vector(InternalRow(commit)))
      }
      found
    }
    assert((1 to 3).map(filesOf) == Seq(0, 1, 2))
    val kept = direct.getClass.getSuperclass.getDeclaredFields
      .find(_.getType == classOf[SoftReference[_]]).get
    kept.setAccessible(true)
    kept.get(direct).asInstanceOf[SoftReference[_]].clear()
    val job = nextJob()
    assert((4 to 5).map(filesOf) == Seq(3, 4) && nextJob() > job + 1)
  }

  test("the files of a rewrite that is not committed are removed") {
    val root = Files.createTempDirectory("unmade")
    val target = Targets.of(spark, root.toString, Some("delta"))
    target.create("t", schema, Nil, Map.empty)
    (1 to 9).foreach(commit(target, _))
    val before = files(root.resolve("t"))
    val log = DeltaLog.forTable(spark, root.resolve("t").toString)
    val calls = Iterator.from(1)
    def newest() =
      if (calls.next() == 1) log.update() else throw new IllegalStateException("no catalog")
    val direct = new DeltaDirect(spark, log, None, KeyCache.none.table("t"))
    intercept[IllegalStateException](direct.compact(() => newest()))
    assert(calls.next() == 3 && files(root.resolve("t")) == before)
  }

  private val history = schema.add("keys", ArrayType(StringType))

  /** Appends a row, as to a history. */
  private def append(target: Target, id: Int): Unit = {
    val rows = spark.createDataFrame(java.util.List.of(Row(id, Seq("id"))), history)
    target.commit(spark, "t", name, target.mark("t", name), id.toLong)(TargetWrite.Append(rows))
  }

  test("a table that is only appended to has few files, and its old ones are removed", TakesLong) {
    val root = Files.createTempDirectory("appended")
    val folder = root.resolve("t")
    val target = Targets.of(spark, root.toString, Some("delta"))
    target.create("t", history, Nil, Map.empty)
    def all = Files.walk(folder).iterator.asScala.count(_.toString.endsWith(".parquet"))
    val rewrites = (1 to 18).filter { id =>
      append(target, id)
      target.compact("t")
    }
    assert(rewrites == Seq(8, 16) && target.files("t").exists(_.files == 4) && all == 20)
    // Only the first list of all files is a job of Spark.
    append(target, 19)
    val job = nextJob()
    assert(!target.compact("t") && nextJob() == job + 1)
    // Readers of changes do not see rewrites.
    val log = Files.list(folder.resolve("_delta_log")).iterator.asScala
      .filter(_.toString.endsWith(".json")).map(Files.readString(_)).toSeq
    val rewritten = log.filter(_.contains("\"OPTIMIZE\""))
    assert(rewritten.length == 2 && !rewritten.exists(_.contains("\"dataChange\":true")))
    ageLog(folder, Duration.ofHours(5))
    noteVacuum(folder, "{}", Duration.ofHours(2))
    val again = Targets.of(spark, root.toString, Some("delta"))
    append(again, 20)
    assert(again.expire("t", Instant.now.minus(Duration.ofHours(1)), 1000).isEmpty && all == 6)
    val rows = again.read(spark, "t").orderBy("id").collect()
    assert(rows.toSeq == (1 to 20).map(Row(_, Seq("id"))) && again.mark("t", name).contains(20L))
  }

  private def inLog(folder: Path, what: String) =
    files(folder.resolve("_delta_log")).map(_.getFileName.toString).filter(_.endsWith(what))

  test("commits are removed from the log as soon as no version that stays needs them", TakesLong) {
    val root = Files.createTempDirectory("log")
    val folder = root.resolve("t")
    val info = folder.resolve("_delta_log/_last_vacuum_info")
    val first = Targets.of(spark, root.toString, Some("delta"))
    first.create("t", schema, Nil, Map("delta.checkpointInterval" -> "3"))
    def commits(target: Target, ids: Range): Unit = ids.foreach { id =>
      commit(target, id)
      target.checkpoint("t")
      target.compact("t")
    }
    def expire(id: Int, retention: String): Int = {
      ageLog(folder, Duration.ofHours(5))
      val target = Targets.of(spark, root.toString, Some("delta"))
      target.setProperties("t", Map("delta.logRetentionDuration" -> retention))
      commit(target, id)
      age(info, Duration.ofHours(2))
      assert(target.expire("t", Instant.now.minus(Duration.ofHours(1)), 1000).isEmpty)
      assert(target.read(spark, "t").orderBy("id").collect().toSeq == (1 to id).map(Row(_)))
      inLog(folder, ".json").size
    }
    commits(first, 1 to 9)
    noteVacuum(folder, "{}", Duration.ofHours(2))
    assert(expire(10, "interval 10 days") > 10) // A user wants the log for longer.
    // One of the commits gives the table the property that says how long its state names removed files.
    assert(expire(11, "interval 9 days") <= 8)
    val versions = inLog(folder, ".json").map(_.takeWhile(_.isDigit).toInt)
    val oldest = inLog(folder, ".checkpoint.parquet").map(_.takeWhile(_.isDigit).toInt).min
    assert(versions == (oldest to versions.max).toSet)
    // The next VACUUM LITE has all commits that it needs.
    commits(Targets.of(spark, root.toString, Some("delta")), 12 to 16)
    assert(expire(17, "interval 9 days") < 8)
  }

  test(
    "a commit runs no job of Spark, even if a checkpoint is due and the table was copied often"
  ) {
    val folder = Files.createTempDirectory("jobs").toString
    val target = Targets.of(spark, folder, Some("delta"))
    target.create("t", schema, Nil, Map("delta.checkpointInterval" -> "4"))
    val marks = (1 to 200).map(number => SetTransaction(s"copy $number", 1, None))
    val another = DeltaLog.forTable(spark, s"$folder/t").startTransaction(None)
    another.commit(marks, DeltaOperations.ManualUpdate): Unit
    commit(target, 0)
    val jobs = (1 to 5).map { id =>
      val job = nextJob()
      commit(target, id)
      nextJob() - job - 1
    }
    assert(jobs == Seq.fill(5)(0))
    assert(target.read(spark, "t").count() == 6)
  }

  test("a commit that fails, and one that another writer prevents, list no files again") {
    val target = Targets.of(spark, Files.createTempDirectory("known").toString, Some("delta"))
    target.create("t", schema, Nil, Map.empty)
    (1 to 3).foreach(commit(target, _))
    def write(change: DirectTable => DirectChange): Unit = {
      val mark = target.mark("t", name)
      target.commit(spark, "t", name, mark, mark.get + 1)(TargetWrite.Direct(change))
    }
    intercept[NotDirect](write(_ => throw new NotDirect("of a test"))): Unit
    val job = nextJob()
    commit(target, 4)
    assert(nextJob() == job + 1)
    var last = 0
    write { table =>
      if (last == 0) spark.sql(s"INSERT INTO ${target.sqlName("t")} VALUES (5)"): Unit
      else assert(nextJob() == last + 1 && table.files.length == 5)
      last = nextJob()
      DirectChange(Map.empty, Vector(InternalRow(6)))
    }
    assert(target.read(spark, "t").orderBy("id").collect().toSeq == (1 to 6).map(Row(_)))
  }

  test("keys without which a table would be read by a MERGE are kept beside the commits") {
    val keys = new KeyCache(1 << 20, 0, Files.createTempDirectory("keys").toFile)
    val target =
      Targets.of(spark, Files.createTempDirectory("wanted").toString, Some("delta"), keys)
    target.create("t", schema, Nil, Map.empty)
    (1 to 2).foreach(commit(target, _))
    def write(): Unit = target.commit(spark, "t", name, Some(2), 3)(TargetWrite.Direct { table =>
      val found =
        new KeyLookup(table, Vector(0), None, Vector(InternalRow(2)), Vector(0), most = 0).found
      DirectChange(found.map(place => place.file.path -> Array(place.position)).toMap, Vector.empty)
    })
    assert(intercept[NotDirect](write()).reason.contains(" rows"))
    target.keepKeys("t")
    write()
    assert(target.read(spark, "t").collect().map(_.getInt(0)).toSeq == Seq(1))
  }

  test(
    "a checkpoint is written also if there are few commits, but some of them are old",
    TakesLong
  ) {
    val root = Files.createTempDirectory("checkpoint")
    val folder = root.resolve("t")
    val target = Targets.of(spark, root.toString, Some("delta"))
    target.create("t", history, Nil, Map.empty)
    def checkpointed(id: Int) = {
      append(target, id)
      target.checkpoint("t")
      inLog(folder, ".checkpoint.parquet").size
    }
    assert(checkpointed(1) == 0)
    ageLog(folder, Duration.ofMinutes(9))
    assert(checkpointed(2) == 0)
    ageLog(folder, Duration.ofMinutes(11))
    assert((3 to 5).map(checkpointed) == Seq(1, 1, 1))
  }

  test("a query leaves checkpoints to the thread that writes them beside commits", TakesLong) {
    val root = Files.createTempDirectory("inline")
    val target = Targets.of(spark, root.toString, Some("delta"))
    target.create("t", history, Nil, Map("delta.checkpointInterval" -> "3"))
    def checkpoints = inLog(root.resolve("t"), ".checkpoint.parquet").size
    (1 to 4).foreach(append(target, _))
    assert(checkpoints == 0)
    target.checkpoint("t")
    assert(checkpoints == 1)
    (5 to 12).foreach(append(target, _)) // Nobody writes checkpoints.
    assert(checkpoints == 2)
  }

  test("a new table is clustered by its key, in one commit if Delta can parse its names there") {
    val target = Targets.of(spark, Files.createTempDirectory("clustered").toString, Some("delta"))
    val names = Seq(("id", "id", "0"), ("the \uD83D\uDE00 `id`", "`the \uD83D\uDE00 ``id```", "1"))
    for ((key, shown, version) <- names) {
      target.create(s"t$version", new StructType().add(key, IntegerType), Seq(key), Map.empty)
      val detail = spark.sql(s"DESCRIBE DETAIL ${target.sqlName(s"t$version")}").head()
      assert(detail.getAs[collection.Seq[String]]("clusteringColumns").toSeq == Seq(shown))
      assert(target.version(s"t$version") == version)
    }
  }

  test(
    "a snapshot is the newest until another process commits, or makes the table again",
    TakesLong
  ) {
    val root = Files.createTempDirectory("newest")
    val target = Targets.of(spark, root.toString, Some("delta"))
    def newest: Snapshot = DeltaLog.forTable(spark, root.resolve("t").toString)
      .unsafeVolatileSnapshot
    // Another process does not have the log in the cache of this one.
    def inOtherProcess(body: => Unit): Unit = {
      DeltaLog.clearCache()
      body
    }
    target.create("t", schema, Nil, Map("delta.checkpointInterval" -> "4"))
    (1 to 2).foreach(commit(target, _))
    val two = newest
    assert(DeltaHistory.isNewest(two))
    inOtherProcess(spark.sql(s"INSERT INTO ${target.sqlName("t")} VALUES (7)"): Unit)
    assert(!DeltaHistory.isNewest(two))
    commit(target, 3) // A checkpoint is due, so a list of the log looks for it.
    assert(!DeltaHistory.isNewest(newest))
    target.checkpoint("t")
    commit(target, 4)
    val before = newest
    assert(DeltaHistory.isNewest(before))
    assert(target.read(spark, "t").orderBy("id").collect().toSeq == Seq(1, 2, 3, 4, 7).map(Row(_)))
    inOtherProcess {
      target.drop("t")
      target.create("t", schema, Nil, Map.empty)
      (1 to before.version.toInt).foreach(commit(target, _))
    }
    assert(newest.version == before.version && !DeltaHistory.isNewest(before))
  }

  test("a table whose marks a later version has written is refused, and stays as it is") {
    val table = new ServerHistory(new Random(1)).tables.head.target
    val target = Targets.of(spark, Files.createTempDirectory("versions").toString, Some("delta"))
    val own = new OwnTables(spark, target)
    val job = JobState("job", "1", 1, "db", "slot", Seq("all"), "lake", "delta", confirmed = 0)
    val state = TableState(table, TableStatus.Live)
    assert(own.prepare(job, state, Map.empty) && !own.prepare(job, state, Map.empty))
    assert(own.mark(job, state).isEmpty)
    target.setProperties(table.target, Map("spark-pgoutput.version" -> "3"))
    val version = target.version(table.target)
    Seq(() => own.prepare(job, state, Map.empty), () => own.mark(job, state)).foreach { refused =>
      val error = intercept[LakeException](refused())
      assert(error.getCondition == "PGOUTPUT_CHECKPOINT_VERSION")
      assert(error.getMessage.contains("version 3"))
    }
    assert(target.version(table.target) == version)
  }

  test("a table says how its rows are hashed, unless a copy that has begun was not committed") {
    val table = new ServerHistory(new Random(1)).tables.head.target
    val target = Targets.of(spark, Files.createTempDirectory("hashes").toString, Some("delta"))
    val own = new OwnTables(spark, target)
    val job = JobState("job", "1", 1, "db", "slot", Seq("all"), "lake", "delta", confirmed = 0)
    def column(number: Int, salt: Option[String]) =
      TableColumn(number, s"c$number", 25, -1, 0, hasMissing = false, salt)
    val salts = Seq(Some("one"), Some("two"), None, Some("one"))
    salts.zipWithIndex.foreach { case (salt, index) =>
      val columns = Seq(column(1, None), column(2, salt), column(3, salt))
      val hashing = table.copy(source = table.source.copy(columns = columns))
      val state = TableState(hashing, TableStatus.Live, generation = index + 1)
      own.prepare(job, state, Map.empty)
      assert(own.hashes(job, state).isEmpty)
      target.commit(spark, table.target, state.markName("job"), None, 1)(
        TargetWrite.Append(target.read(spark, table.target).limit(0))
      )
      assert(own.hashes(job, state) == Seq("c2", "c3").flatMap(name => salt.map(name -> _)).toMap)
    }
  }

  test("a target says which changes of columns the properties of a table do not allow") {
    val target = Targets.of(spark, Files.createTempDirectory("columns").toString, Some("delta"))
    def problems(table: String, properties: (String, String)*) = {
      target.create(table, schema, Nil, properties.toMap)
      Seq(
        ColumnChange.Add("more", StringType),
        ColumnChange.Widen("id", LongType),
        ColumnChange.Rename("id", "key")
      ).flatMap { change =>
        val problem = target.alterProblem(table, change)
        assert(problem.nonEmpty == Try(target.alter(table, Seq(change))).isFailure, change)
        problem
      }
    }
    assert(problems("all") == Nil)
    val off = Seq("delta.enableTypeWidening" -> "false", "delta.columnMapping.mode" -> "none")
    assert(
      problems("some", off: _*) == Seq(
        "Delta cannot give the column 'id' the type BIGINT, because the property delta.enableTypeWidening of " +
          "the table is false.",
        "Delta cannot rename the column 'id', because the property delta.columnMapping.mode of the table is none."
      )
    )
  }
}
