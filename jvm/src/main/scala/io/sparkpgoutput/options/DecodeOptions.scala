package io.sparkpgoutput.options

import io.sparkpgoutput.protocol.TextEncoding

/**
 * The options of the decoding functions.
 *
 * @param mode
 *   what a malformed message gives; None where it was not said
 * @param encoding
 *   the server's `client_encoding` when the messages were written
 */
final case class DecodeOptions(mode: Option[ParseMode], encoding: TextEncoding)

/** What a malformed message gives: an error, or NULL. The names are those of `from_json`. */
sealed abstract class ParseMode(val name: String)

object ParseMode {
  case object FailFast extends ParseMode("FAILFAST")
  case object Permissive extends ParseMode("PERMISSIVE")
  val all: Seq[ParseMode] = Seq(FailFast, Permissive)

  def parse(name: String): Either[String, ParseMode] =
    all
      .find(_.name.equalsIgnoreCase(name))
      .toRight(FunctionOptions.invalid("mode", name, all.map(_.name)))
}

object DecodeOptions {
  private val Mode = "mode"
  private val Encoding = "encoding"

  val none: DecodeOptions = DecodeOptions(None, TextEncoding.Utf8)

  /** Reads the options, names in any case; Left says what is wrong with them. */
  def parse(options: Seq[(String, String)]): Either[String, DecodeOptions] =
    FunctionOptions.parse(options, none) { (parsed, name, value) =>
      name match {
        case Mode     => ParseMode.parse(value).map(mode => parsed.copy(mode = Some(mode)))
        case Encoding => parseEncoding(value).map(encoding => parsed.copy(encoding = encoding))
        case _        => Left(FunctionOptions.unknown(name, Seq(Mode, Encoding)))
      }
    }

  def parseEncoding(name: String): Either[String, TextEncoding] =
    Option(name)
      .flatMap(TextEncoding.of)
      .toRight(
        FunctionOptions.invalid(Encoding, name, TextEncoding.names) + ", or a charset of Java's"
      )
}
