package io.sparkpgoutput.changes.rows

import java.util.Locale

import org.apache.spark.sql.types.StructField

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.errors.{SchemaEvolutionException, SchemaMismatchException}
import io.sparkpgoutput.rows.CellReader
import io.sparkpgoutput.types.ValueWriter

/** Writes each column of a table to the column of a schema that has the same name. */
final class ColumnsWriter(
    relation: Relation,
    format: ChangeFormat,
    columns: TableFormat.Columns,
    writers: Array[ValueWriter],
    position: Long
) extends TableWriter(relation) {
  import columns.ignoreOthers

  /** The reader of each column of the table; null if the column is not wanted. */
  private val readers = new Array[CellReader](relation.columns.length)

  /** Tells for each column of the table if its type cannot be read as that of the schema. */
  private val unreadable = new Array[Boolean](relation.columns.length)

  /** The columns of the schema that the table does not have. */
  private val unfilled: Array[ValueWriter] = bind()

  private def bind(): Array[ValueWriter] = {
    val positions = columns.columns.fieldNames.map(key).zipWithIndex.toMap
    val writerOf = format.requiredColumns.zip(writers).toMap
    val named = relation.columns.map(column => key(column.name))
    named.zip(relation.columns).groupBy(_._1).collectFirst { case (_, Seq(_, (_, twice), _*)) =>
      throw new SchemaMismatchException(
        s"position $position: table $table has two columns '${twice.name}', which Spark cannot tell " +
          "apart. Set spark.sql.caseSensitive, or use the option 'row' instead of a schema."
      )
    }
    val filled = relation.columns.indices.flatMap { index =>
      positions.get(named(index)) match {
        case None =>
          if (!ignoreOthers)
            throw evolved(relation.columns(index), "which the schema does not have")
          None
        case Some(ordinal) => bindColumn(index, columns.columns(ordinal), writerOf.get(ordinal))
      }
    }.toSet
    writers.filterNot(filled)
  }

  /** The writer of the column in the schema; None if it is not wanted. */
  private def bindColumn(
      index: Int,
      field: StructField,
      writer: Option[ValueWriter]
  ): Option[ValueWriter] = {
    val column = relation.columns(index)
    val pgType = format.types.byOid(column.typeId)
    pgType.to(field.dataType, format.options) match {
      case None if ignoreOthers =>
        unreadable(index) = true
        None
      case None =>
        throw evolved(
          column,
          s"whose type is ${pgType.name} (oid ${column.typeId}), which cannot be read as " +
            field.dataType.sql
        )
      case Some(found) =>
        writer.foreach(out => readers(index) = new CellReader(field, pgType, found, out))
        writer
    }
  }

  private def key(name: String) =
    if (columns.caseSensitive) name else name.toLowerCase(Locale.ROOT)

  private def table = relation.name.toString

  private def evolved(column: RelationColumn, problem: String) = new SchemaEvolutionException(
    s"position $position: table $table has a column '${column.name}', $problem. Use a schema that " +
      "takes it, or set the option schemaEvolution to 'ignore'. If the schema is another table's, " +
      "name that table in the option 'tables'."
  )

  override def writeNulls(): Unit = writers.foreach(_.setNull())

  override protected def begin(): Unit = {
    var index = 0
    while (index < unfilled.length) {
      unfilled(index).setNull()
      index += 1
    }
  }

  override protected def write(column: Int, kind: Int, tuple: RowImage, position: Long): Unit = {
    val reader = readers(column)
    if (reader != null) {
      val invalid = reader.read(kind, tuple.cells)
      if (invalid != null && format.failFast) {
        val what = reader.describe(kind, tuple.cells, invalid)
        throw ChangesError.invalid(what, relation.name, position)
      }
    } else if (unreadable(column)) missing.add(column)
  }

  override protected def writeMissing(column: Int): Unit =
    if (readers(column) != null) readers(column).setNull()
}
