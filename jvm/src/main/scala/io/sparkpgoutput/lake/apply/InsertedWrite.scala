package io.sparkpgoutput.lake.apply

import org.apache.spark.sql.DataFrame

import io.sparkpgoutput.lake.target.TargetWrite

/** The write of a table that only gets new rows. */
final class InsertedWrite(batch: TableBatch) {
  def plan(folded: DataFrame): PlannedWrite = {
    val rows = folded.selectExpr(batch.named: _*)
    PlannedWrite(
      if (batch.statistics.truncated.isEmpty) TargetWrite.Append(rows)
      else TargetWrite.Overwrite(rows),
      repaired = 0
    )
  }
}
