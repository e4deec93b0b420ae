package io.sparkpgoutput.lake.apply

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.pgoutput.RowsOfRdd
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.lake.batch.TableStatistics
import io.sparkpgoutput.lake.fold.{ChangeFold, FoldFormat, FoldedColumns}
import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.lake.target.{TablePlace, Target, TargetWrite}

/**
 * The changes of a table in a batch, and the table in the target.
 *
 * @param session the session of this commit only
 * @param repairs true takes a change that does not fit the target, false makes it an error
 */
final case class TableBatch(
    session: SparkSession,
    target: Target,
    table: MirroredTable,
    statistics: TableStatistics,
    format: FoldFormat,
    repairs: Boolean
) {

  /** Returns the write for changes in arrays of [[ChangeChunk]]. */
  def plan(chunks: RDD[Array[Byte]]): PlannedWrite =
    if (format.isHistory) {
      val columns = StructType(format.schema ++ table.mode.columns).fieldNames.toIndexedSeq
      val rows = folded(chunks).toDF(columns: _*)
      PlannedWrite(TargetWrite.Append(rows), repaired = 0)
    } else if (format.key.nonEmpty) new KeyedWrite(this).plan(folded(chunks))
    else if (format.isFull) new CountedWrite(this).plan(folded(chunks))
    else new InsertedWrite(this).plan(folded(chunks))

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
   * The rows of the target before the batch. None after a TRUNCATE, because then they do not count.
   */
  def base: Option[DataFrame] =
    Option.when(statistics.truncated.isEmpty)(target.read(session, table.target))

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
