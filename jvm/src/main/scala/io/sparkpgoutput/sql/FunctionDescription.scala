package io.sparkpgoutput.sql

import org.apache.spark.sql.catalyst.expressions.ExpressionInfo

/**
 * The text of a function in `DESCRIBE FUNCTION EXTENDED`. `_FUNC_` stands for its name. Lines after
 * the first are indented by the margin before `|`.
 *
 * @param arguments one argument an item, as `name - what it is`
 * @param examples queries, each with the lines that spark-sql prints for it
 * @param note more paragraphs, or nothing
 * @param before a statement that the examples need, or nothing
 */
final case class FunctionDescription(
    usage: String,
    arguments: Seq[String],
    examples: Seq[(String, Seq[String])],
    note: String = "",
    group: String,
    before: String = "",
    since: String = "0.1.0"
) {
  import FunctionDescription._

  def info(name: String, className: String = classOf[SqlFunction].getName): ExpressionInfo =
    new ExpressionInfo(
      className,
      null,
      name,
      lines("_FUNC_" + usage.stripMargin, 4),
      lines("Arguments:\n" + arguments.map(a => s"  * ${a.stripMargin}").mkString("\n"), 4),
      lines("Examples:\n" + (statement ++ examples.map(example)).mkString("\n"), 4),
      if (note.isEmpty) "" else lines(note.stripMargin, 4),
      group,
      since,
      "",
      "built-in"
    )

  private def statement = Option.when(before.nonEmpty)(s"  > $before;")
}

object FunctionDescription {

  /** Spark needs a line break and this many spaces at both ends of each part. */
  private def lines(text: String, indent: Int): String =
    text.linesIterator.map(line => s"\n${" " * indent}$line").mkString + "\n  "

  private def example(queryAndResult: (String, Seq[String])): String =
    (s"  > SELECT ${queryAndResult._1};" +: queryAndResult._2.map("   " + _)).mkString("\n")
}
