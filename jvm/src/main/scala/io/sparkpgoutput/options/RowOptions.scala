package io.sparkpgoutput.options

import java.time.{DateTimeException, ZoneId}

import scala.util.control.Exception.catching

import org.apache.spark.sql.catalyst.util.DateTimeUtils

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.registry.TypeRegistry
import io.sparkpgoutput.types.{ConversionOptions, InfinityMode, TypeLookup}

/**
 * The options of the functions that give typed rows.
 *
 * @param timeZone
 *   None if it is not given: then it is the session's, and UTC for values that are read as text
 * @param types the types that columns can have, with those that the options declare
 */
final case class RowOptions(
    failFast: Boolean = true,
    timeZone: Option[ZoneId] = None,
    conversion: ConversionOptions = ConversionOptions(),
    types: TypeRegistry = TypeRegistry()
) {
  def conversionIn(sessionTimeZone: ZoneId): ConversionOptions = conversion.copy(
    timeZone = timeZone.getOrElse(sessionTimeZone),
    printedTimeZone = timeZone.getOrElse(conversion.printedTimeZone)
  )

  private def converting(set: ConversionOptions => ConversionOptions) =
    copy(conversion = set(conversion))
}

object RowOptions {

  /** The options of `pgoutput_row` and `try_pgoutput_row`, except for the mode. */
  private val values: Seq[OptionSpec[RowOptions]] = Seq(
    SharedOptions.encoding[RowOptions]((options, encoding) =>
      options.converting(_.copy(encoding = encoding))
    ),
    OptionSpec.parsed[RowOptions, ZoneId](
      "timeZone",
      "a name such as Europe/Berlin, or an offset such as +02:00",
      "the session's time zone; UTC for a binary timestamptz that is read as STRING",
      "The time zone of a timestamptz text without an offset, of a timestamp that is read as " +
        "TIMESTAMP, and of a binary timestamptz that is read as STRING."
    )(name => catching(classOf[DateTimeException]).opt(DateTimeUtils.getZoneId(name)))(
      (options, zone) => options.copy(timeZone = Some(zone))
    ),
    OptionSpec.choice[RowOptions, InfinityMode](
      "infinity",
      "error",
      "With error, an infinite date, timestamp or interval is an error. With null, it becomes NULL. " +
        "With clamp, it becomes the nearest value that Spark has: for dates and timestamps, the first or " +
        "last one of the years 1 to 9999, in UTC."
    )(InfinityMode.all.map(infinity => infinity.name -> infinity): _*)((options, infinity) =>
      options.converting(_.copy(infinity = infinity))
    ),
    OptionSpec[RowOptions](
      "dateStyle",
      DateStyles,
      "ISO",
      "The DateStyle of the server when it wrote the messages. It must be ISO."
    )(dateStyle),
    SharedOptions.moneyScale[RowOptions]((options, scale) =>
      options.converting(_.copy(moneyScale = scale))
    ),
    OptionSpec[RowOptions](
      "type.<oid>",
      TypeLookup.Declarations,
      "not known",
      "The type that has this oid. Binary cells need it if PostgreSQL does not fix the oid of the type."
    )(declare)
  )

  /** The options of `pgoutput_row`. */
  val row: OptionList[RowOptions] = new OptionList(
    RowOptions(),
    SharedOptions.mode[RowOptions]("a value that does not fit its type")((options, failFast) =>
      options.copy(failFast = failFast)
    ) +: values
  )

  /** The options of `try_pgoutput_row`. */
  val tryRow: OptionList[RowOptions] = new OptionList(
    RowOptions(failFast = false),
    SharedOptions.tryMode[RowOptions]("pgoutput_row") +: values
  )

  final private val DateStyles = "ISO, alone or as in 'ISO, MDY'"

