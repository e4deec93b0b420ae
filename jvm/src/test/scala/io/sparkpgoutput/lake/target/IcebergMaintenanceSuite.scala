package io.sparkpgoutput.lake.target

import java.nio.file.{Files, Path}
import java.time.{Duration, Instant}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._

import org.apache.iceberg.Table
import org.apache.iceberg.spark.Spark3Util

import io.sparkpgoutput.TakesLong
import io.sparkpgoutput.lake.apply.IcebergTables
import io.sparkpgoutput.lake.direct._

/** Which files and versions of a table of Iceberg stay. */
class IcebergMaintenanceSuite extends IcebergTests {

  Seq(2, 3).foreach { version =>
    test(s"v$version: files that no version needs are removed if they are old", TakesLong) {
      val made = new Written("orphans", columns, version)
      (1 to 9).foreach(id => made.write(Nil, values(Seq(2 * id, 2 * id + 1), "a")))
      assert(target.compact(made.table))
      made.write(Seq(3, 4), values(Seq(3), "b"))
      val (old, young) = (made.folder.resolve("old.parquet"), made.folder.resolve("young.parquet"))
      Seq(old, young).foreach(Files.write(_, Array[Byte](1)))
      val paths = Files.walk(made.folder.getParent)
      try paths.filter(Files.isRegularFile(_)).forEach(OldTables.age(_, Duration.ofDays(9)))
      finally paths.close()
      OldTables.age(young, Duration.ofDays(2))
      assert(target.removeOrphans(made.table, Instant.now.minus(Duration.ofDays(3))).isEmpty)
      val (there, known) = made.allFiles
      assert(there == known + "young.parquet")
      assert(made.rows == values((2 to 19).filter(_ != 4), "a").map { row =>
        if (row.getInt(0) == 3) Row(3, "b") else row
      })
    }

    test(s"v$version: a table that is only appended to has few files and few versions", TakesLong) {
      val history = columns.add("keys", ArrayType(StringType))
      val made = new Written(s"appended$version", history, version)
      val rewrites = (1 to 18).filter { id =>
        val rows = spark.createDataFrame(java.util.List.of(Row(id, "a", Seq("id"))), history)
        target.commit(spark, made.table, name, Option.when(id > 1)(id - 1L), id.toLong)(
          TargetWrite.Append(rows)
        )
        assert(target.expire(made.table, Instant.ofEpochMilli(0), 4).isEmpty)
        target.compact(made.table)
      }
      assert(rewrites == Seq(8, 16))
      assert(made.total("data-files") == 4 && made.iceberg.snapshots.asScala.size < 7)
      assert(made.rows == (1 to 18).map(Row(_, "a", Seq("id"))))
      assert(target.mark(made.table, name).contains(18L))
    }

    test(s"v$version: the number of delete files stays small", TakesLong) {
      val made = new Written("many", columns, version)
      made.write(Nil, values(0 until 400, "a"))
      made.write(Nil, values(400 until 500, "a"))
      val rounds = if (version == 2) 22 else 8
      var most = 0
      (1 to rounds).foreach { round =>
        val ids = Seq(round * 3, round * 7, 400 + round).distinct
        made.write(ids, values(ids, s"v$round"))
        most = math.max(most, made.total("delete-files"))
      }
      // A vector for each data file that has lost rows, or a file for each commit and one for all others.
      assert(most <= 17)
      val expected = (1 to rounds).foldLeft((0 until 500).map(_ -> "a").toMap) { (rows, round) =>
        rows ++ Seq(round * 3, round * 7, 400 + round).map(_ -> s"v$round")
      }
      assert(made.rows.map(row => row.getInt(0) -> row.getString(1)).toMap == expected)
      assert(made.rows.length == 500)
    }
  }

  test("a version that was current at the time from which on versions stay is not removed") {
    val day = Duration.ofDays(1).toMillis
    def expiry(due: Int, isMany: Boolean = false)(days: Int*) =
      IcebergTarget.expiry(days.toIndexedSeq.map(-_ * day), -due * day, isMany).map(-_ / day)
    assert(expiry(7)(8, 0).isEmpty && expiry(7, isMany = true)(8, 0).isEmpty)
    assert(expiry(7)(9, 8, 0).contains(8L) && expiry(7)(9, 6, 3, 0).isEmpty)
    assert(expiry(7)(9, 7, 0).isEmpty) // The first one has ended just now.
    assert(expiry(7, isMany = true)(9, 7, 0).contains(7L))
    assert(expiry(7)().isEmpty && expiry(7)(3, 0).isEmpty && expiry(7)(9).isEmpty)
  }

  test("as many versions stay as are wanted") {
    val made = new Written("versions", columns, 2)
    (1 to 9).foreach(id => made.write(Nil, values(Seq(id), "a")))
    def versions = made.iceberg.snapshots.asScala.map(_.sequenceNumber).toSet
    val before = versions
    target.expire(made.table, Instant.ofEpochMilli(0), 9)
    assert(versions == before && before.size == 9)
    made.write(Nil, values(Seq(10), "a"))
    target.expire(made.table, Instant.ofEpochMilli(0), 4)
    assert(versions == (7L to 10L).toSet && made.rows == values(1 to 10, "a"))
  }

