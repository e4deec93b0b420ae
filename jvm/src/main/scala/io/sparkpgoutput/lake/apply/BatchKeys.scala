package io.sparkpgoutput.lake.apply

import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.{KeyFilter, RowsOfRdd}
import org.apache.spark.sql.{Column, DataFrame}

import io.sparkpgoutput.lake.fold.FoldedColumns
import io.sparkpgoutput.lake.target.TablePlace

/**
 * Finds out which rows of the target a cut can change. A MERGE joins the whole target with the
 * few rows of a cut. A condition tells it beforehand what the keys of these rows have in common.
 * It then leaves out the other rows of the target before it sorts and sends them. It also leaves
 * out files that have none of the keys.
 */
object BatchKeys {

  /** In a larger cut, the look at the keys costs more than it saves. */
  final private val MostChanges = 200000

  /**
   * The size of a large table in bytes. Spark reads a smaller table faster than it compiles the
   * condition with the least and the greatest key.
   */
  final private val Large = BigInt(1L << 30)

  /**
   * Returns a condition that is true for each row of the target, which has the alias `t`, that has a key
   * of the cut. None if the whole target is to be read.
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
