package io.sparkpgoutput.types.json

import org.apache.spark.sql.types.{DataType, VariantType}

import io.sparkpgoutput.types._

/** json, whose binary value is its text, and jsonb, whose text follows a version. */
final class PgJson private (name: String, versioned: Boolean) extends PgType(name) {
  override protected def variantType: DataType = VariantType

  override protected def conversion(
      target: DataType,
      options: ConversionOptions
  ): Option[Conversion] =
    Option.when(target == VariantType)(new JsonConversion(name, printer(options)))

  override def printer(options: ConversionOptions): Printer =
    if (versioned) new VersionedText(name, options.encoding)
    else new EncodedText(options.encoding)
}

object PgJson {
  val Json = new PgJson("json", versioned = false)
  val Jsonb = new PgJson("jsonb", versioned = true)
}
