package io.sparkpgoutput.lake.target

import java.nio.file.Files

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.streaming.Trigger
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.unsafe.types.UTF8String

import org.apache.iceberg.DataOperations
import org.apache.iceberg.spark.Spark3Util

import io.sparkpgoutput.lake.apply.{IcebergTables, WrittenTable}
import io.sparkpgoutput.lake.direct.DirectChange
import io.sparkpgoutput.{DeltaTests, TakesLong}

/** Whoever reads the changes of a table sees nothing of a rewrite of its files. */
class ChangeReadersSuite extends DeltaTests {
  private val table = "t"

  private def create(target: Target, properties: (String, String)*): Unit = {
    val schema =
      new StructType().add("id", IntegerType).add("v", StringType).add("big", StringType)
    target.create(table, schema, Seq("id"), properties.toMap)
    // A level of small files is full.
    (1 to 8).foreach(add(target, _))
  }

  private def add(target: Target, id: Int): Unit = {
    val mark = target.mark(table, WrittenTable.Name)
    val text = UTF8String.fromString("a")
    val change = DirectChange(Map.empty, Vector(InternalRow(id, text, text)))
    target.commit(spark, table, WrittenTable.Name, mark, mark.getOrElse(0L) + 1)(
      TargetWrite.Direct(_ => change)
    )
  }

  test("Delta: a stream reads each row once", TakesLong) {
    val root = Files.createTempDirectory("stream").toString
    val target = Targets.of(spark, root, Some("delta"))
    create(target)
    def read(): Seq[Int] = {
      val found = mutable.Buffer.empty[Int]
      val take = (rows: DataFrame, _: Long) => found ++= rows.collect().map(_.getInt(0)): Unit
      spark.readStream.format("delta").load(s"$root/$table").writeStream
        .option("checkpointLocation", s"$root/checkpoint")
        .trigger(Trigger.AvailableNow)
        .foreachBatch(take)
        .start()
        .awaitTermination()
      found.toSeq.sorted
    }
    assert(read() == (1 to 8))
    assert(target.compact(table))
    add(target, 9)
    assert(read() == Seq(9))
  }

  test("Delta: a change data feed has the changes of the cuts", TakesLong) {
    val root = Files.createTempDirectory("feed")
    val target = Targets.of(spark, FaultyFiles.address(spark, root), Some("delta"))
    create(target)
    // A rewrite that has begun without the feed ends with it.
    val isTurnedOn = FaultyFiles.pausing(_.matches("create .*[.]parquet")) {
      target.setProperties(table, Map("delta.enableChangeDataFeed" -> "true"))
    } {
      assert(!target.compact(table))
    }
    val first = target.version(table)
    val written = new WrittenTable(spark, target, made = Some(table), mark = 8)
    (1 to 8).foreach(id => written.server.insert(written.row(id, "a", "a")))
    val change = written.server.update(written.row(2, "a", "a"), written.row(2, "b", "a"))
    assert(written.cut(20L -> Seq(change)).byMerge.contains(
      "the table has the feature changeDataFeed"
    ))
    assert(isTurnedOn && !target.compact(table))
    val found = spark.read.format("delta").option("readChangeFeed", "true")
      .option("startingVersion", first).load(s"$root/$table")
      .select("id", "v", "_change_type").orderBy("_change_type").collect().toSeq
    assert(found == Seq(Row(2, "b", "update_postimage"), Row(2, "a", "update_preimage")))
  }

  Seq("2", "3").foreach(version =>
    test(
      s"Iceberg v$version: an incremental read and the list of changes have each row once",
      TakesLong
    ) {
      val target = IcebergTables.in(spark, s"changes$version")
      create(target, "format-version" -> version)
      val name = s"${IcebergTables.Catalog}.changes$version.$table"
      val before = target.version(table)
      assert(target.compact(table))
      val loaded = Spark3Util.loadIcebergTable(spark, name)
      loaded.refresh()
      assert(loaded.currentSnapshot.operation == DataOperations.REPLACE)
      def since(source: String, columns: String*): Seq[Row] =
        spark.read.format("iceberg").option("start-snapshot-id", before).load(source)
          .selectExpr(columns: _*).collect().toSeq
      add(target, 9)
      assert(since(name, "id") == Seq(Row(9)))
      assert(since(s"$name.changes", "id", "_change_type") == Seq(Row(9, "INSERT")))
    }
  )
}
