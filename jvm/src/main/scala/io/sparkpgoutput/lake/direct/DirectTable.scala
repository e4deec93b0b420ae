package io.sparkpgoutput.lake.direct

import java.time.Instant
import java.util.Arrays

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * A version of a table of the target, by its data files. '''The direct commit''' writes a cut into it
 * without a MERGE, and without a job of Spark.
 *
 * {{{
 *   rows of the fold ──► KeyLookup ──────────────► positions of the ──► one commit with the mark:
 *   (key, operation,     reads the key's columns   old rows             - the positions, as deletion vectors
 *   values)              of the files that can                            or position deletes
 *                        have one of the keys                           - a data file with the new images,
 *                                                              for each partition that they are in
 * }}}
 *
 * '''Why this is the same as a MERGE.''' A MERGE with `t.key = s.key` finds the rows whose keys are equal.
 * [[KeyColumn]] defines when two keys are equal in the same way, and [[KeyLookup]] looks at each row of a file that
 * is not deleted. It leaves out a file only if the bounds of the file exclude all keys of the cut. An update is a
 * deletion of the old row and an insertion of the new one, as in each MERGE with merge-on-read.
 *
 * '''Why nothing comes in between.''' The commit replaces the version that was looked up, or it fails with a conflict:
 * Delta's transaction has read the whole table and is serializable, and Iceberg validates that no file was
 * added, changed or removed since the snapshot. After a conflict, the lookup begins again.
 *
 * '''What is kept between commits.''' The driver keeps the names, the bounds and the deleted rows of the files, and
 * their keys ([[KeyCache]]). Data files never change. Before each commit, the log or the metadata say which version
 * is the newest. If somebody else has written it, the driver reads the commits in between (Delta) or the manifests
 * (Iceberg).
 */
trait DirectTable {

  /** The columns of the table, including columns of users. */
  def schema: StructType

  /** Returns the identity of a column of [[schema]] in data files. No other column has the same identity. */
  def column(at: Int): String

  def files: Seq[DirectFile]

  /** The keys of the files that are kept for the next lookup. */
  def keys: TableKeys

  /**
   * Opens a file, and closes it after its use.
   *
   * @param columns the places of the columns in [[schema]]
   * @param use takes the rows in order, also those that are deleted. A row is valid until the next one.
   */
  def read[T](file: DirectFile, columns: Seq[Int])(use: Iterator[InternalRow] => T): T
}

object DirectTable {

  /** The most partitions whose files the driver writes. Executors write those of more partitions faster. */
  final private val MostPartitions = 64

  /**
   * Returns new rows by their partitions. Each row is made again when it is written.
   *
   * @throws NotDirect if there are too many partitions
   */
  def byPartition[P](rows: IndexedSeq[InternalRow], hasPartitions: Boolean)(
      partition: InternalRow => P
  ): Seq[(P, Iterable[InternalRow])] =
    if (!hasPartitions) rows.headOption.map(partition(_) -> rows).toSeq
    else {
      val places = mutable.LinkedHashMap.empty[P, mutable.ArrayBuilder.ofInt]
      rows.indices.foreach { index =>
        places.getOrElseUpdate(partition(rows(index)), new mutable.ArrayBuilder.ofInt) += index
        if (places.size > MostPartitions)
          throw new NotDirect(s"the changes write more than $MostPartitions partitions")
      }
      places.toSeq.map { case (found, indices) => found -> indices.result().view.map(rows(_)) }
    }

  /** Returns a value of a row, or null. `get` alone is not enough: in a row of a batch, it does not check for NULL. */
  def value(row: InternalRow, at: Int, dataType: DataType): Any =
    if (row.isNullAt(at)) null else row.get(at, dataType)
}

/** A data file. */
abstract class DirectFile {

  def path: String

  /** The partition of all rows of the file. */
  def partition: Any = ()

  /** How many rows the file has, also deleted ones. */
  def rows: Long

  def bytes: Long

  def isDeleted(position: Long): Boolean

  def deletedRows: Long

  /** The positions of the rows that are deleted, in order. */
  def deletedPositions: Array[Long]

  /**
   * Returns a lower and an upper bound of the values of a column, as Spark has them in rows. None if the file has no
   * reliable bounds.
   *
   * @param column the place of the column in the schema of the table
   */
  def bounds(column: Int): Option[(Any, Any)]

  /**
   * Returns whether the file says that a column has no value.
   *
   * @param column the place of the column in the schema of the table
   */
  def hasOnlyNulls(column: Int): Boolean
}

/**
 * The number of files and of deleted rows of a table after a commit, and what the job has rewritten since its start.
 *
 * @param files the data files, and in Iceberg also the delete files
 * @param rewrittenBytes the bytes of the files that were rewritten
 */
final case class TableFiles(
    files: Long,
    deletedRows: Long,
    rewrittenBytes: Long = 0,
    lastRewrite: Option[Instant] = None
)

/**
 * What a direct commit changes.
 *
 * @param deleted the positions of the deleted rows by the paths of their files
 * @param added new rows, with all columns of the table. A row can be made each time when it is read.
 * @param keepKeys keeps the keys of a new file that has exactly these rows, in their order
 */
