package io.sparkpgoutput.lake.verify

/**
 * The number of rows of one side in each range of keys, and the sum of their hashes. The ranges are
 * ranges of the hashes of keys, so all of them have about the same size. The order of the rows does
 * not matter. Each copy of a row counts.
 */
final private class KeyRanges(counts: Array[Long], sums: Array[Long]) extends Serializable {

  def add(key: Long, row: Long): Unit = {
    val range = KeyRanges.range(key)
    counts(range) += 1
    sums(range) += row
  }

  /** Adds the rows of another part of the same side. */
  def add(other: KeyRanges): KeyRanges = {
    (0 until KeyRanges.Count).foreach { range =>
      counts(range) += other.count(range)
      sums(range) += other.sum(range)
    }
    this
  }

  def rows: Long = counts.sum

  /** Tells for each range whether the other side has other rows. */
  def differing(other: KeyRanges): Array[Boolean] = Array.tabulate(KeyRanges.Count)(range =>
    count(range) != other.count(range) || sum(range) != other.sum(range)
  )

  private def count(range: Int) = counts(range)
  private def sum(range: Int) = sums(range)
}

private object KeyRanges {
  final private val Bits = 12
  final private val Count = 1 << Bits

  def empty: KeyRanges = new KeyRanges(new Array[Long](Count), new Array[Long](Count))

  /** The range of a key, by its hash. */
  def range(key: Long): Int = (key >>> (java.lang.Long.SIZE - Bits)).toInt
}
