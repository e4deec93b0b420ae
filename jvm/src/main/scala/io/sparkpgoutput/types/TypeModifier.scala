package io.sparkpgoutput.types

/** Shows type modifiers as `format_type` does: the 12,2 of numeric(12,2). */
object TypeModifier {

  /** What follows the type's name; nothing where it has no modifier. */
  def text(pgType: PgType, modifier: Int): String =
    if (modifier < 0) ""
    else
      pgType.name.stripSuffix("[]") match {
        case "numeric" if modifier >= 4 =>
          s"(${(modifier - 4) >>> 16},${((modifier - 4 & 0x7ff) ^ 0x400) - 0x400})"
        case "varchar" | "bpchar" if modifier >= 4              => s"(${modifier - 4})"
        case "bit" | "varbit"                                   => s"($modifier)"
        case "time" | "timetz" | "timestamp" | "timestamptz"    => s"($modifier)"
        case "interval" if (modifier & 0xffff) != FullPrecision => s"(${modifier & 0xffff})"
        case _                                                  => ""
      }

  /** `INTERVAL_FULL_PRECISION`: none was given. */
  final private val FullPrecision = 0xffff
}
