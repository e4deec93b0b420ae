package io.sparkpgoutput.lake.table

import org.apache.spark.sql.types.DecimalType

import io.sparkpgoutput.types.PgType
import io.sparkpgoutput.types.numbers.{PgFloat, PgInteger}
import io.sparkpgoutput.types.registry.BuiltInTypes

/** Changes of a column's type after which each value is what it was. */
private object Widening {
  private val numbers: Seq[Seq[PgType]] = Seq(
    Seq(PgInteger.Int2, PgInteger.Int4, PgInteger.Int8),
    Seq(PgFloat.Float4, PgFloat.Float8)
  )

  /** The modifier of a varchar or a numeric is 4 more than what it says (VARHDRSZ). */
  private val ModifierOffset = 4

  def isLossless(from: SourceColumn, to: SourceColumn): Boolean =
    rewrites(from, to) || ((typeOf(from), typeOf(to)) match {
      case ("varchar", "varchar") =>
        to.modifier < 0 || (from.modifier >= 0 && from.modifier <= to.modifier)
      case ("varchar", "text")    => true
      case ("numeric", "numeric") => widerNumeric(from.modifier, to.modifier)
      case _                      => false
    })

  /** Widens a number, for which the server rewrites the table. */
  def rewrites(from: SourceColumn, to: SourceColumn): Boolean = numbers.exists { types =>
    val (before, after) = (place(types, from), place(types, to))
    before >= 0 && after > before
  }

  private def place(types: Seq[PgType], column: SourceColumn) =
    types.indexWhere(pgType => BuiltInTypes.byOid.get(column.typeId).contains(pgType))

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
