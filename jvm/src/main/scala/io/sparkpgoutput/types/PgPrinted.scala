package io.sparkpgoutput.types

import org.apache.spark.sql.types.DataType

/** A type that is read as STRING alone: what it has of its own is how binary values are printed. */
abstract class PgPrinted(final override val name: String) extends PgType {
  final override protected def conversion(
      target: DataType,
      options: ConversionOptions
  ): Option[Conversion] = None
}
