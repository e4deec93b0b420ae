package io.sparkpgoutput.changes.rows

import java.util.Arrays

/** The columns of a table whose values a message does not carry. */
final class MissingColumns(relation: Relation) {
  private val columns = new Array[Int](relation.columns.length)
  private var count = 0

  /** The columns of the last array of names. The next change often lacks the same columns. */
  private var named = Array.emptyIntArray
  private var lastNames = NameArray.empty

  def clear(): Unit = count = 0
  def add(column: Int): Unit = { columns(count) = column; count += 1 }

  /** The names of the columns as [[NameArray]] lays them out. */
  def names: Array[Byte] = {
    if (!Arrays.equals(columns, 0, count, named, 0, named.length)) {
      named = columns.take(count)
      lastNames = NameArray.of(named.toSeq.map(relation.columns(_).name))
    }
    lastNames
  }
}
