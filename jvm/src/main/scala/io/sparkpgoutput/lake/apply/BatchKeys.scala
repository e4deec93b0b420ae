package io.sparkpgoutput.lake.apply

import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.{KeyFilter, RowsOfRdd}
import org.apache.spark.sql.{Column, DataFrame}

import io.sparkpgoutput.lake.fold.FoldedColumns
import io.sparkpgoutput.lake.target.TablePlace

/**
 * Which rows of the target a batch can change. A MERGE joins the whole target with the rows of a batch,
 * which are few. If it is told beforehand what their keys have in common, it leaves out the other rows
 * of the target before it sorts and sends them, and files that have none of the keys.
 */
object BatchKeys {

  /** In a larger batch, what a MERGE saves is not worth the look at the keys. */
  final private val MostChanges = 200000

  /**
   * How many bytes a large table has. Any other is read faster than Spark compiles its code for the
   * least and the greatest key, which are numbers in this code.
   */
  final private val Large = BigInt(1L << 30)

  /**
   * Returns a condition that is true for each row of the target, which has the alias `t`, that has a key
   * of the batch. None if the whole target is to be read.
   *
   * @param folded the rows of the fold
   */
  def condition(batch: TableBatch, folded: DataFrame): Option[Column] =
    for {
      base <- batch.base if batch.statistics.changes <= MostChanges
      key = batch.format.key
      names = key.map(ordinal => TablePlace.quoted(batch.columnName(ordinal)))
      types = base.select(names.map(col): _*).schema.map(_.dataType)
      found <- KeyFilter.of(
        folded,
        batch.statistics.changes,
        key.map(FoldedColumns.column),
        names.map(name => col(s"t.$name")).zip(types),
        RowsOfRdd.bytes(base) >= Large
      )
    } yield found
}
