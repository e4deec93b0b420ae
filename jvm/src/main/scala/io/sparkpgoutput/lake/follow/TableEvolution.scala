package io.sparkpgoutput.lake.follow

import org.apache.spark.sql.types.{
  DataType,
  DecimalType,
  DoubleType,
  FloatType,
  IntegerType,
  LongType,
  ShortType,
  StructType
}

import io.sparkpgoutput.lake.state.TableState
import io.sparkpgoutput.lake.table.{MirroredTable, TableChange}
import io.sparkpgoutput.lake.target.ColumnChange

/** Follows the changes of a table's columns. */
object TableEvolution {

  /**
   * Makes a history ready for the columns of a new copy. A column whose new type takes all values that it
   * has gets this type. Another column whose type changes stays under another name, with its values.
   *
   * @param has the columns of the target
   * @param wanted the columns of the copy
   * @param generation the number of the copy, with which the names of columns from before end
   */
  def keep(has: StructType, wanted: StructType, generation: Int): Seq[ColumnChange] =
    wanted.flatMap { field =>
      val added = ColumnChange.Add(field.name, field.dataType)
      has.find(_.name.equalsIgnoreCase(field.name)) match {
        case None                                            => Seq(added)
        case Some(known) if known.dataType == field.dataType => Nil
        case Some(known) if isWider(known.dataType, field.dataType) =>
          Seq(ColumnChange.Widen(known.name, field.dataType))
        case Some(known) =>
          Seq(ColumnChange.Rename(known.name, s"${known.name}_before_$generation"), added)
      }
    }

  /** Tells if both formats can give a column the type without writing its values anew. */
  private def isWider(from: DataType, to: DataType) = (from, to) match {
    case (ShortType, IntegerType | LongType) | (IntegerType, LongType) | (FloatType, DoubleType) =>
      true
    case (from: DecimalType, to: DecimalType) =>
      from.scale == to.scale && from.precision < to.precision
    case _ => false
  }

  /**
   * Follows changes that lose nothing. Returns the table as it is then, and what changes in the target.
   *
   * @param now
   *   the table by the catalog of now, with the types that its columns would get in a new copy
   */
  def follow(
      state: TableState,
      now: MirroredTable,
      changes: Seq[TableChange]
  ): (TableState, Seq[ColumnChange]) = {
    val widened = changes.collect { case TableChange.Widened(_, to) => to.number }.toSet
    val renamed = changes.collect { case TableChange.Renamed(from, to) => from.name -> to.name }
    val kept = state.table.source.columns.zip(state.table.schema).map { case (column, field) =>
      column.number -> field
    }.toMap
    val fields = now.source.columns.zip(now.schema).map { case (column, field) =>
      kept.get(column.number) match {
        // A type that the option types has asked for can take all values already.
        case Some(known) if !widened(column.number) || !isWider(known.dataType, field.dataType) =>
          field.copy(dataType = known.dataType)
        case _ => field
      }
    }
    val columns = now.source.columns.zip(fields).flatMap { case (column, field) =>
      kept.get(column.number) match {
        case None => Some(ColumnChange.Add(field.name, field.dataType))
        case Some(known) if known.dataType != field.dataType =>
          Some(ColumnChange.Widen(field.name, field.dataType))
        case _ => None
      }
    }
    val table = state.table.copy(now.source, schema = StructType(fields), types = now.types)
    val names = renamed.toMap
    // The target keeps a dropped column with its values, so no other column can have its name.
    val dropped = changes.collect { case TableChange.Dropped(column) => column.name -> column.name }
    val former = state.formerNames.map { case (name, current) =>
      name -> names.getOrElse(current, current)
    } ++ names ++ dropped
    (
      state.copy(table = table, formerNames = former),
      renamed.map { case (from, to) => ColumnChange.Rename(from, to) } ++ columns
    )
  }
}
