package io.sparkpgoutput.options

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}

/** How a call of a function with optional arguments is shown, in plans and in names of columns. */
object ShownCall {

  /** Arguments that were left out are not shown; a NULL at the end says the same. */
  def of(name: String, needed: Seq[Expression], optional: Seq[Expression])(
      show: Expression => String
  ): String = {
    val shown = optional.reverse.dropWhile {
      case Literal(null, _) => true
      case argument => argument.sql == "NULL" // in the name of a column literals are no Literals
    }
    (needed ++ shown.reverse).map(show).mkString(s"$name(", ", ", ")")
  }
}
