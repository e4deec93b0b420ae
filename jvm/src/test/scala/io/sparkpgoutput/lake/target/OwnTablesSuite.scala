package io.sparkpgoutput.lake.target

import java.io.IOException
import java.net.URI
import java.nio.file.{Files, Path}

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.types.IntegerType

import org.apache.commons.io.FileUtils
import org.apache.iceberg.exceptions.NotFoundException

import io.sparkpgoutput.DeltaTests
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.apply.{ServerTable, TypeOids}
import io.sparkpgoutput.lake.catalog.{ReplicaIdentity, TableColumn}
import io.sparkpgoutput.lake.core.{JobState, MarkName, TableFailure, TableState, TableStatus}
import io.sparkpgoutput.lake.job.TableFailures

/** The tables of a job, as it finds them in its target. */
class OwnTablesSuite extends DeltaTests {

  private def table(oid: Long, name: String) = {
    val source = new ServerTable(
      oid,
      name,
      ReplicaIdentity.Default,
      Seq("id"),
      Seq("id" -> TypeOids.Int4),
      Seq("id" -> IntegerType)
    )
    TableState(source.target, TableStatus.Live, generation = 1, mark = Some(7))
  }
  private val tables = Seq(table(1, "one"), table(2, "two"))
  private val job = tables.foldLeft(
    JobState("job", "1", 1, "db", "slot", Seq("all"), "lake", "delta", confirmed = 7)
  )(_.put(_))

  /** Makes the tables of the job. */
  private def filled(target: Target): OwnTables = {
    val own = new OwnTables(spark, target)
    tables.foreach { table =>
      own.prepare(job, table, Map.empty)
      commit(target, table, None, 7)
    }
    own
  }

  private def commit(target: Target, table: TableState, expected: Option[Long], lsn: Long): Unit =
    target.commit(spark, table.target, table.markName(job.id), expected, lsn)(
      TargetWrite.Append(spark.range(lsn, lsn + 1).selectExpr("CAST(id AS INT) AS id"))
    )

  private def inFolder() =
    Targets.of(spark, Files.createTempDirectory("own").resolve("lake").toString, Some("delta"))

  test("a table of which an older state was restored keeps the names of its marks") {
    val target = inFolder()
    val own = filled(target)
    val one = tables.head
    commit(target, one, Some(7), 8)
    val version = target.version("one").toInt
    spark.sql(s"RESTORE TABLE ${target.sqlName("one")} TO VERSION AS OF ${version - 1}")
    assert(target.newest("one", job.id).contains(one.markName(job.id)))
    assert(own.newest("one").isEmpty && target.read(spark, "one").count() == 1)
    assert(own.close("one") == 2 && target.mark("one", MarkName(job.id, 1, 2)).contains(0L))
  }

  /** The table with the generation of another copy, which hashes its column if there is a salt. */
  private def next(table: TableState, generation: Int, salt: Option[String]) = {
    val column = TableColumn(1, "id", TypeOids.Int4, -1, 0, hasMissing = false, salt)
    val source = table.table.source.copy(columns = Seq(column))
    table.copy(generation = generation, table = table.table.copy(source = source))
  }

  test("a table whose generations are closed has the rows of the last copy") {
    val target = inFolder()
    val own = filled(target)
    val clear = tables.head
    def newest = target.newest("one", job.id).map(_.generation)
    assert(own.generations(job, clear) == Seq(1))
    assert(own.close("one") == 2 && own.close("one") == 3)
    assert(own.generations(job, clear) == Seq(1, 2, 3))
    // No close has the generation of a copy that has begun.
    val begun = next(clear, 4, Some("salt"))
    own.prepare(job, begun, Map.empty)
    assert(own.hashes(job, begun).isEmpty && own.generations(job, begun) == Seq(1, 2, 3))
    assert(own.close("one") == 5 && newest.contains(5))
    assert(own.hashes(job, begun).isEmpty && own.generations(job, begun) == Seq(1, 2, 3, 5))
    val copied = begun.copy(generation = 6)
    own.prepare(job, copied, Map.empty)
    commit(target, copied, None, 8)
    assert(own.generations(job, copied) == Seq(6) && own.hashes(job, copied).size == 1)
    own.close("one"): Unit
    assert(own.generations(job, copied) == Seq(6, 7) && own.hashes(job, copied).size == 1)
    // A close that has noted its generation, and did not commit.
    val failing = new TargetBehind(target) {
      override protected def written(write: TargetWrite) =
        throw new IOException("away")
    }
    intercept[IOException](new OwnTables(spark, failing).close("one"))
    assert(own.generations(job, copied) == Seq(6, 7))
    val last = next(clear, 8, None)
    own.prepare(job, last, Map.empty)
    commit(target, last, None, 9)
    assert(own.generations(job, last) == Seq(8) && own.hashes(job, last).isEmpty)
  }

