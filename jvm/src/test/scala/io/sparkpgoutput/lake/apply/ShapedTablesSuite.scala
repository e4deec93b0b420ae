package io.sparkpgoutput.lake.apply

import java.nio.file.Files

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.parser.extensions.IcebergSparkSqlExtensionsParser
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types._

import org.apache.iceberg.exceptions.ValidationException
import org.apache.iceberg.expressions.Expressions
import org.apache.iceberg.spark.Spark3Util
import org.apache.iceberg.types.TypeUtil

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.TableShape
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.target.{Target, TargetWrite, Targets}
import io.sparkpgoutput.{DeltaTests, TakesLong}

/**
 * Tables with partitions, a clustering or a sort order, in both formats. If `-Dspark-pgoutput.histories=` is
 * set, the suite takes all shapes, with longer histories.
 */
class ShapedTablesSuite extends DeltaTests {
  private val takesAll = System.getProperty("spark-pgoutput.histories") != null
  private val name = MarkName("job", 1, 0)
  private lazy val folder = Files.createTempDirectory("shaped").toString

  /** A session with the settings of a commit, in which the tests make rows. */
  private lazy val own = ClonedSession.of(spark)

  private def shape(partition: String, cluster: String = "") = TableShape(
    if (partition.isEmpty) Nil else TableShape.partition(partition).get,
    if (cluster.isEmpty) Nil else TableShape.columns(cluster).get
  )

  private def open(format: String): Target =
    if (format == "iceberg") IcebergTables.in(spark, "shaped")
    else Targets.of(spark, folder, Some("delta"))

  private def iceberg(table: String) = {
    val found = Spark3Util.loadIcebergTable(spark, s"${IcebergTables.Catalog}.shaped.$table")
    found.refresh()
    found
  }

  /** The partitioning and the clustering or sort order that the table has. */
  private def found(format: String, table: String): (Seq[String], Seq[String]) =
    if (format == "iceberg") {
      val found = iceberg(table)
      def column(id: Int) = found.schema.findColumnName(id)
      (
        found.spec.fields.asScala.toSeq.map(field =>
          s"${field.transform} ${column(field.sourceId)}"
        ),
        found.sortOrder.fields.asScala.toSeq.map(field => column(field.sourceId))
      )
    } else {
      val detail = spark.sql(s"DESCRIBE DETAIL ${open(format).sqlName(table)}").head()
      (
        detail.getSeq[String](detail.fieldIndex("partitionColumns")),
        detail.getSeq[String](detail.fieldIndex("clusteringColumns"))
      )
    }

  private def files(format: String, table: String): Long =
    if (format == "iceberg") iceberg(table).currentSnapshot.summary.get("total-data-files").toLong
    else DeltaLog.forTable(spark, s"$folder/$table").update().numOfFiles

  private val formats = Seq(
    "delta" -> Seq(shape("amount, name"), shape("", "name, id")),
    "iceberg" -> Seq(
      shape("bucket(3, id), truncate(1, name), amount"),
      shape("", "name, id"),
      shape("amount", "name")
    )
  )

