package io.sparkpgoutput.types

import java.time.{ZoneId, ZoneOffset}

import io.sparkpgoutput.protocol.TextEncoding

/**
 * The options that decide how values are read. `RowOptions` says where they come from.
 *
 * @param timeZone
 *   the time zone of timestamptz text without an offset, and of a timestamp that is read as TIMESTAMP
 * @param printedTimeZone the time zone of a binary timestamptz that is read as STRING
 * @param keepsDigits
 *   whether a text that becomes a FLOAT or DOUBLE must keep its number. A field of a composite's text needs
 *   this, because it can have any type.
 */
final case class ConversionOptions(
    encoding: TextEncoding = TextEncoding.Utf8,
    timeZone: ZoneId = ZoneOffset.UTC,
    printedTimeZone: ZoneId = ZoneOffset.UTC,
    infinity: InfinityMode = InfinityMode.Error,
    moneyScale: Int = 2,
    keepsDigits: Boolean = false
) {

  /** The options for the values of a key. A value that cannot be read unchanged is an error. */
  def ofKey: ConversionOptions = copy(infinity = InfinityMode.ErrorOfKey)

  def isOfKey: Boolean = infinity == InfinityMode.ErrorOfKey
}

/** The option that says what an infinite date, timestamp or interval gives. */
sealed abstract class InfinityMode(val name: String)

object InfinityMode {

  /** An infinite value of a key is an error, because a value in its place could be the key of another row. */
  case object ErrorOfKey extends InfinityMode("error of a key")
  case object Error extends InfinityMode("error")
  case object Null extends InfinityMode("null")

  /** The first or the last value that Spark prints: the years 1 to 9999. */
  case object Clamp extends InfinityMode("clamp")

  /** The modes that a user can choose. */
  val all: Seq[InfinityMode] = Seq(Error, Null, Clamp)
}
