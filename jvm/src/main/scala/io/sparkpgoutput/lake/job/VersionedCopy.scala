package io.sparkpgoutput.lake.job

import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.expressions.Window
import org.apache.spark.sql.functions._
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

import io.sparkpgoutput.lake.catalog.TableMode
import io.sparkpgoutput.lake.copy.TableCopy
import io.sparkpgoutput.lake.target.TargetTypes

/**
 * The versions that a table has after a copy. One commit replaces all rows of the target by them.
 *
 * {{{
 *   the row of the snapshot equals the version that is current ──► this version, which stays current
 *   it differs                                                 ──► this version, which ends, and a new one
 *   only the snapshot has the key                              ──► a new version
 *   only the target has it                                     ──► this version, which ends
 *   a version that has ended                                   ──► this version
 * }}}
 *
 * No message says which transactions made the difference. So these versions begin and end with one less than the LSN of the
 * copy, as the rows of a snapshot in a history.
 *
 * @param snapshot the rows of the copy, in the columns of the table
 * @param target the versions that the target has
 */
final private[job] class VersionedCopy(copy: TableCopy, snapshot: DataFrame, target: DataFrame) {
  import TableMode.Versions._
  import VersionedCopy._

  private val schema = copy.table.schema
  private val ours = copy.table.targetSchema
  private val columns = target.schema

  private def at(name: String) = columns.indexWhere(_.name.equalsIgnoreCase(name))

  /** A value of the target; NULL if the column has another type now that does not take it. */
  private def before(name: String): Column = {
    val wanted = plain(ours(name).dataType)
    columns.lift(at(name)) match {
      case Some(field) if Cast.canTryCast(field.dataType, wanted) =>
        col(old(at(name))).try_cast(wanted)
      case _ => lit(null).cast(wanted)
    }
  }

  /** The columns of users, and those that the server has dropped. */
  private val others = columns.indices.filterNot(at =>
    ours.fieldNames.exists(_.equalsIgnoreCase(columns(at).name))
  )

  /** The rows of the target. Others can have written a version twice, so one of each key is current. */
  private def versions: DataFrame = {
    val rows = target.toDF(columns.indices.map(old): _*)
    val end = before(ToLsn)
    val first = Window.partitionBy(copy.table.source.key.map(before): _*)
      .orderBy(end.asc_nulls_first)
    rows.withColumn(Lives, end.isNull)
      .withColumn(IsFound, col(Lives) && row_number().over(first) === 1)
  }

  /** Returns the rows of the target after the copy. */
  def rows: DataFrame = {
    val fresh = snapshot.toDF(schema.indices.map(now): _*).withColumn(IsThere, lit(true))
    val sameKey =
      copy.table.source.key.map(name => col(now(schema.fieldIndex(name))) === before(name))
    val isSame = schema.indices.map(same).foldLeft(col(IsThere) && col(Lives))(_ && _)
    val joined = fresh.join(versions, sameKey.foldLeft(col(IsFound))(_ && _), "full_outer")
      .withColumn(Stays, coalesce(isSame, lit(false)))
    val all = array(
      when(col(Lives).isNotNull, kept(ends = col(Lives) && !col(Stays))),
      when(col(IsThere) && !col(Stays), added)
    )
    joined.select(explode(filter(all, (row: Column) => row.isNotNull)).as(Row)).select(s"$Row.*")
  }

  /** Whether the snapshot has the value of the target. Spark compares no maps and no variants, but their texts. */
  private def same(ordinal: Int): Column = {
    val values = Seq(col(now(ordinal)), before(schema(ordinal).name))
    val Seq(one, other) =
      if (TargetTypes.isComparable(schema(ordinal).dataType)) values
      else values.map(value => to_json(struct(value.as("value"))))
    one <=> other
  }

  private def kept(ends: Column): Column = {
    val ofCopy = Map(ToLsn -> lit(copy.lsn - 1), ToTimestamp -> copy.at, IsCurrent -> lit(false))
    val values = ours.map { field =>
      val value = before(field.name)
      ofCopy.get(field.name).fold(value)(end => when(ends, end).otherwise(value))
    }
    row(values, others.map(at => col(old(at))))
  }

  private def added: Column = row(
    schema.indices.map(at => col(now(at))) ++ copy.added.map(_._2),
    others.map(_ => lit(null))
  )

  private def row(values: Seq[Column], more: Seq[Column]): Column = struct(
    ours.zip(values).map { case (field, value) =>
      value.cast(plain(field.dataType)).as(field.name)
    } ++ others.zip(more).map { case (at, value) =>
      value.cast(columns(at).dataType).as(columns(at).name)
    }: _*
  )
}

private object VersionedCopy {
  private val IsThere = "is_there"
  private val Lives = "lives"
  private val IsFound = "is_found"
  private val Stays = "stays"
  private val Row = "row"
  private def now(at: Int) = s"n$at"
  private def old(at: Int) = s"o$at"

  /** Spark reads these as texts. */
  private def plain(dataType: DataType): DataType = dataType match {
    case VarcharType(_) => StringType
    case other          => other
  }
}
