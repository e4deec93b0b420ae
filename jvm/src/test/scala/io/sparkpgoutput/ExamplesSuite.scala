package io.sparkpgoutput

import org.apache.spark.sql.catalyst.expressions.ExpressionInfo
import org.apache.spark.sql.execution.HiveResult

import io.sparkpgoutput.changes.sql.TableFunctions

/** The text of DESCRIBE FUNCTION EXTENDED is complete, and its examples give the results that it shows. */
class ExamplesSuite extends SparkSessionTests {
  private val example = """(?m)^ *> (.*);\n((?: {7}.*\n)*)""".r

  private val infos = PgOutputExtensions.functions.map(_._2) ++ TableFunctions.all.map(_._2)

  infos.foreach { info =>
    test(s"${info.getName}: the examples give the results that they show") {
      val examples = example.findAllMatchIn(info.getExamples).map { found =>
        (found.group(1), found.group(2).linesIterator.map(_.trim).mkString("\n"))
      }.toSeq
      assert(examples.size == info.getExamples.count(_ == '>'))
      assert(examples.nonEmpty)
      examples.foreach { case (query, expected) => assert(result(query) == expected, query) }
    }

    test(s"${info.getName}: every part of the description is there") {
      parts(info).foreach { case (name, text) => assert(text.trim.nonEmpty, name) }
      assert(info.getSince == (if (info.getName == "pgoutput_tables") "0.2.0" else "0.1.0"))
      assert(info.getExamples.matches(s"(?s).*> SELECT [^\n]*\\b${info.getName}\\(.*"))
      val described = spark.sql(s"DESCRIBE FUNCTION EXTENDED ${info.getName}").collect()
      val text = described.map(_.getString(0)).mkString("\n")
      parts(info).values.foreach(part => assert(text.contains(part.trim)))
      assert(!text.contains("_FUNC_"))
    }
  }

  private def parts(info: ExpressionInfo) = Map(
    "usage" -> info.getUsage,
    "arguments" -> info.getArguments,
    "examples" -> info.getExamples
  )

  /** Returns the result of a query as spark-sql shows it. */
  private def result(query: String): String =
    HiveResult.hiveResultString(spark.sql(query).queryExecution.executedPlan).mkString("\n")
}