  test("a mirror and its history are closed by the same generation, above those that have begun") {
    val target = inFolder()
    val own = filled(target)
    own.prepare(job, tables.last.copy(generation = 5), Map.empty)
    assert(own.close("one", "two") == 6)
    for (table <- tables) {
      assert(target.newest(table.target, job.id).contains(MarkName(job.id, table.oid, 6)))
      assert(own.generations(job, table) == Seq(1, 6))
    }
  }

  test("a clone of a table and a copy of its folder are not tables of the job") {
    val folder = Files.createTempDirectory("own").resolve("lake")
    val target = Targets.of(spark, folder.toString, Some("delta"))
    val own = filled(target)
    val one = target.sqlName("one")
    for (name <- Seq("cloned", "copied")) {
      if (name == "cloned")
        spark.sql(s"CREATE TABLE ${target.sqlName(name)} SHALLOW CLONE $one"): Unit
      else FileUtils.copyDirectory(folder.resolve("one").toFile, folder.resolve(name).toFile)
      assert(target.exists(name))
      assert(own.found().own.map(_.target).sorted == Seq("one", "two"))
      val error = intercept[LakeException](own.prepare(job, table(3, name), Map.empty))
      assert(error.getMessage.contains("PGOUTPUT_TARGET_EXISTS"))
    }
    // A table that a user has renamed is still one.
    target.drop("one")
    assert(own.found().own.map(_.target).sorted == Seq("cloned", "copied", "two"))
    FileUtils.copyDirectory(folder.resolve("copied").toFile, folder.resolve("one").toFile)
    DeltaLog.clearCache()
    // A table of an earlier version does not have its name.
    spark.sql(s"ALTER TABLE $one UNSET TBLPROPERTIES IF EXISTS ('spark-pgoutput.target')")
    assert(own.found().own.map(_.target).sorted == Seq("one", "two"))
    own.prepare(job, tables.head, Map.empty)
    assert(target.properties("one")("spark-pgoutput.target") == "one")
  }

  test("the rows of a table of which an older state was restored can be those of any copy") {
    val target = inFolder()
    val own = filled(target)
    val copied = next(tables.head, 2, Some("salt"))
    own.prepare(job, copied, Map.empty)
    val version = target.version("one")
    commit(target, copied, None, 8)
    assert(own.generations(job, copied) == Seq(2) && own.hashes(job, copied).size == 1)
    spark.sql(s"RESTORE TABLE ${target.sqlName("one")} TO VERSION AS OF $version")
    def isUnknown = own.generations(job, copied).isEmpty && own.hashes(job, copied).isEmpty
    assert(isUnknown)
    own.close("one"): Unit
    assert(isUnknown)
  }

  test("a table says which of its columns have hashes, also to another table of the server") {
    val target = inFolder()
    val own = filled(target)
    val copied = next(tables.head, 2, Some("salt"))
    own.prepare(job, copied, Map.empty)
    commit(target, copied, None, 8)
    val source = copied.table.source
    val again = copied.copy(table = copied.table.copy(source = source.copy(oid = 99)))
    assert(own.hashes(job, again) == Map("id" -> "salt"))
    val columns = source.columns.map(_.copy(name = "Ünü \"'\\,={}$"))
    val named = copied.table.copy(source = source.copy(columns = columns))
    // The target still has the values of a column that the server has dropped.
    own.noteDefinition(copied.copy(number = 2), named)
    assert(own.hashes(job, again) == Map("id" -> "salt", "Ünü \"'\\,={}$" -> "salt"))
    // A property of another form says nothing.
    target.setProperties("one", Map("spark-pgoutput.hashes" -> "1=salt"))
    assert(own.hashes(job, again).isEmpty)
  }

  test("an error of the store does not count as a mark that is lost") {
    val target = inFolder()
    filled(target)
    val away = new TargetBehind(target) {
      override def mark(table: String, name: MarkName) = throw new IOException("away")
    }
    val own = new OwnTables(spark, away)
    val version = target.version("one")
    intercept[IOException](own.newest("one"))
    intercept[IOException](own.close("one"))
    assert(target.version("one") == version)
  }

