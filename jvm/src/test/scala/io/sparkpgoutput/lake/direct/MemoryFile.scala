package io.sparkpgoutput.lake.direct

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType

/**
 * A data file in memory.
 *
 * @param gone the positions of the deleted rows
 * @param limits the bounds of its columns
 */
final class MemoryFile(
    override val path: String,
    val values: IndexedSeq[InternalRow],
    val gone: Set[Long] = Set.empty,
    override val bytes: Long = 1000,
    override val partition: Any = (),
    limits: Int => Option[(Any, Any)] = _ => None
) extends DirectFile {
  override def rows: Long = values.length.toLong
  override def isDeleted(position: Long): Boolean = gone(position)
  override def deletedRows: Long = gone.size.toLong
  override def deletedPositions: Array[Long] = gone.toArray.sorted
  override def bounds(column: Int): Option[(Any, Any)] = limits(column)
  override def hasOnlyNulls(column: Int): Boolean = false

  /** The rows that are not deleted, with their positions. */
  def live: IndexedSeq[(InternalRow, Long)] =
    values.zipWithIndex.map { case (row, at) => (row, at.toLong) }.filterNot { case (_, at) =>
      gone(at)
    }

  def without(some: Set[Long]): MemoryFile =
    new MemoryFile(path, values, gone ++ some, bytes, partition, limits)
}

/** A table in memory. It counts how often its files are read. */
class MemoryTable(override val schema: StructType, override val keys: TableKeys)
    extends DirectTable {
  var files: Seq[MemoryFile] = Nil
  var reads = 0
  var prefix = ""
  override def column(at: Int): String = prefix + schema(at).name
  override def read[T](file: DirectFile, columns: Seq[Int])(use: Iterator[InternalRow] => T): T = {
    synchronized(reads += 1)
    use(file.asInstanceOf[MemoryFile].values.iterator)
  }
}
