package io.sparkpgoutput.types

import java.time.{ZoneId, ZoneOffset}

import io.sparkpgoutput.protocol.TextEncoding

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
 * @param declared
 *   the types whose oids PostgreSQL does not fix
 */
final case class ConversionOptions(
    encoding: TextEncoding = TextEncoding.Utf8,
    timeZone: ZoneId = ZoneOffset.UTC,
    printedTimeZone: ZoneId = ZoneOffset.UTC,
    infinity: Infinity = Infinity.Error,
    dateStyle: DateStyle = DateStyle.Iso,
    moneyScale: Int = 2,
    declared: Map[Long, PgType] = Map.empty
) {

  /** The type with an oid; a [[PgUnknown]] where neither PostgreSQL nor an option says which it is. */
  def pgType(oid: Long): PgType =
    declared.getOrElse(oid, PgTypes.byOid.getOrElse(oid, new PgUnknown(oid)))
}

/** What an infinite date, timestamp or interval gives. */
sealed abstract class Infinity(val name: String)

object Infinity {
  case object Error extends Infinity("error")
  case object Null extends Infinity("null")

  /** The first or the last that Spark prints: years 1 to 9999. */
  case object Clamp extends Infinity("clamp")
  val all: Seq[Infinity] = Seq(Error, Null, Clamp)
}
