package io.sparkpgoutput.types.families

import java.io.IOException
import java.math.BigDecimal
import java.nio.charset.StandardCharsets

import org.apache.spark.sql.types.{DataType, VariantType}
import org.apache.spark.types.variant.{VariantBuilder, VariantSizeLimitException}
import org.apache.spark.unsafe.types.VariantVal

import com.fasterxml.jackson.core.exc.StreamConstraintsException
import com.fasterxml.jackson.core.util.JsonParserDelegate
import com.fasterxml.jackson.core.{JsonFactory, JsonFactoryBuilder, JsonParser}

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types._

/** json, whose binary value is its text, and jsonb, whose text follows a version. */
final class PgJson private (name: String, versioned: Boolean) extends PgType(name) {
  override protected def variantType: DataType = VariantType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == VariantType)(new JsonConversion(name, printer(options)))

  override def printer(options: ConversionOptions): Printer =
    if (versioned) new VersionedText(name, options.encoding)
    else new EncodedText(options.encoding)
}

object PgJson {
  val Json = new PgJson("json", versioned = false)
  val Jsonb = new PgJson("jsonb", versioned = true)
}

object PgJsonPath extends PgType("jsonpath") {
  override def printer(options: ConversionOptions): Printer =
    new VersionedText(name, options.encoding)
}

/**
 * Prints binary values that are a version, the byte 1, and the printed text.
 *
 * @see `jsonb_send`, `jsonpath_send`
 */
final class VersionedText(typeName: String, encoding: TextEncoding) extends Printer {
  private val text = new EncodedText(encoding)

  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    if (from == to) throw InvalidValue.malformed(typeName)
    if (bytes(from) != 1) {
      throw new InvalidValue(s"has version ${bytes(from) & 0xff} of the binary form of $typeName")
    }
    text.print(bytes, from + 1, to, out)
  }
}

/**
 * Reads JSON as VARIANT, as Spark's `parse_json` does, but exactly: see [[ExactJsonParser]]. If a json
 * has a key twice, the last value counts, as in jsonb.
 */
final class JsonConversion(typeName: String, printer: Printer) extends PrintedConversion(printer) {
  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    // From a string, because Jackson would guess the encoding of bytes.
    val text = new String(bytes, from, to - from, StandardCharsets.UTF_8)
    out.write(
      try parse(text)
      catch {
        case _: VariantSizeLimitException => throw VariantValue.tooLarge
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

/**
 * Hands JSON to Spark's `VariantBuilder` so that the VARIANT has exactly the same value. If that is
 * not possible, it throws [[InvalidValue]].
 *
 * Spark's builder keeps whole numbers of 64 bits and decimals of up to 38 digits, but rounds longer
 * numbers and numbers with an exponent to DOUBLE. This parser writes exponents out, as jsonb does, and
 * drops trailing zeros beyond 38 digits. It refuses numbers that are still longer, such as 1e100.
 *
 * A json can escape half a surrogate pair, which is not a character. Spark would turn it into a
 * question mark, and this parser refuses it.
 */
final private class ExactJsonParser(parser: JsonParser) extends JsonParserDelegate(parser) {
  final private val MostDigits = 38

  override def getText: String = {
    val text = delegate.getText
    if (!delegate.currentToken.isNumeric) wellFormed(text)
    else if (isPlain(text)) text
    else writtenOut(text)
  }

  override def currentName: String = wellFormed(delegate.currentName)

  /** Returns whether the builder keeps a number: it has at most 38 digits and no exponent. */
  private def isPlain(number: String): Boolean =
    number.length <= MostDigits && number.indexOf('e') < 0 && number.indexOf('E') < 0

  private def writtenOut(number: String): String = {
    val value =
      try new BigDecimal(number).stripTrailingZeros
      catch { case _: NumberFormatException => throw tooLong } // the exponent has more than 32 bits
    val digits =
      if (value.scale < 0) value.precision - value.scale.toLong else value.precision.toLong
    if (digits > MostDigits || value.scale > MostDigits) throw tooLong
    value.toPlainString
  }

  private def tooLong =
    new InvalidValue(s"has a number of more than $MostDigits digits", "use STRING")

  private def wellFormed(text: String): String = {
    var at = 0
    while (at < text.length) {
      val character = text.codePointAt(at)
      if (Character.MIN_SURROGATE <= character && character <= Character.MAX_SURROGATE) {
        throw new InvalidValue("has half a surrogate pair, which is not a character", "use STRING")
      }
      at += Character.charCount(character)
    }
    text
  }
}