final case class DirectChange(
    deleted: Map[String, Array[Long]],
    added: IndexedSeq[InternalRow],
    keepKeys: DirectFile => Unit = _ => ()
) {

  /**
   * Takes the new files of the commit. If the rows are in several partitions, the next lookup reads the keys from
   * them. An error here must not look like one of the commit, which is made.
   */
  def committed(files: Seq[DirectFile]): Unit =
    if (files.lengthIs == 1 && files.head.rows == added.length)
      try keepKeys(files.head)
      catch { case NonFatal(_) => () }
}

/** The table cannot be written directly. Nothing was written, and a MERGE can write the same. */
final class NotDirect(val reason: String) extends RuntimeException(reason)

/**
 * Chooses the files of a table that are rewritten into one, so that a table that gets a small file with each
 * commit still has few files.
 *
 * Files are in levels by the number of their rows, and each level has eight times the rows of the level
 * below. If a level has eight files, they become one file of the next level, so each row is rewritten once
 * for each level. A file of which more than a fifth is deleted is rewritten with them, or alone.
 */
object Compaction {
  final private val BitsOfLevel = 3
  final private val FilesOfLevel = 8

  /** A file is rewritten if more than one row in so many is deleted. */
  final private val DeletedPart = 5

  /** The most bytes that one rewrite reads. A file that is larger is rewritten alone, and only for its deleted rows. */
  final private val MostBytes = 512L << 20

  /**
   * Returns whether the number of files has grown so much since the last look at all files that there can be something
   * to do. A look at many files takes longer than this question.
   *
   * @param looked the number of files at that look
   */
  def mayBeDue(files: Long, looked: Long): Boolean = files >= looked + looked / 100 + FilesOfLevel

  /**
   * Returns the files of the next rewrite, which are those of one partition; empty if there is nothing to do. The
   * partition with the most files comes first, so that each one has its turn although rewrites are rarer than commits.
   */
  def choose(files: Iterable[DirectFile]): Seq[DirectFile] =
    files.groupBy(_.partition).valuesIterator.map(ofPartition).maxByOption(_.length).getOrElse(Nil)

  /**
   * The highest full level is rewritten together with all lower levels. Otherwise, a lower level, which can be full
   * again each time, would keep it waiting. For the same reason, a large file that is mostly deleted comes before a few
   * small files, but not before many.
   */
  private def ofPartition(files: Iterable[DirectFile]): Seq[DirectFile] = {
    // With this limit, a whole level is one rewrite, and a large file is never rewritten without need.
    val levels = files.filter(_.bytes <= MostBytes / FilesOfLevel).groupBy(level).toSeq.sortBy(_._1)
    val highest = levels.lastIndexWhere(_._2.size >= FilesOfLevel)
    val full = levels.take(highest + 1).flatMap(_._2)
    val deleted = files.filter(isDeleted).toSeq.sortBy(_.bytes)
    // Files that are due for their deleted rows come with a full level, and do not need another rewrite.
    def all = full ++ deleted.filterNot(full.toSet)
    val large = deleted.find(isMostlyDeleted).filter(_ => full.length < FilesOfLevel * FilesOfLevel)
    large.map(Seq(_)).getOrElse(limited(all))
  }

  /** Returns the first files, as many as one rewrite may read. */
  private def limited(due: Seq[DirectFile]): Seq[DirectFile] = {
    val sums = due.scanLeft(0L)(_ + _.bytes).tail
    due.zip(sums).takeWhile { case (file, sum) => sum <= MostBytes || file.eq(due.head) }.map(_._1)
  }

  private def level(file: DirectFile): Int =
    (java.lang.Long.SIZE - 1 - java.lang.Long.numberOfLeadingZeros(file.rows | 1)) / BitsOfLevel

  private def isDeleted(file: DirectFile) = file.deletedRows * DeletedPart > file.rows

  private def isMostlyDeleted(file: DirectFile) =
    file.bytes > MostBytes && file.deletedRows * 2 > file.rows
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

  /**
   * Gives each row of the new file to a writer. A row is valid until the next one.
   *
   * Writers, and what collects the statistics of a file without generated code, call only `get`, and do not ask whether
   * a value is NULL. A row of a batch would give them 0 for NULL.
   */
  def foreach(write: InternalRow => Unit): Unit = {
    val types = table.schema.map(_.dataType).toArray
    val values = new Array[Any](types.length)
    val whole = new GenericInternalRow(values)
    files.foreach { file =>
      table.read(file, types.indices) { rows =>
        var position = 0L
        rows.foreach { row =>
          if (!file.isDeleted(position)) {
            types.indices.foreach(at => values(at) = DirectTable.value(row, at, types(at)))
            write(whole)
          }
          position += 1
        }
        // The positions in the new file follow from the number of rows.
        if (position != file.rows) throw new IllegalStateException(
          s"The file ${file.path} has $position rows, not ${file.rows}."
        )
      }
    }
  }

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
