package io.sparkpgoutput.lake.target

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.{col, max}
import org.apache.spark.sql.types._

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{
  MirroredTable,
  SourceTable,
  TableChange,
  TableMode,
  TableShape
}
import io.sparkpgoutput.lake.core.{NextDefinition, TableState}
import io.sparkpgoutput.protocol.Lsn

/** Follows the changes of a table's columns that lose nothing. */
object TableEvolution {

  /**
   * Makes a history ready for the columns of a new copy. If the new type of a column takes all values of the
   * column, the column gets this type, if that is possible. If not, the old column keeps its values under
   * another name.
   *
   * @param has the columns of the target
   * @param wanted the columns of the copy
   * @param generation the number of the copy, with which the new names of old columns end
   * @param isPossible whether the target can make a change
   */
  def keep(has: StructType, wanted: StructType, generation: Int)(
      isPossible: ColumnChange => Boolean
  ): Seq[ColumnChange] =
    wanted.flatMap { field =>
      val added = ColumnChange.Add(field.name, field.dataType)
      has.find(_.name.equalsIgnoreCase(field.name)) match {
        case None                                            => Seq(added)
        case Some(known) if known.dataType == field.dataType => Nil
        case Some(known) =>
          val widen = ColumnChange.Widen(known.name, field.dataType)
          if (isWider(known.dataType, field.dataType) && isPossible(widen)) Seq(widen)
          else Seq(ColumnChange.Rename(known.name, s"${known.name}_before_$generation"), added)
      }
    }

  /** Returns whether both formats can give a column the type without rewriting its values. */
  def isWider(from: DataType, to: DataType) = (from, to) match {
    case (ShortType, IntegerType | LongType) | (IntegerType, LongType) | (FloatType, DoubleType) =>
      true
    case (from: DecimalType, to: DecimalType) =>
      from.scale == to.scale && from.precision < to.precision
    case _ => false
  }

  /**
   * Returns the next definition of a table.
   *
   * @param now
   *   the table by the server's catalog, with the types that its columns would get in a new copy
   * @param changes what has changed at the server
   */
  def next(kept: TableState, now: MirroredTable, changes: Seq[TableChange]): NextDefinition = {
    val widened = changes.collect { case TableChange.ColumnWidened(_, to) => to.number }.toSet
    val renamed = changes.collect { case TableChange.ColumnRenamed(from, to) =>
      from.name -> to.name
    }.toMap
    val known = fields(kept.table)
    val columns = now.source.columns.zip(now.schema).map { case (column, field) =>
      known.get(column.number) match {
        // The type in the target can come from the option types, and take all values already.
        case Some(has) if !widened(column.number) || !isWider(has.dataType, field.dataType) =>
          field.copy(dataType = has.dataType)
        case _ => field
      }
    }
    // A column that was added and dropped since can be in changes that wait. A later one can get its name.
    val hasAdded = changes.exists(_.isInstanceOf[TableChange.ColumnAdded])
    val attributes = if (hasAdded) now.source.attributes else kept.table.source.attributes
    val table = kept.table
      .copy(
        now.source.copy(attributes = attributes),
        schema = StructType(columns),
        types = now.types,
        mode = now.mode,
        shape = now.shape
      )
    // The target keeps a dropped column with its values, so no other column can have its name.
    val dropped = changes.collect { case TableChange.ColumnDropped(column) =>
      column.name -> column.name
    }
    val former = kept.formerNames.map { case (name, current) =>
      name -> renamed.getOrElse(current, current)
    } ++ renamed ++ dropped
    NextDefinition(table, former)
  }

  /**
   * Returns why a table must be copied: the options give a column another type than the target has, or none does any
   * more.
   *
   * @param next the table with the types that the target can get without a copy
   * @param now the same columns with the types that they would get in a new copy
   */
  def otherType(next: MirroredTable, now: MirroredTable): Option[String] =
    next.schema.zip(now.schema).collectFirst {
      case (has, field) if has.dataType != field.dataType =>
        s"The options of this start give the column '${field.name}' the type ${field.dataType.sql}, and the target " +
          s"has ${has.dataType.sql}."
    }

