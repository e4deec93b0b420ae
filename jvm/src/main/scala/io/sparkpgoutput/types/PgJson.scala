package io.sparkpgoutput.types

import org.apache.spark.sql.types.{DataType, VariantType}

/** json, whose binary value is its text, and jsonb, where a version is before it. */
final class PgJson private (override val name: String, versioned: Boolean)
    extends PgType {
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
