package io.sparkpgoutput.types

import org.apache.spark.sql.types.DataType

/** Types whose binary value is their text: text, varchar, char, name, xml, enums and more. */
final private[sparkpgoutput] class PgText(override val name: String) extends PgType {
  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] = None

  override def printer(options: ConversionOptions): Printer = new EncodedText(options.encoding)
}
