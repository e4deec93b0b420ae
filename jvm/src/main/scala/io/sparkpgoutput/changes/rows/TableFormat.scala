package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.types._

/** How the columns of a table are given. */
sealed abstract class TableFormat {

  /** The columns. */
  def columns: StructType
}

object TableFormat {

  /**
   * Each by itself.
   *
   * @param ignoreOthers
   *   whether a column that the schema lacks, or whose type is another now, is left out or an error
   */
  final case class Columns(columns: StructType, ignoreOthers: Boolean, caseSensitive: Boolean)
      extends TableFormat

  /** PostgreSQL's text of each, by name. */
  case object AsMap extends TableFormat {
    override val columns: StructType = row(MapType(StringType, StringType))
  }

  /** All in one variant, by name. */
  case object AsVariant extends TableFormat {
    override val columns: StructType = row(VariantType)
  }

  private def row(dataType: DataType) = new StructType().add(ChangeSchema.Row, dataType)
}
