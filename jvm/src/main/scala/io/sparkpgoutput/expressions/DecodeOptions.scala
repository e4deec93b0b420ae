package io.sparkpgoutput.expressions

import java.util.Locale

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
}

object DecodeOptions {
  private val Mode = "mode"
  private val Encoding = "encoding"

  val none: DecodeOptions = DecodeOptions(None, TextEncoding.Utf8)

  /** Reads the options, names in any case; Left says what is wrong with them. */
  def parse(options: Seq[(String, String)]): Either[String, DecodeOptions] =
    options
      .foldLeft[Either[String, (DecodeOptions, Set[String])]](Right((none, Set.empty))) {
        case (Right((parsed, seen)), (name, value)) =>
          val known = name.toLowerCase(Locale.ROOT)
          if (seen(known)) Left(s"The option '$known' is given twice")
          else set(parsed, known, value).map((_, seen + known))
        case (error, _) => error
      }
      .map(_._1)

  private def set(options: DecodeOptions, name: String, value: String) = name match {
    case Mode =>
      ParseMode.all
        .find(_.name.equalsIgnoreCase(value))
        .map(mode => options.copy(mode = Some(mode)))
        .toRight(invalid(Mode, value, ParseMode.all.map(_.name)))
    case Encoding =>
      Option(value)
        .flatMap(TextEncoding.of)
        .map(encoding => options.copy(encoding = encoding))
        .toRight(invalid(Encoding, value, TextEncoding.names) + ", or a charset of Java's")
    case _ => Left(s"There is no option '$name'; the options are '$Mode' and '$Encoding'")
  }

  private def invalid(name: String, value: String, valid: Seq[String]) =
    s"'$value' is not valid for the option '$name'; valid are ${valid.mkString(", ")}"
}