  formats.foreach { case (format, shapes) =>
    shapes.take(if (takesAll) shapes.length else 1).foreach(shape =>
      test(
        s"$format: rows move between partitions, and are found by their keys: $shape",
        TakesLong.when(format == "delta"): _* // Iceberg's commits are faster.
      ) {
        val target = open(format)
        val history = new ServerHistory(new Random(3))
        val table = history.wide
        if (target.exists(table.name)) target.drop(table.name)
        val mirrored = table.target.copy(shape = shape)
        target.create(table.name, mirrored.schema, table.key, Map.empty, shape)
        val none = spark.createDataFrame(new java.util.ArrayList[Row], mirrored.schema)
        target.commit(spark, table.name, name, None, 1)(TargetWrite.Append(none))
        val session = ClonedSession.of(spark)
        session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        var definition = Option.empty[Array[Byte]]
        var mark = 1L
        (1 to (if (takesAll) 8 else 3)).foreach { number =>
          val batch = history.batch(12)
          val cut = CutOfServer(table.oid, batch, history.end, definition)
          definition = cut.definition.orElse(definition)
          // Executors fold each third cut.
          new CutApply(
            target,
            repairs = false,
            memory = if (number % 3 == 0) 0 else CutApply.Memory
          )
            .commit(session, mirrored, Map.empty, name, mark, cut)
          mark = history.end
          assert(table.contentOf(target, spark) == table.content)
          // A reader leaves out the other partitions.
          val some = table.contentOf(target, spark, "amount = 3")
          assert(some == table.content.filter(_.split("\\|").contains("3.0000")))
        }
        assert(found(format, table.name)._2 == shape.cluster)
        assert(found(format, table.name)._1.length == shape.partition.length)
      }
    )

    test(s"$format: a copy gives a table its shape in one commit", TakesLong) {
      val target = open(format)
      val schema =
        new StructType().add("id", IntegerType).add("v", StringType).add("n", IntegerType)
      if (target.exists("copied")) target.drop("copied")
      val first = shape("v")
      target.create("copied", schema, Seq("id"), Map.empty, first)
      val rows =
        own.range(0, 3000, 1, 8).selectExpr("int(id) id", "string(id % 3) v", "int(id) n")
      target.commit(own, "copied", name, None, 5)(TargetWrite.Append(rows))
      // One file for a partition, and not one for each task and partition.
      assert(files(format, "copied") == 3)
      val isIceberg = format == "iceberg"
      def sql(partition: String) =
        if (isIceberg && partition.nonEmpty && !partition.contains(' ')) s"identity $partition"
        else partition
      val typed = rows.selectExpr("id", "id % 2 v", "n")
      val shapes = Seq(
        Some(shape("v")) -> ("v", ""),
        Some(shape(if (isIceberg) "bucket(4, n)" else "n")) ->
          (if (isIceberg) "bucket[4] n" else "n", ""),
        None -> (if (isIceberg) ("bucket[4] n", "") else ("", "")),
        Some(shape("", "v, n")) -> ("", "v,n"),
        Some(TableShape.none) -> ("", "")
      )
      shapes.zipWithIndex.foreach { case ((wanted, (partition, cluster)), index) =>
        val generation = name.copy(generation = index + 1)
        val now = if (index % 2 == 0 && index < 4) typed else rows
        target.commit(own, "copied", generation, None, 10L + index)(
          TargetWrite.Replace(now.where("id < 12"), wanted)
        )
        target.arrange("copied", schema, Nil, wanted.getOrElse(TableShape.none))
        withClue(s"$wanted: ") {
          val (partitions, clusters) = found(format, "copied")
          assert(partitions.mkString(",") == sql(partition) && clusters.mkString(",") == cluster)
          assert(target.mark("copied", generation).contains(10L + index))
          val all =
            target.read(spark, "copied").select("id", "v", "n").orderBy("id").collect().toSeq
          assert(all == now.where("id < 12").orderBy("id").collect().toSeq)
        }
      }
      // In Iceberg, each later write would fail.
      def again(): Unit = target.commit(own, "copied", name.copy(generation = 9), None, 99)(
        TargetWrite.Replace(typed, Some(TableShape.none))
      )
      if (isIceberg)
        assert(intercept[LakeException](again()).getMessage.contains("is or was sorted by it"))
      else again()
    }

    test(s"$format: a history gets another shape, and keeps its rows and its mark", TakesLong) {
      val target = open(format)
      val schema = new StructType().add("id", IntegerType).add("v", StringType)
      if (target.exists("events")) target.drop("events")
      target.create("events", schema, Nil, Map.empty)
      def append(expected: Option[Long], lsn: Long, value: String): Unit = {
        val rows = own.range(3).selectExpr("int(id) id", s"'$value' v")
        target.commit(
          own,
          "events",
          name,
          expected,
          lsn
        )(TargetWrite.Append(rows))
      }
      append(None, 1, "a")
      target.reshape("events", shape("v"))
      append(Some(1), 2, "b")
      assert(found(format, "events")._1.length == 1)
      target.reshape("events", shape("v"))
      target.reshape("events", shape("", "id"))
      append(Some(2), 3, "c")
      assert(found(format, "events") == ((Nil, Seq("id"))))
      target.reshape("events", TableShape.none)
      assert(found(format, "events") == ((Nil, Nil)))
      append(Some(3), 4, "d")
      val all = target.read(spark, "events").orderBy("v", "id").collect().toSeq
      assert(all == Seq("a", "b", "c", "d").flatMap(v => (0 to 2).map(Row(_, v))))
    }
  }

  test("Iceberg: a copy keeps the columns whose types Iceberg has not, and a sort order by them") {
    val target = open("iceberg")
    val sorted = shape("", "s")
    val schema = new StructType().add("id", IntegerType).add("s", ShortType)
      .add("a", ArrayType(ByteType)).add("m", MapType(ShortType, ByteType))
      .add("o", new StructType().add("b", ByteType))
    if (target.exists("short")) target.drop("short")
    target.create("short", schema, Seq("id"), Map.empty, sorted)
    val values = (0 to 2).map { id =>
      val byte = id.toByte
      Row(id, (-id).toShort, Seq(byte), Map(id.toShort -> byte), Row(byte))
    }
    val rows = own.createDataFrame(values.asJava, schema)
    target.commit(own, "short", name, None, 1)(TargetWrite.Append(rows))
    def ids = TypeUtil.indexById(iceberg("short").schema.asStruct).keySet
    val before = ids
    (1 to 2).foreach { generation =>
      target.commit(own, "short", name.copy(generation = generation), None, generation + 1L)(
        TargetWrite.Replace(rows, Some(sorted))
      )
      assert(ids == before)
    }
    val found = target.read(spark, "short").selectExpr("s", "a[0]", "m[id]", "o.b").orderBy("s")
    assert(found.collect().toSeq == (2 to 0 by -1).map(id => Row(-id, id, id, id)))
  }