  test("an error of the catalog does not count as a table that is gone") {
    val target = inFolder()
    filled(target)
    def found(error: => Exception) = new OwnTables(
      spark,
      new TargetBehind(target) {
        override def properties(table: String) =
          if (table == "one") throw error else target.properties(table)
      }
    ).found()
    // Spark wraps each error of Hive's metastore in this way.
    val ofCatalog = new AnalysisException(
      "_LEGACY_ERROR_TEMP_3065",
      Map("clazz" -> "MetaException", "msg" -> "Rate exceeded"),
      cause = Some(new IOException("Rate exceeded"))
    )
    // The catalog has the table, and the disk with its metadata is away.
    val ofDisk =
      new NotFoundException("Failed to open input stream for file: %s", "1.metadata.json")
    for (error <- Seq(ofCatalog, ofDisk)) {
      val away = found(error)
      assert(away.own.map(_.target) == Seq("two") && away.unread == Seq("one" -> error))
    }
  }

  test("a folder without any of several tables can be the mount point of a disk") {
    val root = Files.createTempDirectory("own")
    val own = filled(Targets.of(spark, root.toString, Some("delta")))
    def aside(name: String) = root.resolveSibling(s"${root.getFileName}_$name")
    assert(own.absence(job).isEmpty)
    Files.move(root.resolve("one"), aside("one"))
    assert(own.absence(job).isEmpty)
    Files.move(root.resolve("two"), aside("two"))
    assert(own.absence(job).exists(_.startsWith("The tables of the target are not there.")))
    val first = tables.map(_.copy(mark = None)).foldLeft(job)(_.put(_))
    val single = first.put(tables.head)
    assert(own.absence(first).isEmpty && own.absence(single).isEmpty)
    Files.delete(root)
    assert(own.absence(single).exists(_.startsWith("The folder ")))
    Files.createDirectory(root)
    Files.move(aside("two"), root.resolve("two"))
    assert(own.absence(job).isEmpty)
  }

  private def inCatalog(body: Target => Any): Unit = {
    val folder = Files.createTempDirectory("catalog")
    spark.sql(s"CREATE DATABASE spark_catalog.own LOCATION '$folder'")
    val target = Targets.of(spark, "spark_catalog.own", Some("delta"))
    filled(target)
    try body(target): Unit
    finally spark.sql("DROP DATABASE spark_catalog.own CASCADE"): Unit
  }

  test("a table of a catalog whose folder is away does not count as a table of somebody else") {
    inCatalog { target =>
      val detail = spark.sql(s"DESCRIBE DETAIL ${target.sqlName("one")}").head()
      val folder = Path.of(URI.create(detail.getAs[String]("location")))
      val aside = folder.resolveSibling("aside")
      Files.move(folder, aside)
      val gone = intercept[LakeException](target.mark("one", MarkName("job", 1, 0)))
      assert(gone.getCondition == "PGOUTPUT_TARGET_LOG_LOST")
      assert(TableFailures.of(gone).kind == TableFailure.Retried)
      DeltaLog.clearCache()
      def found() =
        new OwnTables(spark, Targets.of(spark, "spark_catalog.own", Some("delta"))).found()
      val away = found()
      assert(away.own.map(_.target) == Seq("two") && away.unread.map(_._1) == Seq("one"))
      assert(!Files.exists(folder))
      Files.move(aside, folder)
      assert(found().own.map(_.target).toSet == Set("one", "two"))

      Files.move(folder, aside)
      val statement = "DROP TABLE `spark_catalog`.`own`.`one`"
      assert(gone.getMessage.contains(s"run $statement."))
      spark.sql(statement)
      assert(!target.exists("one") && target.exists("two"))
    }
  }

  test("views, tables of other formats, and tables that are gone since are none of a job") {
    inCatalog { target =>
      spark.sql("CREATE TABLE spark_catalog.own.theirs USING parquet AS SELECT 1 AS x")
      spark.sql("CREATE VIEW spark_catalog.own.seen AS SELECT 1 AS x")
      spark.range(1).createOrReplaceTempView("temporary")
      // Spark lists temporary views, also those of other tests, in each namespace.
      assert(Set("one", "two", "theirs", "seen", "temporary").subsetOf(target.tables().toSet))
      val found = new OwnTables(
        spark,
        new TargetBehind(target) {
          override def tables() = target.tables() :+ "gone"
        }
      ).found()
      assert(found.own.map(_.target).toSet == Set("one", "two") && found.unread.isEmpty)
    }
  }
}
