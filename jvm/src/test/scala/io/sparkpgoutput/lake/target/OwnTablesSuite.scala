package io.sparkpgoutput.lake.target

import java.io.IOException
import java.nio.file.Files

import org.apache.spark.sql.types.IntegerType

import io.sparkpgoutput.DeltaTests
import io.sparkpgoutput.lake.apply.{ServerTable, TypeOids}
import io.sparkpgoutput.lake.catalog.ReplicaIdentity
import io.sparkpgoutput.lake.core.{JobState, MarkName, TableState, TableStatus}

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
    assert(own.close("one") == 3 && target.mark("one", MarkName(job.id, 1, 2)).contains(0L))
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
}
