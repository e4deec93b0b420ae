package io.sparkpgoutput.types

/**
 * How a server printed dates and timestamps, where not in ISO 8601.
 *
 * @see
 *   PostgreSQL documentation, "Date/Time Output"
 */
sealed abstract class DateStyle(val name: String)

object DateStyle {
  case object SqlDmy extends DateStyle("SQL, DMY")
  case object SqlMdy extends DateStyle("SQL, MDY")
  case object PostgresDmy extends DateStyle("Postgres, DMY")
  case object PostgresMdy extends DateStyle("Postgres, MDY")
  case object German extends DateStyle("German")
  val all: Seq[DateStyle] = Seq(SqlDmy, SqlMdy, PostgresDmy, PostgresMdy, German)
}
