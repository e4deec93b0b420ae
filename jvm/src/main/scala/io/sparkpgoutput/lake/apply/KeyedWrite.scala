package io.sparkpgoutput.lake.apply

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._

import io.sparkpgoutput.lake.fold.{FoldedColumns, RowOp}
import io.sparkpgoutput.lake.target.{TablePlace, TargetWrite}

/** The write of a table with a key: a MERGE, or all rows after a TRUNCATE. */
final class KeyedWrite(batch: TableBatch) {
  import FoldedColumns._
  import batch.format.{key, unsent}

  def plan(folded: DataFrame): PlannedWrite = {
    val hasMoves = batch.statistics.moved > 0 && unsent.nonEmpty
    val rows =
      if (hasMoves) new MovedRows(batch).resolve(folded)
      // An update of a column that the table does not have any more can still have moved a row.
      else folded.where(col(Op) =!= RowOp.Left).drop(Born ++ Left: _*)
    if (batch.statistics.truncated.isEmpty) {
      val narrowed = BatchKeys.condition(batch, folded)
      PlannedWrite(TargetWrite.Merge(rows, condition, clauses, narrowed), repaired(rows))
    } else {
      PlannedWrite(
        TargetWrite.Overwrite(checked(rows).selectExpr(batch.named: _*)),
        if (batch.repairs) rows.where(!col(Op).isin(RowOp.Insert, RowOp.Replace)).count() else 0
      )
    }
  }

  private def name(ordinal: Int) = TablePlace.quoted(batch.columnName(ordinal))

  /** A row that replaces another one finds no row, because the delete of the other one finds it. */
  private def condition: String = {
    val sameKey = key.map(ordinal => s"t.${name(ordinal)} = s.${column(ordinal)}")
    val finds = if (batch.format.splitsReplaced) Seq(s"s.$Op <> '${RowOp.Replace}'") else Nil
    (sameKey ++ finds).mkString(" AND ")
  }

  /** The SQL that fails with the key of a row of the fold, which has the alias `s` in a MERGE. */
  private def raise(problem: String, prefix: String) =
    Drift.raise(
      problem,
      key.map(ordinal => s"$prefix${column(ordinal)}" -> batch.columnName(ordinal))
    )

  /**
   * Under `repair`, an insert of a row that is there updates it, and an update of a row that is not
   * there inserts it, if all of its values were sent.
   *
   * The expression that fails is the value of a column and not a condition, because Delta evaluates
   * the conditions of all clauses for all rows.
   */
  private def clauses: String = {
    def isOp(op: String) = s"s.$Op = '$op'"
    def checked(isRight: String, value: String, problem: String) =
      s"CASE WHEN $isRight THEN $value ELSE ${raise(problem, "s.")} END"
    val wholes = unsent.map(ordinal => s"NOT s.${FoldedColumns.unsent(ordinal)}")
    val mayUpdate = if (batch.repairs) "true" else isOp(RowOp.Update)
    val mayInsert =
      if (batch.repairs) ("true" +: wholes).mkString(" AND ")
      else s"s.$Op IN ('${RowOp.Insert}', '${RowOp.Replace}')"

    val values = batch.table.schema.indices.map(ordinal => s"s.${column(ordinal)}")
    val others = batch.table.schema.indices.diff(key).map { ordinal =>
      if (!unsent.contains(ordinal)) ordinal -> values(ordinal)
      else {
        val flag = s"s.${FoldedColumns.unsent(ordinal)}"
        ordinal -> s"CASE WHEN $flag THEN t.${name(ordinal)} ELSE ${values(ordinal)} END"
      }
    }
    // If all columns are the key's, an update does nothing, but a row that is there is checked.
    val set = if (others.isEmpty) Seq(key.head -> values(key.head)) else others
    val updates = set.updated(0, set.head._1 -> checked(mayUpdate, set.head._2, Drift.There))
    val inserts = values.updated(0, checked(mayInsert, values.head, Drift.Missing))
    val isInserted = if (batch.repairs) s"AND s.$Op <> '${RowOp.Delete}' " else ""
    Seq(
      s"WHEN MATCHED AND ${isOp(RowOp.Delete)} THEN DELETE",
      "WHEN MATCHED THEN UPDATE SET " +
        updates.map { case (ordinal, value) => s"t.${name(ordinal)} = $value" }.mkString(", "),
      s"WHEN NOT MATCHED ${isInserted}THEN INSERT " +
        s"(${batch.table.schema.indices.map(name).mkString(", ")}) " +
        s"VALUES (${inserts.mkString(", ")})"
    ).mkString("\n")
  }

  /**
   * Returns the rows of a table after a TRUNCATE. The TRUNCATE has removed all rows from before.
   */
  private def checked(rows: DataFrame): DataFrame = {
    val anyUnsent =
      unsent.map(FoldedColumns.unsent).foldLeft("false")((all, flag) => s"$all OR $flag")
    val missing = raise(Drift.Missing, "")
    if (batch.repairs) rows.where(s"$Op <> '${RowOp.Delete}' AND if($anyUnsent, $missing, true)")
    else rows.where(s"if($Op IN ('${RowOp.Insert}', '${RowOp.Replace}'), true, $missing)")
  }

  /** Counts the rows that a MERGE changes in another way than the server did. */
  private def repaired(rows: DataFrame): Long =
    if (!batch.repairs) 0
    else {
      val there = batch.base.get.select(
        key.map(ordinal => col(name(ordinal)).as(s"t$ordinal")) :+ lit(true).as("is_there"): _*
      )
      val sameKey = key.map(ordinal => col(column(ordinal)) === col(s"t$ordinal")).reduce(_ && _)
      val isThere = col("is_there").isNotNull
      rows.where(col(Op) =!= RowOp.Replace).join(there, sameKey, "left")
        .where((col(Op) === RowOp.Insert) === isThere).count()
    }
}
