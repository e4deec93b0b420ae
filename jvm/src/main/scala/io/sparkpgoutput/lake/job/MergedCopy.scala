package io.sparkpgoutput.lake.job

import org.apache.spark.sql.catalyst.expressions.Cast
import org.apache.spark.sql.catalyst.util.CharVarcharUtils.{
  getRawSchema,
  replaceCharVarcharWithString => text
}
import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.expressions.Window
import org.apache.spark.sql.functions._
import org.apache.spark.sql.pgoutput.RowsOfRdd
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Column, DataFrame}

import io.sparkpgoutput.lake.catalog.{MirroredTable, TableColumn, TableMode}
import io.sparkpgoutput.lake.copy.TableCopy
import io.sparkpgoutput.lake.core.FormerDefinition
import io.sparkpgoutput.lake.target.{TableEvolution, TargetTypes}

/**
 * A copy of a table whose target keeps rows that the server does not have any more: those that are marked as deleted,
 * or versions that have ended. It joins the rows of the snapshot with those of the target by the key. One commit
 * replaces all rows of the target by the result.
 *
 * No message says which transaction made a difference between the snapshot and the target. So its LSN is one less
 * than that of the copy, as for the rows of a snapshot in a history.
 *
 * '''Which columns of the target have the values of a column.''' A column has a number that stays when it is renamed,
 * and a new column has a new number. The rows of the target have the values of a column in these columns:
 *
 *   1. the one that has its number in the definition by which these rows were written. If a rename was interrupted,
 *      that column of the target can have the new name already;
 *   2. the one that has its name, if the server has dropped that column. So a column that gets the name of a dropped
 *      one continues it, for example if a migration replaces an INT by a BIGINT. A value of the first column wins
 *      over it, unless it is NULL;
 *   3. if there is neither, the one that has its name, unless the server has that column under another name. This is so
 *      if the definition is not known, for example because the checkpoint folder was lost. It is also so if the
 *      definition lacks a column that was dropped before an earlier copy. And it is so if a change of columns was
 *      interrupted when the target already had the new name.
 *
 * If the values in a column of the target are hashed in another way, that column has no values of the column.
 *
 * @param table the table, or its mirror if it also has a history
 * @param lsn the LSN of the copy
 * @param at when its snapshot was made
 * @param snapshot the rows of the copy, in the columns of the table
 * @param target the rows that the target has
 * @param former the definition of the table by which these rows were written; None if it is not known
 * @param hashes the salts of the hashes in these rows, by the names of their columns, if the definition is not known
 */