  /**
   * Returns why a table must be copied: the target has rows that the options do not keep any more, or lacks a history.
   */
  def otherMode(kept: MirroredTable, now: MirroredTable): Option[String] =
    if (kept.marks && !now.marks) Some(
      "The option onDelete is not mark any more, and the target has rows that are marked as deleted."
    )
    else Option.when(now.parts.length > kept.parts.length)(
      "The option mode gives the table a history beside its rows, which begins with a copy."
    )

  /**
   * Returns the shape of a table with the current names of its columns, if the options still ask for the same shape.
   * An option can have a former name of a column, or the name of a dropped column, which the target keeps.
   */
  def sameShape(kept: TableState, now: SourceTable, wanted: TableShape): Option[TableShape] = {
    val current = nameOf(kept.table.source, now)
    def present(name: String) =
      if (now.columns.exists(_.name == name)) name
      else current(kept.formerNames.getOrElse(name, name))
    Some(wanted.renamed(present)).filter(_ == kept.table.shape.renamed(current))
  }

  /** Returns the names that columns have now. A dropped column keeps its name in the target. */
  private def nameOf(kept: SourceTable, now: SourceTable): String => String = {
    val names = now.columns.map(column => column.number -> column.name).toMap
    val known = kept.columns.flatMap(column => names.get(column.number).map(column.name -> _)).toMap
    name => known.getOrElse(name, name)
  }

  /** Returns why a table must be copied to have the shape of its next definition. */
  def otherShape(kept: MirroredTable, next: MirroredTable): Option[String] = {
    val before = kept.shape.renamed(nameOf(kept.source, next.source))
    val partitioning = next.shape.partition.map(_.column)
    if (before != next.shape) Some(
      s"The options give the target the shape (${next.shape}), and it has the shape ($before)."
    )
    else columns(kept, next).collectFirst {
      case ColumnChange.Widen(name, _) if partitioning.contains(name) =>
        s"The target has partitions by the column '$name', which has another type."
    }
  }

  /** What changes in the columns of the target from one definition of a table to the next one. */
  def columns(kept: MirroredTable, next: MirroredTable): Seq[ColumnChange] = {
    val known = fields(kept)
    val found = next.source.columns.zip(next.schema).map { case (column, field) =>
      known.get(column.number) -> field
    }
    found.collect {
      case (Some(has), field) if has.name != field.name =>
        ColumnChange.Rename(has.name, field.name)
    } ++ found.collect {
      case (None, field) => ColumnChange.Add(field.name, field.dataType)
      case (Some(has), field) if has.dataType != field.dataType =>
        ColumnChange.Widen(field.name, field.dataType)
    } ++ next.mode.columns.diff(kept.mode.columns)
      .map(field => ColumnChange.Add(field.name, field.dataType))
  }

  private def fields(table: MirroredTable) =
    table.source.columns.map(_.number).zip(table.schema).toMap
}

/**
 * A history is in the order of its LSNs, and so are versions. The LSNs of a restored server, or of another one, can be
 * lower than those in the target. Then a copy would come before changes that it replaces.
 */
object HistoryOrder {

  /**
   * Checks that a copy comes after all changes of its history.
   *
   * @param lsn the LSN of the copy, or a lower one
   */
  def check(session: SparkSession, own: OwnTables, table: MirroredTable, lsn: Long): Unit = {
    val columns = table.mode match {
      case TableMode.History(prefix) => Seq(s"${prefix}commit_version")
      case TableMode.Versions        => Seq(TableMode.Versions.FromLsn, TableMode.Versions.ToLsn)
      case _                         => Nil
    }
    def last(version: String) = {
      val rows = own.target.read(session, table.target)
      if (!rows.columns.contains(version)) None
      else rows.select(max(col(TablePlace.quoted(version)))).collect().headOption
        .filterNot(_.isNullAt(0)).map(_.getLong(0))
    }
    if (columns.nonEmpty && own.target.exists(table.target))
      // A table of which an older state was restored has no valid mark.
      own.newest(table.target).filter(_ != 0)
        .orElse(columns.flatMap(last).maxOption.map(_ + 1))
        .filter(Lsn.isBelow(lsn, _)).foreach(end =>
          throw new LakeException(
            "PGOUTPUT_TARGET_EXISTS.HISTORY_AHEAD",
            "table" -> own.target.sqlName(table.target),
            "mark" -> Lsn.format(end),
            "end" -> Lsn.format(lsn),
            "source" -> table.source.name
          )
        )
  }
}
