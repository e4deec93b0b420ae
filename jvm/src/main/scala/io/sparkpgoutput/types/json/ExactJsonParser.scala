package io.sparkpgoutput.types.json

import java.math.BigDecimal

import com.fasterxml.jackson.core.JsonParser
import com.fasterxml.jackson.core.util.JsonParserDelegate

import io.sparkpgoutput.types.InvalidValue

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
  import ExactJsonParser._

  override def getText: String = {
    val text = delegate.getText
    if (!delegate.currentToken.isNumeric) wellFormed(text)
    else if (isPlain(text)) text
    else writtenOut(text)
  }

  override def currentName: String = wellFormed(delegate.currentName)
}

private object ExactJsonParser {
  private val MostDigits = 38

  /** Tells whether the builder keeps a number: it has at most 38 digits and no exponent. */
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