final private[job] class MergedCopy(
    table: MirroredTable,
    lsn: Long,
    at: Column,
    snapshot: => DataFrame,
    target: DataFrame,
    former: Option[FormerDefinition],
    hashes: Map[String, String]
) {
  import MergedCopy._

  private val schema = table.schema

  /** The columns of the target that the job writes. */
  private val jobSchema = table.targetSchema

  /**
   * The columns that the server sent when the rows of the target were written, by their numbers, with the names that
   * they have in the target.
   */
  private val sentBefore = former.toSeq.flatMap(_.table.source.columns)
    .map(column => column.number -> column.copy(name = nameInTarget(column))).toMap

  private def nameInTarget(column: TableColumn): String =
    former.flatMap(_.renamed.get(column.number)).filterNot(_ => ordinalOf(column.name).nonEmpty)
      .getOrElse(column.name)

  private def ordinalOf(name: String): Option[Int] =
    Some(target.schema.indexWhere(_.name.equalsIgnoreCase(name))).filter(_ >= 0)

  /** The ordinals of the columns of the target that have the values of each column. */
  private val ordinals: Map[String, Seq[Int]] =
    jobSchema.fieldNames.toSeq.map(name => name -> ordinalsOf(name)).toMap

  private def ordinalsOf(name: String): Seq[Int] = {
    import table.source.{columns, excluded, unsent}
    val column = columns.find(_.name == name)
    val before = column.flatMap(column => sentBefore.get(column.number))
    val ofName = sentBefore.values.find(_.name.equalsIgnoreCase(name))
    val dropped = ofName.filterNot(other =>
      (columns ++ excluded).exists(_.number == other.number) || unsent.contains(other.number)
    )
    // A hash with another salt, or a value that is hashed or shown only now, is not a value of the column.
    def ordinal(name: String, hash: Option[String]) =
      ordinalOf(name).filter(_ => column.forall(_.hash == hash))
    val ofFormer = Seq(before, dropped).flatten.flatMap(former => ordinal(former.name, former.hash))
    if (ofFormer.nonEmpty || ofName.nonEmpty) ofFormer
    else {
      val hash = hashes.collectFirst { case (of, salt) if of.equalsIgnoreCase(name) => salt }
      ordinal(name, before.fold(hash)(_.hash)).toSeq
    }
  }

  /** The columns of the target that have the values of a column, with their names in [[ranked]]. */
  private def fields(name: String): Seq[(Column, DataType)] =
    ordinals(name).map(at => col(old(at)) -> target.schema(at).dataType)

  /** A value of the target; NULL if the column has another type now that does not take it. */
  private def kept(name: String): Column = {
    val wanted = text(jobSchema(name).dataType)
    val values = fields(name).collect {
      case (value, `wanted`)                            => value
      case (value, has) if Cast.canTryCast(has, wanted) => value.try_cast(wanted)
    }
    values.reduceOption(coalesce(_, _)).getOrElse(lit(null).cast(wanted))
  }

  private def keyFits(fits: (DataType, DataType) => Boolean) = table.source.key.forall(name =>
    fields(name).exists { case (_, has) =>
      val wanted = text(jobSchema(name).dataType)
      has == wanted || fits(has, wanted)
    }
  )

  /** Whether the rows of the target have the key that the table has now. */
  def hasKey: Boolean = keyFits(TableEvolution.isWider(_, _))

  private def sent(ordinal: Int): Column = col(now(ordinal))

  /**
   * The columns of users and those that the server has dropped, with their values. A column that has another name now
   * or that the options exclude is one of them, and has no values any more.
   */
  private lazy val others: Seq[(StructField, Column)] = {
    import table.source.{columns, excluded}
    val numbers = (columns ++ excluded).map(_.number).toSet
    val formerNames = sentBefore.values.filter(column => numbers(column.number)).map(_.name)
    val withoutValues = formerNames ++ excluded.map(_.name)
    target.schema.zipWithIndex.collect {
      case (field, at) if !jobSchema.fieldNames.exists(_.equalsIgnoreCase(field.name)) =>
        val hasValues = !withoutValues.exists(_.equalsIgnoreCase(field.name))
        field -> (if (hasValues) col(old(at)) else lit(null).cast(field.dataType))
    }
  }

  private def stored = target.toDF(target.schema.indices.map(old): _*)

  /** Rows of the target with their rank among the rows of the same key. Others can have written a key twice. */
  private def ranked(rows: DataFrame, by: Column): DataFrame = {
    val sameKey = Window.partitionBy(table.source.key.map(kept): _*)
    rows.withColumn(Rank, row_number().over(sameKey.orderBy(by)))
  }

  private def fresh = snapshot.toDF(schema.indices.map(now): _*)

  /** Joins each row of the snapshot with the row of the target that has its key. The other rows of both come alone. */
  private def joined(rows: DataFrame): DataFrame = {
    val sameKey = table.source.key.map(name => sent(schema.fieldIndex(name)) === kept(name))
    fresh.withColumn(IsThere, lit(true))
      .join(rows, sameKey.foldLeft(col(Rank) === 1)(_ && _), "full_outer")
  }

  /**
   * Returns the rows of a target with marks, after the copy.
   *
   * {{{
   *   the snapshot has the key ──► the row of the snapshot, not marked
   *   only the target has it   ──► the row of the target: with its own mark, or else with that of the copy
   * }}}
   *
   * @param areMarked whether deleted rows of the target are marked already
   */
  def marked(areMarked: Boolean): DataFrame = {
    import TableMode.Marking._
    def mark(name: String): Column =
      if (areMarked) kept(name) else lit(null).cast(columns(name).dataType)
    def either(fresh: Column, before: Column, name: String) =
      when(col(IsThere), fresh).otherwise(before).as(name)
    val values = schema.zipWithIndex.map { case (field, ordinal) =>
      either(sent(ordinal), kept(field.name), field.name)
    }
    val ofCopy = Map(DeletedAt -> at, DeletedLsn -> lit(lsn - 1))
    val marks = columns.fieldNames
      .map(name => either(lit(null), coalesce(mark(name), ofCopy(name)), name))
    val more = others.map { case (field, value) => either(lit(null), value, field.name) }
    val lacksKey = table.source.key.map(kept(_).isNull).foldLeft(lit(false))(_ || _)
    val once = ranked(stored, by = mark(DeletedLsn).asc_nulls_last)
      .where(col(Rank) === 1 || lacksKey)
    described(joined(once).select(values ++ marks ++ more: _*))
  }

  /**
   * Returns the rows of a target with versions, after the copy.
   *
   * {{{
   *   the row of the snapshot equals the version that is current ──► this version, which stays current
   *   it differs                                                 ──► this version, which ends, and a new one
   *   only the snapshot has the key                              ──► a new version
   *   only the target has it                                     ──► this version, which ends
   *   a version that has ended                                   ──► this version
   * }}}
   *
   * Only the versions that are current are compared. If the rows of the target do not have the key of the table, no row
   * of the snapshot has a version. A join without the key would compare each row with all others.
   */
  def versions: DataFrame = {
    val isCurrent = kept(TableMode.Versions.ToLsn).isNull
    val rows =
      if (keyFits(Cast.canTryCast(_, _)))
        stored.where(!isCurrent).select(before(ends = lit(false)).as(Merged))
          .unionAll(compared(stored.where(isCurrent)))
      else
        stored.select(before(ends = isCurrent).as(Merged))
          .unionAll(fresh.select(added.as(Merged)))
    described(rows.select(s"$Merged.*"))
  }

  /** Gives columns their comments and the lengths of their texts, which the expressions do not have. */
  private def described(rows: DataFrame): DataFrame = {
    val more = getRawSchema(StructType(others.map(_._1)))
    val fields = RowsOfRdd.withTexts(
      StructType(jobSchema ++ more.map(field => StructField(field.name, field.dataType)))
    )
    rows.select(fields.map(field =>
      col(QuotingUtils.quoteIdentifier(field.name)).as(field.name, field.metadata)
    ): _*)
  }

  private def compared(current: DataFrame): DataFrame = {
    val versions = ranked(current, by = kept(TableMode.Versions.FromLsn).desc_nulls_last)
    val isSame = schema.indices.map(same).foldLeft(col(IsThere) && col(Rank).isNotNull)(_ && _)
    val all = array(
      when(col(Rank).isNotNull, before(ends = !col(Stays))),
      when(col(IsThere) && !col(Stays), added)
    )
    joined(versions)
      .withColumn(Stays, coalesce(isSame, lit(false)))
      .select(explode(filter(all, (row: Column) => row.isNotNull)).as(Merged))
  }

  /** Whether the snapshot has the value of the target. Of maps and variants, it compares the texts. */
  private def same(ordinal: Int): Column = {
    val values = Seq(sent(ordinal), kept(schema(ordinal).name))
    val Seq(one, other) =
      if (TargetTypes.isComparable(schema(ordinal).dataType)) values
      else values.map(value => to_json(struct(value.as("value")), TargetTypes.JsonOptions))
    one <=> other
  }

  private def before(ends: Column): Column = {
    import TableMode.Versions._
    val ofCopy = Map(ToLsn -> lit(lsn - 1), ToTimestamp -> at, IsCurrent -> lit(false))
    val values = jobSchema.map { field =>
      val value = kept(field.name)
      ofCopy.get(field.name).fold(value)(end => when(ends, end).otherwise(value))
    }
    row(values, others.map(_._2))
  }

  private def added: Column =
    row(
      schema.indices.map(sent) ++ TableCopy.added(table.mode, lsn, at).map(_._2),
      others.map(_ => lit(null))
    )

  private def row(values: Seq[Column], more: Seq[Column]): Column = struct(
    (jobSchema ++ others.map(_._1)).zip(values ++ more).map { case (field, value) =>
      value.cast(text(field.dataType)).as(field.name)
    }: _*
  )
}

private[job] object MergedCopy {

  /** Whether the snapshot has the row. NULL if it does not. */
  final private val IsThere = "is_there"
  final private val Rank = "rank"
  final private val Stays = "stays"
  final private val Merged = "merged"
  private def now(at: Int) = s"n$at"
  private def old(at: Int) = s"o$at"
}