  test("a table without versions that are due is not opened after each commit") {
    val made = new Written("undue", columns, 2)
    def expire() = target.expire(made.table, Instant.now.minus(Duration.ofDays(1)), 100)
    (1 to 3).foreach { id =>
      made.write(Nil, values(Seq(id), "a"))
      assert(expire().isEmpty)
    }
    target.drop(made.table)
    assert(expire().isEmpty)
  }

  test("a table says itself which versions stay, or that all do", TakesLong) {
    def left(properties: (String, String)*) = {
      val made = new Written("own", columns, 2, properties.toMap)
      (1 to 9).foreach(id => made.write(Nil, values(Seq(id), "a")))
      val reason = target.expire(made.table, Instant.now, 1)
      assert(reason.isEmpty || target.removeOrphans(made.table, Instant.now) == reason)
      assert(made.rows == values(1 to 9, "a"))
      (made.iceberg.snapshots.asScala.size, reason)
    }
    val (age, least) =
      ("history.expire.max-snapshot-age-ms", "history.expire.min-snapshots-to-keep")
    assert(left(age -> "86400000") == (9, None))
    // As if the snapshots were made long ago.
    val past = -Duration.ofDays(1).toMillis
    assert(left(age -> past.toString, least -> "4") == (4, None))
    assert(left(age -> past.toString, least -> "9") == (9, None))
    assert(
      left("gc.enabled" -> "false") == (9, Some("the table has the property gc.enabled = false"))
    )
  }

  test("the files of a table that was renamed stay, also if another table has its folder") {
    val catalog = "spark.sql.catalog.renaming"
    spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    Seq(
      "type" -> "hadoop",
      "warehouse" -> Files.createTempDirectory("renaming").toString,
      "cache-enabled" -> "false"
    ).foreach { case (setting, value) => spark.conf.set(s"$catalog.$setting", value) }
    val target = Targets.of(spark, "renaming.shop", Some("iceberg"), KeyCache.none)
    def make(id: Int): Table = {
      target.create("orders", columns, Nil, Map("write.metadata.compression-codec" -> "gzip"))
      target.commit(spark, "orders", name, None, 1)(
        TargetWrite.Direct(_ => DirectChange(Map.empty, Vector(InternalRow(id, null))))
      )
      Spark3Util.loadIcebergTable(spark, "renaming.shop.orders")
    }
    def removeOrphans() = target.removeOrphans("orders", Instant.now.plusSeconds(60))
    val first = make(1)
    def local(path: String) = Path.of(path.replaceFirst("^file:/*", "/"))
    val data = local(first.newScan.planFiles().iterator.next().file.location)
    assert(removeOrphans().isEmpty && Files.exists(data))
    // Other catalogs than this one rename a table so, and leave its files where they are.
    val folder = local(first.location).resolve("metadata")
    val found = Files.list(folder)
    val (metadata, others) =
      try found.iterator.asScala.toVector.partition(_.toString.endsWith(".metadata.json"))
      finally found.close()
    others.filter(_.toString.matches(".*(crc|hint.*)")).foreach(Files.delete)
    val renamed = metadata.map(file => Files.move(file, folder.resolve(s"old-${file.getFileName}")))
    make(2)
    val reason = removeOrphans()
    assert(Files.exists(data) && renamed.forall(Files.exists(_)))
    assert(reason.exists(_.matches("its folder has .*/old-.* of another table")), reason)
    renamed.foreach(Files.delete)
    // The writes of such files were interrupted.
    val unfinished = Seq(
      "00009-a.metadata.json" -> "",
      "00009-b.gz.metadata.json" -> "",
      "00009-c.metadata.json" -> "{\"format-version\":2,\"sch"
    ).map { case (file, text) => Files.writeString(folder.resolve(file), text) }
    assert(removeOrphans().isEmpty)
    assert(!(data +: unfinished).exists(Files.exists(_)))
    assert(target.read(spark, "orders").collect().toSeq == Seq(Row(2, null)))
  }

  test("S3 Tables maintains the tables of its catalogs") {
    assert(target.maintainer.isEmpty) // Iceberg has loaded the catalog with its own settings.
    val settings =
      Seq("type", "warehouse").map(name => s"spark.sql.catalog.${IcebergTables.Catalog}.$name")
    val before = settings.map(spark.conf.get)
    val found = Seq(
      "/s3tables/lake",
      "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake",
      "arn:aws-cn:s3tables:cn-north-1:111122223333:bucket/lake",
      "111122223333:s3tablescatalog/lake"
    ).map { warehouse =>
      settings.zip(Seq("rest", warehouse)).foreach { case (name, value) =>
        spark.conf.set(name, value)
      }
      try IcebergTables.in(spark, "direct").maintainer
      finally settings.zip(before).foreach { case (name, value) => spark.conf.set(name, value) }
    }
    assert(found == None +: Seq.fill(3)(Some("S3 Tables")))
  }
}
