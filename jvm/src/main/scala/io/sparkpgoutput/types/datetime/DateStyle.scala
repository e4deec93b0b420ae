package io.sparkpgoutput.types.datetime

import java.util.Locale

/**
 * How a server printed dates and timestamps.
 *
 * @param name
 *   as the server's setting `DateStyle` has it
 * @param separator
 *   between the numbers of a date
 * @param dayFirst
 *   whether the day comes before the month
 * @see
 *   PostgreSQL documentation, "Date/Time Output"; `EncodeDateOnly`, `EncodeDateTime`
 */
sealed abstract class DateStyle(val name: String, val separator: Char, val dayFirst: Boolean)

object DateStyle {
  case object Iso extends DateStyle("ISO", '-', dayFirst = false)
  case object SqlDmy extends DateStyle("SQL, DMY", '/', dayFirst = true)
  case object SqlMdy extends DateStyle("SQL, MDY", '/', dayFirst = false)
  case object PostgresDmy extends DateStyle("Postgres, DMY", '-', dayFirst = true)
  case object PostgresMdy extends DateStyle("Postgres, MDY", '-', dayFirst = false)
  case object German extends DateStyle("German", '.', dayFirst = true)
  val all: Seq[DateStyle] = Seq(Iso, SqlDmy, SqlMdy, PostgresDmy, PostgresMdy, German)

  /**
   * What the setting means, as `SHOW DateStyle` gives it: the style and the order of a date's
   * parts. None where it does not tell the one or the other, and the order matters.
   */
  def parse(setting: String): Option[DateStyle] = {
    val words = setting.toUpperCase(Locale.ROOT).split(",", -1).map(_.trim)
    val order = words.drop(1).mkString(",")
    if (order.nonEmpty && !Orders.contains(order)) None
    else
      words(0) match {
        case "ISO"                        => Some(Iso)
        case "GERMAN"                     => Some(German) // whatever the order
        case "SQL" if order.nonEmpty      => Some(if (order == "DMY") SqlDmy else SqlMdy)
        case "POSTGRES" if order.nonEmpty => Some(if (order == "DMY") PostgresDmy else PostgresMdy)
        case _                            => None
      }
  }

  /** Printed with YMD, the month comes before the day. */
  private val Orders = Set("DMY", "MDY", "YMD")
}
