package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.types._

/** The form of the columns of a table. */
sealed abstract class TableFormat {

  /** The columns. */
  def columns: StructType
}

object TableFormat {

  /**
   * Each column is a column of a schema.
   *
   * @param ignoreOthers
   *   true leaves out a column that the schema lacks, or whose type cannot be read as that of the
   *   schema; false makes it an error
   */
  final case class Columns(columns: StructType, ignoreOthers: Boolean, caseSensitive: Boolean)
      extends TableFormat

  /** All columns are one map of names to PostgreSQL's text. */
  case object AsMap extends TableFormat {
    override val columns: StructType = row(MapType(StringType, StringType))
  }

  /** All columns are one VARIANT, an object. */
  case object AsVariant extends TableFormat {
    override val columns: StructType = row(VariantType)
  }

  private def row(dataType: DataType) = new StructType().add(ChangeSchema.Row, dataType)
}
