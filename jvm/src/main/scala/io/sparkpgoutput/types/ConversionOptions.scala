package io.sparkpgoutput.types

import java.time.{ZoneId, ZoneOffset}

import io.sparkpgoutput.protocol.TextEncoding

/**
 * The options that decide how values are read. `RowOptions` says where they come from.
 *
 * @param timeZone
 *   the time zone of timestamptz text without an offset, and of a timestamp that is read as TIMESTAMP
 * @param printedTimeZone the time zone of a binary timestamptz that is read as STRING
 */
final case class ConversionOptions(
    encoding: TextEncoding = TextEncoding.Utf8,
    timeZone: ZoneId = ZoneOffset.UTC,
    printedTimeZone: ZoneId = ZoneOffset.UTC,
    infinity: InfinityMode = InfinityMode.Error,
    moneyScale: Int = 2
) {

  /** How the values of a key are read: none becomes another value. */
  def ofKey: ConversionOptions = copy(infinity = InfinityMode.ErrorOfKey)

  def isOfKey: Boolean = infinity == InfinityMode.ErrorOfKey
}
