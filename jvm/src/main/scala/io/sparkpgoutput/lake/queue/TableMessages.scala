package io.sparkpgoutput.lake.queue

import java.util.Arrays

/**
 * The definition of a table in force: its Type messages and its Relation message. Two are equal if all bytes
 * are.
 */
final class TableMessages(val relation: Array[Byte], val types: IndexedSeq[Array[Byte]]) {
  override def equals(other: Any): Boolean = other match {
    case that: TableMessages =>
      (this eq that) || Arrays.equals(relation, that.relation) &&
      types.corresponds(that.types)((one, another) => Arrays.equals(one, another))
    case _ => false
  }

  override def hashCode: Int =
    types.foldLeft(Arrays.hashCode(relation))((hash, next) => 31 * hash + Arrays.hashCode(next))
}