  /** Checks the value of `SHOW DateStyle`. The order of a date's parts does not matter with ISO. */
  private def dateStyle(options: RowOptions, entry: OptionEntry) = Either.cond(
    entry.value.matches("(?i) *ISO *(, *(DMY|MDY|YMD) *)?"),
    options,
    entry.invalid(DateStyles) + " Set DateStyle to ISO for the server, the " +
      "database or the role that sends the messages."
  )

  private def declare(options: RowOptions, entry: OptionEntry) = for {
    oid <- entry.name
      .drop("type.".length)
      .toLongOption
      .filter(oid => oid > 0 && oid <= 0xffffffffL)
      .toRight(
        s"'${entry.name}' is not an option. Write the oid of a type, which is a number, as in 'type.16402'."
      )
    _ <- TypeRegistry().declared(entry.value).toRight(entry.invalid(TypeLookup.Declarations))
  } yield options.copy(types = options.types + (oid -> entry.value))
}

/** The options of the functions that decode messages. */
final case class DecodeOptions(failFast: Boolean = true, encoding: TextEncoding = TextEncoding.Utf8)

object DecodeOptions {
  private val encoding =
    SharedOptions.encoding[DecodeOptions]((options, encoding) => options.copy(encoding = encoding))

  /** The options of `pgoutput_decode`. */
  val decode: OptionList[DecodeOptions] = new OptionList(
    DecodeOptions(),
    Seq(
      SharedOptions.mode[DecodeOptions]("a malformed message")((options, failFast) =>
        options.copy(failFast = failFast)
      ),
      encoding
    )
  )

  /** The options of `try_pgoutput_decode`. */
  val tryDecode: OptionList[DecodeOptions] = new OptionList(
    DecodeOptions(failFast = false),
    Seq(SharedOptions.tryMode("pgoutput_decode"), encoding)
  )
}

/** The options that several functions, sources or jobs have. */
object SharedOptions {

  def user[T](set: (T, String) => T): OptionSpec[T] = OptionSpec.text[T](
    "user",
    "a role",
    "the role in the URL",
    "The role that connects to the server."
  )(set)

  def password[T](set: (T, String) => T): OptionSpec[T] = OptionSpec.text[T](
    "password",
    "a text",
    "the password in the URL or in a pgpass file",
    "The password of the role."
  )(set)

  /**
   * The option that says whether bad data is an error or gives NULL. It has the values of `from_json`.
   *
   * @param bad what is bad data
   */
  def mode[T](bad: String)(setFailFast: (T, Boolean) => T): OptionSpec[T] =
    OptionSpec.choice[T, Boolean](
      "mode",
      "FAILFAST",
      s"With FAILFAST, $bad is an error. With PERMISSIVE, it gives NULL."
    )("FAILFAST" -> true, "PERMISSIVE" -> false)(setFailFast)

  /**
   * The option `mode` of a function that always gives NULL for bad data.
   *
   * @param strict the function for FAILFAST
   */
  def tryMode[T](strict: String): OptionSpec[T] =
    OptionSpec.parsed[T, String](
      "mode",
      s"PERMISSIVE (for FAILFAST, use $strict)",
      "PERMISSIVE",
      "This function is always PERMISSIVE."
    )(Some(_).filter("PERMISSIVE".equalsIgnoreCase(_)))((options, _) => options)

  def encoding[T](set: (T, TextEncoding) => T): OptionSpec[T] =
    OptionSpec.parsed[T, TextEncoding](
      "encoding",
      TextEncoding.names.mkString("", ", ", ", or the name of a Java charset"),
      "UTF8",
      "The client_encoding of the server when it wrote the messages."
    )(TextEncoding.of)(set)

  /** PostgreSQL's locales have up to 10 digits after the point (`cash_in`). */
  def moneyScale[T](set: (T, Int) => T): OptionSpec[T] = OptionSpec.parsed[T, Int](
    "moneyScale",
    "0 to 10",
    "2",
    "The number of digits that a value of the type money has after the decimal point."
  )(_.toIntOption.filter(scale => scale >= 0 && scale <= 10))(set)
}
