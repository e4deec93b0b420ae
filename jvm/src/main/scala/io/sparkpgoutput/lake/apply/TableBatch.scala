package io.sparkpgoutput.lake.apply

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.pgoutput.{FreedStorage, LocalRows, RowsOfRdd}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.storage.StorageLevel

import io.sparkpgoutput.lake.batch.{ChangeView, TableStatistics}
import io.sparkpgoutput.lake.fold.{ChangeFold, FoldFormat, FoldedColumns}
import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.lake.target.{TablePlace, TargetWrite}

/**
 * The changes of a table in a cut, and the table in the target.
 *
 * @param session the session of this commit only
 * @param current the rows of the target before the cut
 * @param repairs true takes a change that does not fit the target, false makes it an error
 */
final case class TableBatch(
    session: SparkSession,
    current: DataFrame,
    table: MirroredTable,
    statistics: TableStatistics,
    format: FoldFormat,
    repairs: Boolean
) {
  private val checkpoints = mutable.ArrayBuffer.empty[DataFrame]

  /** Returns the write for changes in arrays of [[ChangeChunk]]. */
  def plan(chunks: RDD[Array[Byte]]): PlannedWrite = plan(folded(chunks))

  /** Returns the write for changes that the driver has, in the order of [[ChangeView]]. */
  def plan(changes: Array[ChangeView]): PlannedWrite = {
    val rows = ChangeFold.of(format, changes.iterator).map(_.copy()).toIndexedSeq
    plan(LocalRows.toDataFrame(session, rows, ChangeFold.schema(format)))
  }

  private def plan(folded: DataFrame): PlannedWrite =
    if (format.isHistory) {
      val columns = StructType(format.schema ++ table.mode.columns).fieldNames.toIndexedSeq
      PlannedWrite(TargetWrite.Append(folded.toDF(columns: _*)), repaired = 0)
    } else if (format.key.nonEmpty) new KeyedWrite(this).plan(folded)
    else if (format.isFull) new CountedWrite(this).plan(folded)
    else new InsertedWrite(this).plan(folded)

  /** The rows of the fold. */
  private def folded(chunks: RDD[Array[Byte]]): DataFrame = {
    val format = this.format
    RowsOfRdd.toDataFrame(
      session,
      chunks.mapPartitions(ChangeFold.rows(format, _)),
      ChangeFold.schema(format)
    )
  }

  /**
   * The rows of the target before the cut. None after a TRUNCATE, because then they do not count.
   */
  def base: Option[DataFrame] = Option.when(statistics.truncated.isEmpty)(current)

  /**
   * Keeps rows on disk until [[close]], and cuts them off from their plan, so that they are computed once.
   */
  def checkpoint(rows: DataFrame): DataFrame = {
    val kept = rows.localCheckpoint(true, StorageLevel.DISK_ONLY)
    checkpoints += kept
    kept
  }

  /** Frees what the plan has kept on disk, after the commit. */
  def close(): Unit = {
    checkpoints.foreach(FreedStorage.unpersist)
    checkpoints.clear()
  }

  def columnName(ordinal: Int): String = table.schema(ordinal).name

  /** The columns of the target as rows of the fold have them, under the target's names. */
  def named: Seq[String] = table.schema.indices.map { ordinal =>
    s"${FoldedColumns.column(ordinal)} AS ${TablePlace.quoted(columnName(ordinal))}"
  }
}

/**
 * A write of a table.
 *
 * @param repaired how many rows of the target were not as the changes say
 */
final case class PlannedWrite(write: TargetWrite, repaired: Long)
