package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types._

/**
 * The values `infinity` and `-infinity`, which are after and before all other dates and timestamps,
 * and more and less than all other intervals.
 *
 * @see `DT_NOBEGIN`, `DT_NOEND`
 */
object InfiniteValue {
  val Begin: Long = Long.MinValue
  val End: Long = Long.MaxValue

  /** `Begin` or `End` if the text is one of them, else 0. */
  def parse(bytes: Array[Byte], from: Int, to: Int): Long =
    if (Ascii.equal(bytes, from, to, "infinity")) End
    else if (Ascii.equal(bytes, from, to, "-infinity")) Begin
    else 0

  /** Tells whether the user wants the nearest finite value. If not, this writes NULL or throws. */
  def isClamped(infinity: InfinityMode, out: ValueWriter): Boolean = infinity match {
    case InfinityMode.Clamp => true
    case InfinityMode.Null  => out.setNull(); false
    case InfinityMode.Error => throw new InvalidValue("is infinite", "use the option infinity")
    case InfinityMode.ErrorOfKey =>
      throw new InvalidValue("is infinite and in the key", "use STRING")
  }

  /** Prints an infinite value; returns false, without printing, if the value is finite. */
  def print(value: Long, out: TextBuffer): Boolean =
    if (value == End) { out.add("infinity"); true }
    else if (value == Begin) { out.add("-infinity"); true }
    else false
}