  test("Iceberg: the error of a column of another program's partitioning has a way out") {
    val target = open("iceberg")
    val schema = new StructType().add("id", IntegerType).add("place", IntegerType)
    if (target.exists("placed")) target.drop("placed")
    target.create("placed", schema, Seq("id"), Map.empty)
    def rows(place: String) = own.range(3).selectExpr("int(id) id", s"$place place")
    target.commit(own, "placed", name, None, 1)(TargetWrite.Append(rows("int(id)")))
    iceberg("placed").updateSpec.addField(Expressions.bucket("place", 4)).commit()
    def copy(lsn: Int, place: String) = target.commit(
      own,
      "placed",
      name.copy(generation = lsn),
      None,
      lsn.toLong
    )(TargetWrite.Replace(rows(place), None))
    copy(2, "int(id)")
    val error = intercept[LakeException](copy(3, "string(id)"))
    val statement = "ALTER TABLE `lake`.`shaped`.`placed` DROP PARTITION FIELD `place_bucket_4`"
    assert(error.getMessage.contains(s"Run $statement, and"))
    assert(new IcebergSparkSqlExtensionsParser(CatalystSqlParser).parsePlan(statement).resolved)
    iceberg("placed").updateSpec.removeField("place_bucket_4").commit()
    copy(3, "string(id)")
    val found = target.read(spark, "placed").orderBy("id").collect().toSeq
    assert(found == (0 to 2).map(id => Row(id, id.toString)))
    // Iceberg takes a name of which only the case changes for another column.
    iceberg("placed").replaceSortOrder().asc("place").commit()
    val renamed = own.range(3).selectExpr("int(id) id", "string(id) PLACE")
    val refused = intercept[LakeException](target.commit(
      own,
      "placed",
      name.copy(generation = 4),
      None,
      4
    )(TargetWrite.Replace(renamed, None)))
    assert(refused.getMessage.contains("is or was sorted by it"))
  }

  test("Iceberg: an error that no other writer has caused is not a conflict") {
    val target = open("iceberg")
    val schema = new StructType().add("id", IntegerType).add("v", StringType)
    if (target.exists("alone")) target.drop("alone")
    target.create("alone", schema, Seq("id"), Map.empty)
    val rows = own.range(3).selectExpr("int(id) id", "string(id) v")
    val problem = intercept[Exception](target.commit(own, "alone", name, None, 1)(
      TargetWrite.Replace(rows, Some(shape("years(v)")))
    ))
    assert(problem.getClass == classOf[ValidationException], problem)
  }

  test("Delta: a text that would become NULL in a partition is an error of the table", TakesLong) {
    val target = open("delta")
    val history = new ServerHistory(new Random(1))
    val table = history.deferrable
    val wanted = shape("v")
    val mirrored = table.target.copy(shape = wanted)
    target.create(table.name, mirrored.schema, table.key, Map.empty, wanted)
    def rows(v: String) = own.sql(s"SELECT 1 id, '$v' v, 'x' big, 1L added")
    def refused(write: => Unit): Unit = {
      val error = intercept[LakeException](write)
      assert(
        error.getMessage.contains("The column 'v' of") && error.getMessage.contains("empty text")
      )
    }
    Seq("", "__HIVE_DEFAULT_PARTITION__").foreach { text =>
      refused(target.commit(own, table.name, name, None, 1)(
        TargetWrite.Append(rows(text))
      ))
    }
    target.commit(own, table.name, name, None, 1)(TargetWrite.Append(rows("a")))
    refused(target.commit(own, table.name, name.next, None, 2)(
      TargetWrite.Replace(rows(""), Some(wanted))
    ))
    table.rows += Seq("1", "a", "x")
    val update = table.update(Seq("1", "a", "x"), Seq("1", "", "x"))
    val messages = CutOfServer.transaction(10, Seq(table.relation, update))
    refused(new CutApply(target, repairs = false).commit(
      spark,
      mirrored,
      Map.empty,
      name,
      1,
      CutOfServer(table.oid, messages, 11)
    ): Unit)
    assert(target.read(spark, table.name).collect().toSeq == Seq(Row(1, "a", "x", 1L)))
  }
}
