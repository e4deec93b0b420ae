package io.sparkpgoutput.lake.state

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.lake.apply.MemoryTarget

class AnswerTableSuite extends SparkSessionTests {

  test("answers are read in order, and older answers to other requests go") {
    val target = new MemoryTarget(spark)
    val table = new AnswerTable(spark, target)
    assert(table.version == "" && table.of(-7).isEmpty)
    val answers = Seq(
      JobAnswer(JobAnswer.Waits, "A transaction is open."),
      JobAnswer(JobAnswer.Done, "{}\n{}")
    )
    answers.foreach { answer =>
      table.add(-7, answer)
      Thread.sleep(2)
    }
    val failed = JobAnswer(JobAnswer.Failed, "No slot is free.")
    table.add(-8, failed)
    assert(table.of(-7) == answers && table.of(-8) == Seq(failed))
    val name = target.sqlName(AnswerTable.Name)
    spark.sql(s"INSERT INTO $name VALUES (-9, 'done', '', now() - INTERVAL 25 HOURS)")
    assert(table.of(-9).nonEmpty)
    // The reader counts the answers to its request.
    table.add(-9, failed)
    assert(table.of(-9).length == 2)
    table.add(-8, failed)
    assert(table.of(-9) == Seq(failed) && table.of(-7) == answers)
  }
}
