package io.sparkpgoutput.types

/** Prints a float8 as `float8out` with extra_float_digits 1: the fewest digits that tell it. */
private[sparkpgoutput] object FloatText {

  // To be replaced: Java 17's digits are not always the fewest (JDK-4511638).
  def print(value: Double, out: TextBuffer): Unit =
    if (value.isNaN) out.add("NaN")
    else if (value.isInfinite) out.add(if (value > 0) "Infinity" else "-Infinity")
    else if (value == 0) out.add(if (1 / value < 0) "-0" else "0")
    else {
      val exact = new java.math.BigDecimal(value.toString).stripTrailingZeros
      val exponent = exact.precision - exact.scale - 1
      if (exponent >= -4 && exponent < 15) out.add(exact.toPlainString)
      else {
        val digits = exact.unscaledValue.abs.toString
        val fraction = if (digits.length > 1) "." + digits.substring(1) else ""
        out.add(f"${if (value < 0) "-" else ""}${digits.charAt(0)}$fraction%se$exponent%+03d")
      }
    }
}
