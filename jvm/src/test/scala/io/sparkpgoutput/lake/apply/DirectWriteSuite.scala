package io.sparkpgoutput.lake.apply

import java.nio.file.Files

import scala.util.Random

import org.apache.spark.sql.functions.col

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.target.{TablePlace, Target, TargetWrite, Targets}

/** Random histories of a server that are written directly into tables of Delta and Iceberg. */
class DirectWriteSuite extends SparkSessionTests {
  private def content(target: Target, table: ServerTable): Seq[String] = ServerTable.sorted(
    target.read(spark, table.name)
      .select(table.names.map(name => col(TablePlace.quoted(name))): _*)
      .collect().toSeq.map(_.toSeq)
  )

  private def run(target: Target, seed: Long, cuts: Int): Unit = {
    val history = new ServerHistory(new Random(seed))
    val seen = scala.collection.mutable.Map.empty[Long, Array[Byte]]
    val marks = scala.collection.mutable.Map.empty[Long, Long]
    history.tables.foreach { table =>
      if (target.exists(table.name)) target.drop(table.name)
      target.create(table.name, table.target.schema, table.key, Map.empty)
      val name = MarkName("job", table.oid, 0)
      val rows = spark.createDataFrame(
        new java.util.ArrayList[org.apache.spark.sql.Row],
        table.target.schema
      )
      target.commit(spark, table.name, name, None, 1)(TargetWrite.Append(rows))
      marks(table.oid) = 1
    }
    (1 to cuts).foreach { _ =>
      val batch = history.batch(20)
      history.tables.foreach { table =>
        val cut = CutOfServer(table.oid, batch, history.end, seen.get(table.oid))
        cut.definition.foreach(seen.update(table.oid, _))
        val begin = System.nanoTime()
        val found = new CutApply(target, repairs = false).commit(
          spark,
          table.target,
          Map.empty,
          MarkName("job", table.oid, 0),
          marks(table.oid),
          cut
        )()
        info(
          s"${table.name} ${found.changes} ${(System.nanoTime() - begin) / 1000000} ms ${found.byMerge}"
        )
        if (found.committed) marks(table.oid) = history.end
        assert(content(target, table) == table.content, s"${table.name}, seed $seed")
      }
    }
  }

  test("Delta: after each cut of a random history, the tables have the rows of the server") {
    val folder = Files.createTempDirectory("direct").toString
    run(Targets.of(spark, folder, Some("delta")), 1, 4)
  }
}
