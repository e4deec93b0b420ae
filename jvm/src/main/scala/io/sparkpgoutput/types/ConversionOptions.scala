package io.sparkpgoutput.types

import java.time.{ZoneId, ZoneOffset}

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.datetime.DateStyle

/**
 * What conversions need to know beside the types.
 *
 * @param encoding
 *   the server's `client_encoding`: of the text inside binary values
 * @param timeZone
 *   of timestamptz text without an offset, and of a timestamp that is read as TIMESTAMP
 * @param printedTimeZone
 *   of a binary timestamptz that is read as STRING
 * @param infinity
 *   what infinite dates, timestamps and intervals give
 * @param dateStyle
 *   the server's, of dates and timestamps in text; those in ISO are read whatever it is
 * @param moneyScale
 *   the digits of money after the point
 */
final case class ConversionOptions(
    encoding: TextEncoding = TextEncoding.Utf8,
    timeZone: ZoneId = ZoneOffset.UTC,
    printedTimeZone: ZoneId = ZoneOffset.UTC,
    infinity: InfinityMode = InfinityMode.Error,
    dateStyle: DateStyle = DateStyle.Iso,
    moneyScale: Int = 2
)
