package io.sparkpgoutput.lake.table

import org.apache.spark.sql.types.DecimalType

import io.sparkpgoutput.types.registry.BuiltInTypes

/**
 * Changes of a column's type after which each value is what it was. A change that rewrites the table, such
 * as `int` to `bigint`, is none of them: the catalog does not tell `TYPE bigint` from
 * `TYPE bigint USING n * 2`.
 */
private object Widening {

  /** The modifier of a varchar or a numeric is 4 more than what it says (VARHDRSZ). */
  private val ModifierOffset = 4

  def isLossless(from: SourceColumn, to: SourceColumn): Boolean = (typeOf(from), typeOf(to)) match {
    case ("varchar", "varchar") =>
      to.modifier < 0 || (from.modifier >= 0 && from.modifier <= to.modifier)
    case ("varchar", "text")    => true
    case ("numeric", "numeric") => widerNumeric(from.modifier, to.modifier)
    case _                      => false
  }

  private def typeOf(column: SourceColumn) =
    BuiltInTypes.byOid.get(column.typeId).fold("")(_.name)

  /** More digits before the point, and as many after it (`make_numeric_typmod`). */
  private def widerNumeric(from: Int, to: Int) =
    from >= ModifierOffset && to >= ModifierOffset && {
      val (before, after) = (from - ModifierOffset, to - ModifierOffset)
      (before & 0xffff) == (after & 0xffff) && (before >>> 16) <= (after >>> 16) &&
      // More digits than a DECIMAL of Spark has need another type.
      ((after >>> 16) <= DecimalType.MAX_PRECISION || (before >>> 16) > DecimalType.MAX_PRECISION)
    }
}
