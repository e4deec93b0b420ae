package io.sparkpgoutput.lake.apply

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.lake.batch.{RoutedTable, SortedChanges}
import io.sparkpgoutput.lake.fold.FoldFormat
import io.sparkpgoutput.lake.table.TableMode
import io.sparkpgoutput.lake.target.{MarkName, TablePlace, TargetWrite}
import io.sparkpgoutput.source.output.MessageFields
import io.sparkpgoutput.types.ConversionOptions

/** Changes that wait in a table while their own table is copied. */
class WaitingChangesSuite extends SparkSessionTests {
  private lazy val target = new MemoryTarget(spark)
  private type Messages = Seq[(Long, Long, Array[Byte])]

  private def messages(batch: Messages): DataFrame = spark.createDataFrame(
    spark.sparkContext.parallelize(
      batch.map { case (lsn, ordinal, message) => Row(lsn, ordinal, 1L, message) },
      numSlices = 1
    ),
    MessageFields.schema
  )

  private def applied(batch: DataFrame, end: Long, tables: Seq[ServerTable]): Unit = {
    val routed = tables.map(table =>
      ApplyTable(
        RoutedTable.of(table.target, target.marks(table.name), Map.empty),
        MarkName("job", table.oid, 0)
      )
    )
    val found = new BatchApply(target, repairs = false).run(batch, routed, end) { statistics =>
      Right(PreparedTable(tables.find(_.oid == statistics.oid).get.target))
    }
    found.tables.values.foreach(_.left.foreach(thrown => throw thrown))
  }

  private def content(table: ServerTable): Seq[String] = ServerTable.sorted(
    target
      .read(spark, table.name)
      .select(table.names.map(name =>
        org.apache.spark.sql.functions.col(TablePlace.quoted(name))
      ): _*)
      .collect()
      .toSeq
      .map(_.toSeq)
  )

  test(
    "changes that waited are applied like those of a micro-batch, from the mark of the copy on"
  ) {
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    val history = new ServerHistory(new Random(7))
    val tables = history.tables
    tables.foreach(table => target.create(table.name, table.target.schema, table.key, Map.empty))
    val waiting = scala.collection.mutable.Map.empty[Long, Seq[Row]].withDefaultValue(Nil)

    def keep(batch: Messages): Unit = {
      val routed = tables.map(table => RoutedTable.kept(table.oid, 0))
      val sorted = SortedChanges.read(messages(batch), spark, routed)
      sorted.statistics.tables.foreach { case (oid, statistics) =>
        waiting(oid) ++= WaitingChanges.rows(
          spark,
          sorted.of(oid),
          statistics,
          history.end
        ).collect()
      }
      sorted.close()
    }

    // The copy has the first batch, which waits too.
    val first = history.batch(10)
    applied(messages(first), history.end, tables)
    keep(first)
    (1 to 2).foreach(_ => keep(history.batch(10)))
    tables.foreach { table =>
      val rows = spark.createDataFrame(
        spark.sparkContext.parallelize(Random.shuffle(waiting(table.oid)), 3),
        WaitingChanges.schema
      )
      val batch =
        WaitingChanges.messages(spark, rows, target.marks(table.name), history.end)
      applied(batch, history.end, Seq(table))
      assert(content(table) == table.content, table.name)
    }
    tables.foreach(table => target.drop(table.name)) // All suites share them.
  }

  test("a history gets the same rows from changes that waited") {
    val server = new ServerHistory(new Random(8))
    val tables = server.tables.map(_.target.copy(mode = TableMode.History("_")))
    val routed = tables.map(RoutedTable.of(_, 0, Map.empty))

    def histories(batch: DataFrame): Map[Long, Set[Row]] = {
      val sorted = SortedChanges.read(batch, spark, routed)
      val found = tables.flatMap { table =>
        sorted.statistics.tables.get(table.source.oid).map { statistics =>
          val format =
            FoldFormat.of(table, Map.empty, statistics, ConversionOptions(), isStrict = true)
          val planned = TableBatch(spark, target, table, statistics, format, repairs = false)
            .plan(sorted.of(table.source.oid))
          planned.write match {
            case TargetWrite.Append(rows) => table.source.oid -> rows.collect().toSet
            case other                    => fail(other.toString)
          }
        }
      }
      sorted.close()
      found.toMap
    }

    val batch = messages(server.batch(30))
    val expected = histories(batch)
    assert(expected.values.exists(_.exists(_.getAs[String]("_change_type") == "truncate")))
    val sorted = SortedChanges.read(batch, spark, routed)
    sorted.statistics.tables.foreach { case (oid, statistics) =>
      val waiting = WaitingChanges.rows(spark, sorted.of(oid), statistics, server.end).collect()
      val kept = spark.createDataFrame(
        spark.sparkContext.parallelize(waiting.toSeq, 3),
        WaitingChanges.schema
      )
      val again = histories(WaitingChanges.messages(spark, kept, 0, server.end))
      assert(again == Map(oid -> expected(oid)))
    }
    sorted.close()
  }
}
