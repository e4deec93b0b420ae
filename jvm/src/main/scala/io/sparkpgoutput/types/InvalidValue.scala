package io.sparkpgoutput.types

import scala.util.control.NoStackTrace

/**
 * A value is not valid for its type, or does not fit the Spark type that the user asked for.
 * Conversions throw it, and code that knows the column catches it.
 *
 * @param problem what is wrong, a phrase such as "has more than 2 digits after the point"
 * @param remedy
 *   the type or the option that takes the value, such as "use DECIMAL(12,3)"; null if there is none
 */
final class InvalidValue(val problem: String, val remedy: String = null)
    extends RuntimeException(problem)
    with NoStackTrace {

  /** Returns whether the remedy is only another type for the column, and no option. */
  def needsOtherType: Boolean = remedy != null && !remedy.contains("option")
}

object InvalidValue {

  /** The text or the bytes are not a value of the type. */
  def malformed(typeName: String): InvalidValue = new InvalidValue(s"is not a valid $typeName")

  /** Checks the size of a binary value. */
  def requireSize(typeName: String, size: Int, wanted: Int): Unit =
    if (size != wanted) {
      throw new InvalidValue(s"has $size bytes, but a binary $typeName has $wanted")
    }
}
