package io.sparkpgoutput.changes.rows

import java.util.Arrays

/** Columns of a table, as an array of their names. */
final class MissingColumns(relation: Relation) {
  private val columns = new Array[Int](relation.columns.length)
  private var count = 0

  /** Those whose names were asked for last: mostly the same are missing again. */
  private var named = Array.emptyIntArray
  private var lastNames = NameArray.empty

  def clear(): Unit = count = 0
  def add(column: Int): Unit = { columns(count) = column; count += 1 }

  /** Their names, as [[NameArray]] lays them out. */
  def names: Array[Byte] = {
    if (!Arrays.equals(columns, 0, count, named, 0, named.length)) {
      named = columns.take(count)
      lastNames = NameArray.of(named.toSeq.map(relation.columns(_).name))
    }
    lastNames
  }
}
