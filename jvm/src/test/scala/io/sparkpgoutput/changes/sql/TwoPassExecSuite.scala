package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

import io.sparkpgoutput.changes.StreamMessages._
import io.sparkpgoutput.{LoggedTexts, SparkSessionTests}

class TwoPassExecSuite extends SparkSessionTests {
  private val messages = Seq(
    relation(),
    begin(7, 100),
    insert("a"),
    commit(100),
    begin(8, 110),
    insert("b"),
    commit(110),
    begin(9, 120)
  )

  private def changes(messages: Seq[Array[Byte]], options: (String, String)*): DataFrame = {
    val rows = messages.zipWithIndex.map { case (data, seq) => (seq, data) }
    spark.createDataFrame(rows).toDF("seq", "data").createOrReplaceTempView("messages")
    val entries = options.flatMap { case (name, value) => Seq(s"'$name'", s"'$value'") }
    spark.sql(s"SELECT * FROM pgoutput_changes('messages', 'seq', map(${entries.mkString(", ")}))")
  }

  /** The warnings of the physical operator while the query runs. */
  private def warnings(query: DataFrame): Seq[String] =
    LoggedTexts.of(classOf[TableChangesExec])(query.collect())

  test("a read with no commit above `after` logs one warning") {
    val text = warnings(changes(messages, "after" -> "110"))
    assert(text.length == 1)
    Seq("'after', 0/6E (110)", "8 messages", "greatest commit is 0/6E (110)").foreach { part =>
      assert(text.head.contains(part), text.head)
    }
    assert(warnings(changes(messages, "after" -> "9999")).head.contains("commit is 0/6E (110)"))
    val empty = warnings(changes(Nil, "after" -> "110"))
    assert(empty.length == 1 && empty.head.contains("of 0 messages, there is no commit"))
  }

  test("a read with a commit above `after`, or without `after`, logs nothing") {
    assert(warnings(changes(messages, "after" -> "109")).isEmpty)
    assert(warnings(changes(Nil)).isEmpty)
  }

  /** The changes of two sources, whose tables are defined in earlier messages. */
  private def ofTwoSources(source: String, earlierSource: String): DataFrame = {
    val messages = Seq("1" -> 100L, "2" -> 200L).flatMap { case (slot, lsn) =>
      Seq(begin(7, lsn), insert("a"), commit(lsn)).zipWithIndex.map { case (data, place) =>
        (slot, place + 1, data)
      }
    }
    val definitions = Seq("1" -> "t", "2" -> "u").map { case (slot, name) =>
      (slot, 0, relation(name = name))
    }
    for (
      (view, rows, slot) <-
        Seq(("messages", messages, source), ("earlier", definitions, earlierSource))
    ) spark
      .createDataFrame(rows)
      .toDF("slot", "seq", "data")
      .selectExpr(s"$slot AS slot", "seq", "data")
      .createOrReplaceTempView(view)
    spark.sql(
      """SELECT CAST(_source AS STRING), _table
        |FROM pgoutput_changes('messages', 'seq', map('source', 'slot', 'relations', 'earlier'))
        |ORDER BY _source""".stripMargin
    )
  }

  test("earlier messages can have another type of sources") {
    val expected = Seq(Row("1", "public.t"), Row("2", "public.u"))
    for (
      (source, earlier) <- Seq(
        "INT(slot)" -> "slot",
        "slot" -> "INT(slot)",
        "BIGINT(slot)" -> "SMALLINT(slot)"
      )
    ) assert(ofTwoSources(source, earlier).collect().toSeq == expected, s"$source, $earlier")
  }

  test("sources of earlier messages that are not sources of the messages are refused") {
    val error = intercept[AnalysisException](ofTwoSources("INT(slot)", "DATE'2026-01-01'"))
    assert(error.getCondition.startsWith("DATATYPE_MISMATCH.CAST"), error.getMessage)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try intercept[Exception](ofTwoSources("INT(slot)", "concat('slot', slot)").collect())
    finally spark.conf.unset("spark.sql.ansi.enabled")
  }

  test("EXPLAIN shows the options, and the metrics count messages and transactions") {
    val query = changes(messages, "after" -> "100", "tables" -> "t,Sales.*")
    query.collect()
    val plan = query.queryExecution.executedPlan
    assert(plan.toString.contains("tables=public.t,sales.*, after=0/64"))
    def find(plan: SparkPlan): Option[TwoPassExec] = plan.collectFirst { case e: TwoPassExec => e }
    val metrics = find(plan).get.metrics
    val counted = Seq("numOutputRows", "numMessages", "numCommits", "numOpen")
    assert(counted.map(metrics(_).value) == Seq(1, 8, 2, 1))
  }
}
