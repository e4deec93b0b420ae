package io.sparkpgoutput.types.json

import java.io.IOException
import java.nio.charset.StandardCharsets

import org.apache.spark.types.variant.{VariantBuilder, VariantSizeLimitException}
import org.apache.spark.unsafe.types.VariantVal

import com.fasterxml.jackson.core.exc.StreamConstraintsException
import com.fasterxml.jackson.core.{JsonFactory, JsonFactoryBuilder}

import io.sparkpgoutput.types._

/**
 * Reads JSON as VARIANT, as Spark's `parse_json` does, but exactly: see [[ExactJsonParser]]. If a json
 * has a key twice, the last value counts, as in jsonb.
 */
final class JsonConversion(typeName: String, printer: Printer) extends Conversion {
  private val json = new TextBuffer

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    json.clear()
    printer.print(bytes, from, to, json)
    fromText(json.bytes, 0, json.size, out)
  }

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    // From a string, because Jackson would guess the encoding of bytes.
    val text = new String(bytes, from, to - from, StandardCharsets.UTF_8)
    out.write(
      try parse(text)
      catch {
        case _: VariantSizeLimitException =>
          throw new InvalidValue("is too large for VARIANT", "use STRING")
        case _: StreamConstraintsException =>
          throw new InvalidValue("has parts too long or too deep for VARIANT", "use STRING")
        case _: IOException => throw malformed
      }
    )
  }

  private def parse(text: String): VariantVal = {
    val parser = new ExactJsonParser(JsonConversion.factory.createParser(text))
    try {
      parser.nextToken()
      val variant = VariantBuilder.parseJson(parser, true)
      if (parser.nextToken() != null) throw malformed
      new VariantVal(variant.getValue, variant.getMetadata)
    } finally parser.close()
  }

  private def malformed =
    new InvalidValue(s"is not a valid $typeName", "use STRING")
}

object JsonConversion {
  // The keys come from data, and the JVM's table of strings would keep them.
  private val factory: JsonFactory =
    new JsonFactoryBuilder().disable(JsonFactory.Feature.INTERN_FIELD_NAMES).build()
}
