package io.sparkpgoutput.lake.direct

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow

/**
 * Chooses the files of a table that are rewritten into one, so that a table that gets a small file with each
 * commit still has few files.
 *
 * Files are in levels by the number of their rows, and each level has eight times the rows of the level
 * below. If a level has eight files, they become one file of the next level, so each row is rewritten once
 * for each level. A file of which more than a fifth is deleted is rewritten, too.
 */
object Compaction {
  final private val BitsOfLevel = 3
  final private val FilesOfLevel = 8

  /** A file is rewritten if more than one row in so many is deleted. */
  final private val DeletedPart = 5

  /** The most bytes that one rewrite reads. A file that is larger is rewritten alone, and only for its deleted rows. */
  final private val MostBytes = 512L << 20

  /** Returns the files of the next rewrite, which are those of one partition; empty if there is nothing to do. */
  def choose(files: Iterable[DirectFile]): Seq[DirectFile] =
    files.groupBy(_.partition).valuesIterator.map(ofPartition).find(_.nonEmpty).getOrElse(Nil)

  /** Small files come first. */
  private def ofPartition(files: Iterable[DirectFile]): Seq[DirectFile] = {
    // With this limit, a whole level is one rewrite, and a large file is never rewritten without need.
    val levels = files.filter(_.bytes <= MostBytes / FilesOfLevel).groupBy(level).toSeq.sortBy(_._1)
    val full = levels.collectFirst {
      // The lower levels have fewer files, and all of them are small.
      case (level, inside) if inside.size >= FilesOfLevel =>
        levels.takeWhile(_._1 <= level).flatMap(_._2)
    }
    full.map(limited).filter(_.length > 1)
      .getOrElse(limited(files.filter(isDeleted).toSeq.sortBy(_.bytes)))
  }

  /** Returns the first files, as many as one rewrite may read. */
  private def limited(due: Seq[DirectFile]): Seq[DirectFile] = {
    val sums = due.scanLeft(0L)(_ + _.bytes).tail
    due.zip(sums).takeWhile { case (file, sum) => sum <= MostBytes || file.eq(due.head) }.map(_._1)
  }

  private def level(file: DirectFile): Int =
    (java.lang.Long.SIZE - 1 - java.lang.Long.numberOfLeadingZeros(file.rows | 1)) / BitsOfLevel

  private def isDeleted(file: DirectFile) = file.deletedRows * DeletedPart > file.rows
}

/**
 * A rewrite of files into one, which has the rows that were not deleted when the rewrite began, in the same order. Rows
 * that are deleted while it runs are deleted in the new file by [[carried]].
 *
 * @param files the files with what was deleted in them when the rewrite began
 */
final class Rewrite(table: DirectTable, val files: IndexedSeq[DirectFile]) {
  private val deleted = files.map(_.deletedPositions)

  /** The position of the first row of each file in the new file, and at the end the number of all rows. */
  private val firsts =
    files.zip(deleted).scanLeft(0L) { case (sum, (file, gone)) => sum + file.rows - gone.length }

  def rows: Long = firsts.last

  /** Gives the rows of the new file to a writer. A row is valid until the next one. */
  def read[T](write: Iterator[InternalRow] => T): T = {
    val types = table.schema.map(_.dataType).toIndexedSeq
    val values = new Array[Any](types.length)
    val whole = new GenericInternalRow(values)
    var open = Iterator.empty[InternalRow]
    def rows = files.iterator.flatMap { file =>
      var position = -1L
      open = table.read(file, types.indices)
      val live = open.filter { _ =>
        position += 1
        !file.isDeleted(position)
      }
      // Writers call only `get`.
      live.map { row =>
        types.indices.foreach(at => values(at) = DirectTable.value(row, at, types(at)))
        whole
      } ++ end(file, position + 1)
    }
    try write(rows)
    finally
      open match { // the writer can have failed
        case file: AutoCloseable => file.close()
        case _                   => ()
      }
  }

  /** Checks the number of rows, from which the positions in the new file follow. */
  private def end(file: DirectFile, rows: => Long): Iterator[InternalRow] =
    if (rows == file.rows) Iterator.empty
    else throw new IllegalStateException(s"The file ${file.path} has $rows rows, not ${file.rows}.")

  /**
   * Returns the positions in the new file of the rows that were deleted since.
   *
   * @param now the same files as they are now, by their paths
   * @return None if a file is gone, or has rows that were deleted when the rewrite began
   */
  def carried(now: String => Option[DirectFile]): Option[Array[Long]] = {
    val found = files.map(file => now(file.path))
    Option.when(found.forall(_.nonEmpty)) {
      val after = found.map(_.get.deletedPositions)
      val moved = after.zipWithIndex.map { case (positions, index) =>
        positions.flatMap { position =>
          val rank = Arrays.binarySearch(deleted(index), position)
          // For a position that is not in the list, the search returns where it would be, which is the number
          // of deleted rows before it.
          if (rank >= 0) None else Some(firsts(index) + position - (-rank - 1))
        }
      }
      // A RESTORE or a rollback can have brought rows back, which the new file does not have.
      val hasAll = after.indices.forall { index =>
        after(index).length == deleted(index).length + moved(index).length
      }
      Option.when(hasAll)(moved.toArray.flatten)
    }.flatten
  }
}
