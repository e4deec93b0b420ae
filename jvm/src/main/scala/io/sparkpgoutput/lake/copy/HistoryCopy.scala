package io.sparkpgoutput.lake.copy

import java.util.Collections

import org.apache.spark.sql.functions.{
  array,
  col,
  lit,
  monotonically_increasing_id,
  timestamp_micros
}
import org.apache.spark.sql.{Column, DataFrame, Row, SparkSession}

import io.sparkpgoutput.changes.rows.ChangeType
import io.sparkpgoutput.lake.table.{ReplicaIdentity, TableMode}

/** The rows of a copy as a history has them: a snapshot just before the first change that follows. */
object HistoryCopy {

  /**
   * Returns the rows.
   *
   * @param isFirst
   *   false puts a truncate before them, because the history has the rows of an earlier copy
   */
  def rows(session: SparkSession, copy: TableCopy, isFirst: Boolean): DataFrame = {
    val table = copy.table
    val snapshot = copy.rows(session)
      .select(col("*") +: change(
        copy,
        TableMode.History.Snapshot,
        monotonically_increasing_id() + 1
      ): _*)
    def truncate = session
      .createDataFrame(
        Collections.singletonList(Row.fromSeq(table.schema.map(_ => null))),
        table.schema
      )
      .select(col("*") +: change(copy, ChangeType.Truncate, lit(0)): _*)
    val all = if (isFirst) snapshot else truncate.unionAll(snapshot)
    all.toDF(table.targetSchema.fieldNames.toIndexedSeq: _*)
  }

  private def change(copy: TableCopy, changeType: String, ordinal: Column): Seq[Column] = {
    val source = copy.table.source
    val keys = source.columns.map(_.name)
      .filter(name => source.identity == ReplicaIdentity.Full || source.key.contains(name))
    val none = lit(null)
    val (version, time) = (lit(copy.lsn - 1), timestamp_micros(lit(copy.time)))
    Seq(lit(changeType), version, time, none, none, ordinal, array(keys.map(lit(_)): _*), array())
      .zip(TableMode.History.fields).map { case (value, field) => value.cast(field.dataType) }
  }
}
