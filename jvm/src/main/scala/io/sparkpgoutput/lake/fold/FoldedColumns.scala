package io.sparkpgoutput.lake.fold

import org.apache.spark.sql.types._

import io.sparkpgoutput.lake.table.TableMode

/**
 * The columns of the rows that a fold makes: `c0`, `c1`, … are the columns of the target in order, and
 * what follows says what is to be done with the row. The names are not the target's, so that they need
 * no quotes, and no column of the target has one of them.
 */
object FoldedColumns {

  /** One of [[RowOp]]. */
  final val Op = "op"

  /**
   * The difference in the number of copies of the row. It is less than 0 if there are fewer copies.
   */
  final val Count = "n"

  /**
   * If the row came here from another key in this cut, and values of it were not sent: the position
   * of the update by which it came.
   */
  final val Born: Seq[String] = Seq("born_lsn", "born_ordinal")

  /** The position of the update by which a row of [[RowOp.Left]] left. */
  final val Left: Seq[String] = Seq("left_lsn", "left_ordinal")

  /** A column of the target. */
  def column(ordinal: Int): String = s"c$ordinal"

  /** Tells if nobody has sent the value of a column in this cut. */
  def unsent(ordinal: Int): String = s"u$ordinal"

  private def columns(target: StructType): Seq[StructField] = target.zipWithIndex.map {
    case (field, ordinal) => StructField(column(ordinal), field.dataType)
  }

  private def longs(names: Seq[String]) = names.map(StructField(_, LongType))

  /** The rows of a table with a key: the columns, the operation, what was not sent, positions. */
  def keyed(target: StructType, unsentColumns: Seq[Int]): StructType = StructType(
    (columns(target) :+ StructField(Op, StringType)) ++
      unsentColumns.map(ordinal => StructField(unsent(ordinal), BooleanType)) ++
      longs(Born ++ Left)
  )

  /** The rows of a table whose rows are told apart by all of their values. */
  def counted(target: StructType): StructType = StructType(columns(target) ++ longs(Seq(Count)))

  /** The rows of a table that only gets new ones. */
  def inserted(target: StructType): StructType = StructType(columns(target))

  /** The changes of a table, each with the columns of a history. */
  def history(target: StructType): StructType =
    StructType(columns(target) ++ TableMode.History.fields)
}

/** The operation that changes a row of the target. */
object RowOp {

  /** The row was not there before, and is there now. */
  final val Insert = "I"

  /** The row was there before, and is there with other values. */
  final val Update = "U"

  /** The row was there before, and is not there now. */
  final val Delete = "D"

  /** Another row with the key was there before, whose [[Delete]] is a row of the fold, too. */
  final val Replace = "R"

  /** Nothing: this is how the row was when it left for another key. */
  final val Left = "S"
}
