package io.sparkpgoutput.lake.job

import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.expressions.Window
import org.apache.spark.sql.functions.{coalesce, col, lit, row_number, when}
import org.apache.spark.sql.types.{DataType, StringType, VarcharType}
import org.apache.spark.sql.{Column, DataFrame, SparkSession}

import io.sparkpgoutput.lake.catalog.{MirroredTable, TableMode}
import io.sparkpgoutput.lake.copy.TableCopy
import io.sparkpgoutput.lake.target.TableEvolution

/**
 * The rows of a copy if deleted rows are marked: those of the snapshot, and those of the target whose keys the snapshot
 * does not have. One commit replaces all rows of the target by them.
 *
 * {{{
 *   the snapshot has the key ──► the row of the snapshot, which lives
 *   only the target has it   ──► the row of the target: with its own mark, or else with that of the copy
 * }}}
 *
 * A row that lived in the target until now was deleted by a transaction that the snapshot sees. No message says by which
 * one. So its mark is one less than the LSN of the copy, as for the rows of a snapshot in a history.
 */
private[job] object MarkedCopy {
  private val IsThere = "is_there"
  private val Rank = "rank"
  private def now(at: Int) = s"n$at"
  private def old(at: Int) = s"o$at"

  /**
   * @param table the mirror
   * @param target the rows of the target, if they are rows of the same table
   * @param areMarked whether deleted rows among them are marked
   */
  def rows(
      session: SparkSession,
      copy: TableCopy,
      table: MirroredTable,
      target: Option[DataFrame],
      areMarked: Boolean
  ): DataFrame = target.filter(hasKey(table, _)) match {
    case Some(before) => new Kept(copy, table, before, areMarked).joined(copy.rows(session))
    case None         => copy.newRows(session, table.mode)
  }

  /** Returns whether the rows of the target have the key of the table as it is now. */
  private def hasKey(table: MirroredTable, before: DataFrame): Boolean = table.source.key.forall {
    name =>
      val wanted = plain(table.schema(name).dataType)
      before.schema.exists { field =>
        field.name.equalsIgnoreCase(name) &&
        (field.dataType == wanted || TableEvolution.isWider(field.dataType, wanted))
      }
  }

  /** Spark reads these as texts. */
  private def plain(dataType: DataType): DataType = dataType match {
    case VarcharType(_) => StringType
    case other          => other
  }

  /** The rows that the target has. */
  final private class Kept(
      copy: TableCopy,
      table: MirroredTable,
      before: DataFrame,
      areMarked: Boolean
  ) {
    private val columns = before.schema

    private def at(name: String) = columns.indexWhere(_.name.equalsIgnoreCase(name))

    /** A value of the target; NULL if the column has another type now that does not take it. */
    private def value(name: String, wanted: DataType): Column = columns.lift(at(name)) match {
      case Some(field) if field.dataType == plain(wanted) => col(old(at(name)))
      case Some(field) if Cast.canTryCast(field.dataType, plain(wanted)) =>
        col(old(at(name))).try_cast(plain(wanted))
      case _ => lit(null).cast(plain(wanted))
    }

    private def mark(name: String): Column = {
      val dataType = TableMode.Marking.columns(name).dataType
      if (areMarked) value(name, dataType) else lit(null).cast(dataType)
    }

    /** Others can have written a key twice. */
    private def once: DataFrame = {
      val rows = before.toDF(columns.indices.map(old): _*)
      val key = table.source.key.map(name => col(old(at(name))))
      val first = mark(TableMode.Marking.DeletedLsn).asc_nulls_last
      rows.withColumn(Rank, row_number().over(Window.partitionBy(key: _*).orderBy(first)))
        .where(col(Rank) === 1)
    }

    def joined(snapshot: DataFrame): DataFrame = {
      val schema = table.schema
      val fresh = snapshot.toDF(schema.indices.map(now): _*).withColumn(IsThere, lit(true))
      val sameKey = table.source.key.map { name =>
        col(now(schema.fieldIndex(name))) === value(name, schema(name).dataType)
      }
      def either(fresh: Column, kept: Column, name: String) =
        when(col(IsThere), fresh).otherwise(kept).as(name)
      val values = schema.zipWithIndex.map { case (field, at) =>
        either(col(now(at)), value(field.name, field.dataType), field.name)
      }
      val ofCopy = Map(
        TableMode.Marking.DeletedAt -> copy.at,
        TableMode.Marking.DeletedLsn -> lit(copy.lsn - 1)
      )
      val marks = TableMode.Marking.columns.fieldNames
        .map(name => either(lit(null), coalesce(mark(name), ofCopy(name)), name))
      val ours = table.targetSchema.fieldNames
      // The columns of users, and those that the server has dropped.
      val others = columns.fieldNames.filterNot(name => ours.exists(_.equalsIgnoreCase(name)))
        .map(name => either(lit(null), col(old(at(name))), name))
      fresh.join(once, sameKey.reduce(_ && _), "full_outer").select(values ++ marks ++ others: _*)
    }
  }
}
