package io.sparkpgoutput.lake.target

import org.apache.spark.sql.SparkSession

import org.scalatest.Assertions.assert

import io.sparkpgoutput.lake.apply.WrittenTable

/** What the tests of the kinds of tables of both formats share. */
object KindsOfTables {

  /**
   * Writes two cuts with all kinds of changes, and checks the rows.
   *
   * @param table a table with the mark 1
   * @param between what somebody else does between the cuts
   * @return why there was a MERGE, for each of the cuts
   */
  def write(spark: SparkSession, target: Target, table: String)(
      between: => Unit = ()
  ): (Option[String], Option[String]) = {
    val written = new WrittenTable(spark, target, made = Some(table))
    import written.{row, server}
    val first = written.cut(20L -> (1 to 4).map(id => server.insert(row(id, s"v$id", "b"))))
    between
    val second = written.cut(30L -> Seq(
      server.update(row(1, "v1", "b"), row(1, "w1", "b")),
      server.delete(row(2, "v2", "b")),
      server.update(row(3, "v3", "b"), row(7, "v3", "b")),
      server.insert(row(5, "v5", "b"))
    ))
    assert(server.contentOf(target, spark) == Seq("1|w1|b", "4|v4|b", "5|v5|b", "7|v3|b"), table)
    (first.byMerge, second.byMerge)
  }
}
