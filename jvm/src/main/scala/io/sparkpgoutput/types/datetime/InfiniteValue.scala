package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.{Ascii, InfinityMode, InvalidValue, TextBuffer, ValueWriter}

/**
 * The infinite values: before and after all other dates and timestamps, less and more than all
 * other intervals.
 *
 * @see
 *   `DT_NOBEGIN`, `DT_NOEND`
 */
object InfiniteValue {
  val Begin: Long = Long.MinValue
  val End: Long = Long.MaxValue

  /** What the text is: `Begin` or `End`, or 0 if neither. */
  def parse(bytes: Array[Byte], from: Int, to: Int): Long =
    if (Ascii.equal(bytes, from, to, "infinity")) End
    else if (Ascii.equal(bytes, from, to, "-infinity")) Begin
    else 0

  /**
   * Whether the nearest finite value is wanted instead. If not, this has written NULL or throws.
   */
  def isClamped(infinity: InfinityMode, out: ValueWriter): Boolean = infinity match {
    case InfinityMode.Clamp => true
    case InfinityMode.Null  => out.setNull(); false
    case InfinityMode.Error => throw new InvalidValue("is infinite", "use the option infinity")
  }

  /** The text; false if the value is a finite one. */
  def print(value: Long, out: TextBuffer): Boolean =
    if (value == End) { out.add("infinity"); true }
    else if (value == Begin) { out.add("-infinity"); true }
    else false
}
