package io.sparkpgoutput.lake.apply

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._

import io.sparkpgoutput.lake.target.TargetWrite

/** The write of a table with a key: a MERGE, or all rows after a TRUNCATE. */
final class KeyedWrite(batch: TableBatch) {
  import FoldedColumns._
  import batch.format.{key, unsent}

  def plan(folded: DataFrame): PlannedWrite = {
    val hasMoves = batch.statistics.moved > 0 && unsent.nonEmpty
    val rows =
      if (hasMoves) new MovedRows(batch).resolve(folded)
      else folded.drop(Born ++ Left: _*)
    if (batch.statistics.truncated.isEmpty) {
      PlannedWrite(TargetWrite.Merge(rows, condition, clauses), repaired(rows))
    } else {
      PlannedWrite(
        TargetWrite.Overwrite(checked(rows).selectExpr(batch.named: _*)),
        if (batch.repairs) rows.where(col(Op) =!= RowOp.Insert).count() else 0
      )
    }
  }

  private def name(ordinal: Int) = Drift.quote(batch.columnName(ordinal))

  private def condition: String =
    key.map(ordinal => s"t.${name(ordinal)} = s.${column(ordinal)}").mkString(" AND ")

  /** The SQL that fails with the key of a row of the fold, which has the alias `s` in a MERGE. */
  private def raise(problem: String, prefix: String) =
    Drift.raise(
      problem,
      key.map(ordinal => s"$prefix${column(ordinal)}" -> batch.columnName(ordinal))
    )

  /**
   * Under `repair`, an insert of a row that is there updates it, and an update of a row that is not
   * there inserts it, if all of its values were sent.
   */
  private def clauses: String = {
    def isOp(op: String) = s"s.$Op = '$op'"
    val anyUnsent =
      if (unsent.isEmpty) "false"
      else unsent.map(FoldedColumns.unsent).map("s." + _).mkString(" OR ")
    val (updates, inserts) =
      if (batch.repairs) {
        "true" -> s"${isOp(RowOp.Delete)} = false AND if($anyUnsent, ${raise(Drift.Missing, "s.")}, true)"
      } else {
        s"if(${isOp(RowOp.Update)}, true, ${raise(Drift.There, "s.")})" ->
          s"if(${isOp(RowOp.Insert)}, true, ${raise(Drift.Missing, "s.")})"
      }
    val others = batch.table.schema.indices.diff(key)
    val set = others.map { ordinal =>
      val value = s"s.${column(ordinal)}"
      val kept =
        s"CASE WHEN s.${FoldedColumns.unsent(ordinal)} THEN t.${name(ordinal)} ELSE $value END"
      s"t.${name(ordinal)} = ${if (unsent.contains(ordinal)) kept else value}"
    }
    val all = batch.table.schema.indices
    Seq(
      s"WHEN MATCHED AND ${isOp(RowOp.Delete)} THEN DELETE",
      // If all columns are the key's, there is nothing to update, but a row that is there is checked.
      if (set.isEmpty) s"WHEN MATCHED AND NOT ($updates) THEN DELETE"
      else s"WHEN MATCHED AND $updates THEN UPDATE SET ${set.mkString(", ")}",
      s"WHEN NOT MATCHED AND $inserts THEN INSERT (${all.map(name).mkString(", ")}) " +
        s"VALUES (${all.map(ordinal => s"s.${column(ordinal)}").mkString(", ")})"
    ).mkString("\n")
  }

  /** The rows that are there after a TRUNCATE, before which there was none. */
  private def checked(rows: DataFrame): DataFrame = {
    val anyUnsent =
      unsent.map(FoldedColumns.unsent).foldLeft("false")((all, flag) => s"$all OR $flag")
    val missing = raise(Drift.Missing, "")
    if (batch.repairs) rows.where(s"$Op <> '${RowOp.Delete}' AND if($anyUnsent, $missing, true)")
    else rows.where(s"if($Op = '${RowOp.Insert}', true, $missing)")
  }

  /** How many rows a MERGE changes in another way than the server did. */
  private def repaired(rows: DataFrame): Long =
    if (!batch.repairs) 0
    else {
      val there = batch.base.get.select(
        key.map(ordinal => col(name(ordinal)).as(s"t$ordinal")) :+ lit(true).as("is_there"): _*
      )
      val sameKey = key.map(ordinal => col(column(ordinal)) === col(s"t$ordinal")).reduce(_ && _)
      val isThere = col("is_there").isNotNull
      rows.join(there, sameKey, "left").where((col(Op) === RowOp.Insert) === isThere).count()
    }
}
