package io.sparkpgoutput.options

import java.time.{DateTimeException, ZoneId}

import scala.util.control.Exception.catching

import org.apache.spark.sql.catalyst.util.DateTimeUtils

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

  /** The options that `pgoutput_row` and `try_pgoutput_row` have besides the mode. */
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
        "last one of the years 1 to 9999."
    )(InfinityMode.all.map(infinity => infinity.name -> infinity): _*)((options, infinity) =>
      options.converting(_.copy(infinity = infinity))
    ),
    OptionSpec[RowOptions](
      "dateStyle",
      "ISO, alone or as in 'ISO, MDY'",
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

  /** Checks the value of `SHOW DateStyle`. The order of a date's parts does not matter with ISO. */
  private def dateStyle(options: RowOptions, entry: OptionEntry) = Either.cond(
    entry.value.matches("(?i) *ISO *(, *(DMY|MDY|YMD) *)?"),
    options,
    entry.invalid("ISO, alone or as in 'ISO, MDY'") + " Set DateStyle to ISO for the server, the " +
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
