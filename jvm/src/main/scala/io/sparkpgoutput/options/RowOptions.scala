package io.sparkpgoutput.options

import java.time.{DateTimeException, ZoneId}

import scala.util.control.Exception.catching

import org.apache.spark.sql.catalyst.util.DateTimeUtils

import io.sparkpgoutput.options.FunctionOptions.{invalid, unknown}
import io.sparkpgoutput.types.{ConversionOptions, DateStyle, Infinity, PgTypes}

/**
 * The options of the functions that give typed rows.
 *
 * @param mode
 *   what a value that does not fit gives; None where it was not said
 * @param timeZone
 *   None where it was not said: then the session's, and UTC for what is printed
 * @param conversion
 *   the others
 */
final case class RowOptions(
    mode: Option[ParseMode],
    timeZone: Option[ZoneId],
    conversion: ConversionOptions
) {
  def conversionIn(sessionTimeZone: ZoneId): ConversionOptions = conversion.copy(
    timeZone = timeZone.getOrElse(sessionTimeZone),
    printedTimeZone = timeZone.getOrElse(conversion.printedTimeZone)
  )
}

object RowOptions {
  private val Type = "type."
  private val names =
    Seq("mode", "encoding", "timeZone", "infinity", "dateStyle", "moneyScale", Type + "<oid>")

  val none: RowOptions = RowOptions(None, None, ConversionOptions())

  /**
   * Reads the options, names in any case; Left says what is wrong with them.
   *
   * @param others
   *   the names of options that were read before, for error messages
   */
  def parse(
      options: Seq[(String, String)],
      others: Seq[String] = Nil
  ): Either[String, RowOptions] =
    FunctionOptions.parse(options, none) { (parsed, name, value) =>
      def converting(set: ConversionOptions => ConversionOptions) =
        parsed.copy(conversion = set(parsed.conversion))
      name match {
        case "mode" => ParseMode.parse(value).map(mode => parsed.copy(mode = Some(mode)))
        case "encoding" =>
          DecodeOptions.parseEncoding(value).map(e => converting(_.copy(encoding = e)))
        case "timezone"   => parseTimeZone(value).map(zone => parsed.copy(timeZone = Some(zone)))
        case "infinity"   => parseInfinity(value).map(i => converting(_.copy(infinity = i)))
        case "datestyle"  => parseDateStyle(value).map(s => converting(_.copy(dateStyle = s)))
        case "moneyscale" => parseMoneyScale(value).map(s => converting(_.copy(moneyScale = s)))
        case declared if declared.startsWith(Type) =>
          parseType(declared, value).map(t => converting(c => c.copy(declared = c.declared + t)))
        case _ => Left(unknown(name, others ++ names))
      }
    }

  private def parseTimeZone(name: String) = Option(name)
    .flatMap(zone => catching(classOf[DateTimeException]).opt(DateTimeUtils.getZoneId(zone)))
    .toRight(
      s"'$name' is not valid for the option 'timeZone': a name such as Europe/Berlin or +02:00"
    )

  private def parseInfinity(name: String) = Infinity.all
    .find(_.name.equalsIgnoreCase(name))
    .toRight(invalid("infinity", name, Infinity.all.map(_.name)))

  private def parseDateStyle(setting: String) = Option(setting)
    .flatMap(DateStyle.parse)
    .toRight(invalid("dateStyle", setting, DateStyle.all.map(_.name)))

  /** PostgreSQL's locales have up to 10 digits after the point (`cash_in`). */
  private def parseMoneyScale(number: String) = Option(number)
    .flatMap(_.toIntOption)
    .filter(scale => scale >= 0 && scale <= 10)
    .toRight(invalid("moneyScale", number, Seq("0 to 10")))

  private def parseType(name: String, declaration: String) = for {
    oid <- name
      .stripPrefix(Type)
      .toLongOption
      .filter(oid => oid > 0 && oid <= 0xffffffffL)
      .toRight(s"'$name' is not an option: type.<oid> has the oid of a type, a number")
    declared <- Option(declaration)
      .flatMap(PgTypes.declared)
      .toRight(
        s"'$declaration' is not valid for the option '$name'; valid is ${PgTypes.declarations}"
      )
  } yield oid -> declared
}
