package io.sparkpgoutput.lake.apply

import org.apache.spark.sql.functions._
import org.apache.spark.sql.{Column, DataFrame}

import io.sparkpgoutput.lake.fold.{FoldedColumns, RowOp}
import io.sparkpgoutput.lake.target.TablePlace

/**
 * Finds the values of rows whose updates changed the key and did not send all values. The missing
 * values are those that the row had under the old key. The row can have come to the old key from a
 * third key in the same cut, and so on. So each round of joins doubles the number of moves that
 * it follows back. If no message of the cut has a value, the target has it, under the first key
 * of the row.
 */
final class MovedRows(batch: TableBatch) {
  import FoldedColumns._
  import batch.format.{key, unsent}

  private def root(ordinal: Int) = s"k$ordinal"
  private def cameHere = col(Born.head).isNotNull
  private def isUnsent(ordinal: Int) = col(FoldedColumns.unsent(ordinal))

  /** Returns the rows with the values that their updates did not send, and without positions. */
  def resolve(rows: DataFrame): DataFrame = {
    val kept = cut(rows)
    val left = inTarget(followed(kept.where(col(Op) === RowOp.Left).select(leftColumns: _*)))
    val known = renamed(left)
    val joined = kept.where(col(Op) =!= RowOp.Left).join(known, cameFrom, "left")
    joined.select(batch.table.schema.indices.map { ordinal =>
      val value = col(column(ordinal))
      (if (unsent.contains(ordinal))
         when(cameHere && isUnsent(ordinal), col(before(column(ordinal)))).otherwise(value)
       else value).as(column(ordinal))
    } ++ Seq(col(Op)) ++ unsent.map { ordinal =>
      (isUnsent(ordinal) && !cameHere).as(FoldedColumns.unsent(ordinal))
    }: _*)
  }

  /** The rows that left: where, the values that can be unsent, the key, and where they came from. */
  private def leftColumns: Seq[Column] = (Left ++ Born).map(col) ++
    unsent.flatMap(ordinal => Seq(col(column(ordinal)), isUnsent(ordinal))) ++
    key.map(ordinal => col(column(ordinal)).as(root(ordinal)))

  private def before(name: String) = s"before_$name"

  private def renamed(rows: DataFrame) = rows.toDF(rows.columns.map(before).toIndexedSeq: _*)

  private def cameFrom: Column = Born
    .zip(Left)
    .map { case (born, left) => col(born) === col(before(left)) }
    .reduce(_ && _)

  /** Follows rows to where they had all values, or to where they were before the cut. */
  private def followed(start: DataFrame): DataFrame = {
    var rows = cut(start)
    while (!rows.where(cameHere).isEmpty) {
      val joined = rows.join(renamed(rows), cameFrom, "left")
      val values = unsent.flatMap { ordinal =>
        val value = column(ordinal)
        val flag = FoldedColumns.unsent(ordinal)
        Seq(
          when(cameHere && col(flag), col(before(value))).otherwise(col(value)).as(value),
          when(cameHere, col(flag) && col(before(flag))).otherwise(col(flag)).as(flag)
        )
      }
      val roots = key.map(root).map { name =>
        when(cameHere, col(before(name))).otherwise(col(name)).as(name)
      }
      val born = Born.map(name => col(before(name)).as(name))
      rows = cut(joined.select(Left.map(col) ++ born ++ values ++ roots: _*))
    }
    rows
  }

  /**
   * Takes the values that no message has from the target. A row that is not in the target is always
   * an error.
   */
  private def inTarget(rows: DataFrame): DataFrame = {
    val missing = expr(
      Drift.raise(Drift.Missing, key.map(ordinal => root(ordinal) -> batch.columnName(ordinal)))
    )
    val needed = unsent.map(isUnsent).reduce(_ || _)
    val (joined, isThere) = batch.base match {
      case None => (rows, lit(false))
      case Some(base) =>
        val there = base.select(
          (key ++ unsent).map { ordinal =>
            col(TablePlace.quoted(batch.columnName(ordinal))).as(before(column(ordinal)))
          } :+ lit(true).as("is_there"): _*
        )
        val sameKey = key.map(ordinal => col(root(ordinal)) === col(before(column(ordinal))))
        (rows.join(there, sameKey.foldLeft(needed)(_ && _), "left"), col("is_there"))
    }
    val values = unsent.map { ordinal =>
      val value = column(ordinal)
      val found = if (batch.base.isEmpty) lit(null) else col(before(value))
      when(!isUnsent(ordinal), col(value))
        .when(isThere, found)
        .otherwise(missing)
        .cast(batch.table.schema(ordinal).dataType)
        .as(value)
    }
    joined.select(Left.map(col) ++ values: _*)
  }

  /** A plan that is joined to itself doubles in size, so the rows are cut off from their plan. */
  private def cut(rows: DataFrame): DataFrame = batch.checkpoint(rows)
}
