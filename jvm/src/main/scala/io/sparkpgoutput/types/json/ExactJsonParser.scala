package io.sparkpgoutput.types.json

import java.math.BigDecimal

import com.fasterxml.jackson.core.JsonParser
import com.fasterxml.jackson.core.util.JsonParserDelegate

import io.sparkpgoutput.types.InvalidValue

/**
 * Gives JSON to Spark's `VariantBuilder` so that the VARIANT has the same value, or throws
 * [[InvalidValue]].
 *
 * Numbers: the builder takes whole numbers of 64 bits and decimals of up to 38 digits, before and
 * after the point, as they are; it would round to DOUBLE what is longer and what has an exponent.
 * Here an exponent is written out, so that 1.5e3 of a json is the decimal that a jsonb has for it,
 * and trailing zeros beyond 38 digits go. What is longer even so is refused, be it 1e100.
 *
 * Strings: half a surrogate pair, which a json may escape, is no character, and would become a
 * question mark. It is refused.
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

  /** Whether the builder takes a number as it is: at most 38 digits and no exponent. */
  private def isPlain(number: String): Boolean =
    number.length <= MostDigits && number.indexOf('e') < 0 && number.indexOf('E') < 0

  private def writtenOut(number: String): String = {
    val value =
      try new BigDecimal(number).stripTrailingZeros
      catch { case _: NumberFormatException => throw tooLong } // the exponent has over 32 bits
    val digits =
      if (value.scale < 0) value.precision - value.scale.toLong else value.precision.toLong
    if (digits > MostDigits || value.scale > MostDigits) throw tooLong
    value.toPlainString
  }

  private def tooLong =
    new InvalidValue(s"has a number of more than $MostDigits digits", JsonConversion.Remedy)

  private def wellFormed(text: String): String = {
    var at = 0
    while (at < text.length) {
      val character = text.charAt(at)
      if (Character.isSurrogate(character)) {
        val isPair = Character.isHighSurrogate(character) &&
          at + 1 < text.length && Character.isLowSurrogate(text.charAt(at + 1))
        if (!isPair) {
          throw new InvalidValue(
            "has half a surrogate pair, which is no character",
            JsonConversion.Remedy
          )
        }
        at += 1
      }
      at += 1
    }
    text
  }
}
