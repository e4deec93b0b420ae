package io.sparkpgoutput.types

import scala.util.control.NoStackTrace

/**
 * A value is none of its type, or does not fit the Spark type that is asked for. Thrown by
 * conversions, caught where the column is known.
 *
 * @param problem
 *   what is wrong, a phrase such as "has more than 2 digits after the point"
 * @param remedy
 *   the type or the option that would take the value, such as "use DECIMAL(12,3)"; null where none
 *   would
 */
final class InvalidValue(val problem: String, val remedy: String = null)
    extends RuntimeException(problem)
    with NoStackTrace

object InvalidValue {

  /** The text or the bytes are no value of the type. */
  def malformed(typeName: String): InvalidValue = new InvalidValue(s"is no value of type $typeName")

  /** A binary value must have a certain size. */
  def requireSize(typeName: String, size: Int, wanted: Int): Unit =
    if (size != wanted) {
      throw new InvalidValue(s"has $size bytes, of type $typeName it has $wanted")
    }
}
