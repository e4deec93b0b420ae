package io.sparkpgoutput.lake.apply

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions._
import org.apache.spark.sql.types._

import io.sparkpgoutput.lake.fold.{FoldedColumns, RowOp}
import io.sparkpgoutput.lake.target.{TablePlace, TargetWrite}

/**
 * The write of a table whose rows are identified by all of their values. If a row has fewer copies after the
 * cut, a MERGE deletes all copies and inserts those that remain.
 */
final class CountedWrite(batch: TableBatch) {
  import CountedWrite._
  import FoldedColumns._

  private val schema = batch.table.schema
  private val columns = schema.indices.map(column)
  private def cell(ordinal: Int) = s"k$ordinal"
  private def there(ordinal: Int) = s"t$ordinal"

  def plan(folded: DataFrame): PlannedWrite = {
    // Spark's code for a sort merge join fails if a key of the join has much code, such as that of to_json:
    // see `createJoinKey` in SortMergeJoinExec.scala.
    if (schema.exists(field => isJson(field.dataType)))
      batch.session.conf.set("spark.sql.codegen.wholeStage", "false")
    val net = batch.checkpoint(counts(folded))
    val came = copies(net.where(s"$Count > 0"))
    if (batch.statistics.truncated.isDefined) {
      val rows = if (batch.repairs) came else copies(net.where(s"if($Count > 0, true, $raise)"))
      PlannedWrite(
        TargetWrite.Overwrite(rows.selectExpr(batch.named: _*)),
        if (batch.repairs) total(net.selectExpr(s"greatest(-$Count, 0)")) else 0
      )
    } else if (batch.statistics.deletes + batch.statistics.updates == 0) {
      PlannedWrite(TargetWrite.Append(came.selectExpr(batch.named: _*)), 0)
    } else merge(net, came)
  }

  private def merge(net: DataFrame, came: DataFrame): PlannedWrite = {
    // The number of copies that remain; negative if the cut deletes more copies than the target has.
    val went = batch.checkpoint(found(net.where(s"$Count < 0")))
    val enough = if (batch.repairs) went else went.where(s"if($Count >= 0, true, $raise)")
    val left = copies(enough.where(s"$Count > 0"))
    def op(rows: DataFrame, value: String) = rows.selectExpr(columns :+ s"'$value' AS $Op": _*)
    val rows = op(came, RowOp.Insert)
      .unionAll(op(left, RowOp.Insert))
      .unionAll(op(enough, RowOp.Delete))
    val same = schema.indices.map { ordinal =>
      s"${comparable(s"t.${name(ordinal)}", ordinal)} <=> " +
        comparable(s"s.${column(ordinal)}", ordinal)
    }
    val clauses = "WHEN MATCHED THEN DELETE\n" +
      s"WHEN NOT MATCHED AND s.$Op = '${RowOp.Insert}' " +
      s"THEN INSERT (${schema.indices.map(name).mkString(", ")}) " +
      s"VALUES (${schema.indices.map(value).mkString(", ")})"
    val condition = (s"s.$Op = '${RowOp.Delete}'" +: same).mkString(" AND ")
    val repaired = if (batch.repairs) total(went.selectExpr(s"greatest(-$Count, 0)")) else 0
    PlannedWrite(TargetWrite.Merge(rows, condition, clauses), repaired)
  }

  private def name(ordinal: Int) = TablePlace.quoted(batch.columnName(ordinal))

  private def value(ordinal: Int) = batch.written(s"s.${column(ordinal)}", ordinal)

  private def raise = Drift.raise(
    Drift.Fewer,
    schema.indices.map(ordinal => column(ordinal) -> batch.columnName(ordinal))
  )

  /** Adds up the counts of equal rows. */
  private def counts(folded: DataFrame): DataFrame = {
    val cells = schema.indices.map { ordinal =>
      s"${comparable(column(ordinal), ordinal)} AS ${cell(ordinal)}"
    }
    grouped(folded.selectExpr(columns ++ cells :+ Count: _*), s"sum($Count)")
      .where(s"$Count <> 0")
  }

  /** Adds the number of copies in the target to the count. */
  private def found(went: DataFrame): DataFrame = {
    val target = batch.base.get.selectExpr(schema.indices.map { ordinal =>
      s"${comparable(name(ordinal), ordinal)} AS ${there(ordinal)}"
    } :+ "true AS is_there": _*)
    val same = schema.indices.map(ordinal => col(cell(ordinal)) <=> col(there(ordinal)))
    grouped(went.join(target, same.reduce(_ && _), "left"), s"any_value($Count) + count(is_there)")
  }

  private def grouped(rows: DataFrame, count: String): DataFrame = {
    val values = columns.map(name => any_value(col(name)).as(name))
    val cells = schema.indices.map(ordinal => col(cell(ordinal)))
    rows.groupBy(cells: _*).agg(expr(count).as(Count), values: _*)
  }

  /** Repeats each row by its number of copies. */
  private def copies(rows: DataFrame): DataFrame =
    rows.selectExpr(columns :+ s"explode(sequence(1L, $Count))": _*).select(columns.map(col): _*)

  private def total(counts: DataFrame): Long =
    counts.toDF("n").selectExpr("coalesce(sum(n), 0L)").head().getLong(0)

  /**
   * The SQL of a value that SQL can compare. Values that PostgreSQL shows as different texts, such as 0 and
   * -0, differ.
   */
  private def comparable(value: String, ordinal: Int): String = schema(ordinal).dataType match {
    case FloatType | DoubleType       => s"CAST($value AS STRING)"
    case dataType if isJson(dataType) => s"to_json(struct($value AS v), map($Microseconds))"
    case _                            => value
  }

  private def isJson(dataType: DataType) = dataType match {
    case FloatType | DoubleType => false
    case other                  => !isComparable(other)
  }

  private def isComparable(dataType: DataType): Boolean = dataType match {
    case FloatType | DoubleType | _: MapType | VariantType => false
    case ArrayType(element, _)                             => isComparable(element)
    case struct: StructType => struct.forall(field => isComparable(field.dataType))
    case _                  => true
  }
}

private object CountedWrite {

  /** By default, to_json writes milliseconds. */
  final private val Microseconds = "'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSXXX', " +
    "'timestampNTZFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSS'"
}

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
