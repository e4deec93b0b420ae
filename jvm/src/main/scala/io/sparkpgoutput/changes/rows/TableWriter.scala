package io.sparkpgoutput.changes.rows

import java.nio.charset.StandardCharsets
import java.util.{ArrayList, Arrays, Locale}

import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeRowWriter}
import org.apache.spark.sql.types.StructField
import org.apache.spark.types.variant.{VariantBuilder, VariantSizeLimitException}
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.rows.CellReader
import io.sparkpgoutput.types.containers.StringMapWriter
import io.sparkpgoutput.types.{InvalidValue, ValueWriter, VariantValue}

/**
 * Writes the columns of a table, as one Relation message describes it. This class itself writes none,
 * and only finds out which columns are missing. Not thread-safe.
 *
 * @param writers the writers of the columns of the rows
 */
class TableWriter(relation: Relation, writers: Array[ValueWriter]) {
  final val isKey: Array[Boolean] = relation.columns.map(_.isKey).toArray

  /** The columns whose values the last image does not carry. */
  final val missing = new MissingColumns(relation)

  /**
   * Writes the columns of one image of a row.
   *
   * @param position the position of the message, for errors
   */
  final def write(tuple: RowImage, position: Long): Unit = {
    missing.clear()
    begin()
    var column = 0
    while (column < isKey.length) {
      val kind = tuple.goTo(column)
      if (kind == RowImage.Missing) {
        missing.add(column)
        writeMissing(column)
      } else write(column, kind, tuple, position)
      column += 1
    }
    end(position)
  }

  /** Writes NULL for all columns. */
  final def writeNulls(): Unit = writers.foreach(_.setNull())

  protected def begin(): Unit = ()
  protected def write(column: Int, kind: Int, tuple: RowImage, position: Long): Unit = ()
  protected def writeMissing(column: Int): Unit = ()
  protected def end(position: Long): Unit = ()

  /** A value that does not fit its type, if that is an error. */
  final protected def invalid(what: String, position: Long): PgOutputException =
    new PgOutputException(
      "PGOUTPUT_INVALID_VALUE.IN_CHANGES",
      "position" -> position,
      "table" -> relation.name,
      "problem" -> what
    )

  final protected def invalid(
      column: Int,
      value: InvalidValue,
      position: Long
  ): PgOutputException = {
    val remedy = Option(value.remedy).fold("")(text => s"; $text")
    val name = relation.columns(column).name
    invalid(s"column '$name': the value ${value.problem}$remedy", position)
  }
}

object TableWriter {
  def of(
      relation: Relation,
      format: ChangeFormat,
      writer: UnsafeRowWriter,
      position: Long
  ): TableWriter = {
    val writers = ValueWriter.all(writer, format.rowType).take(format.requiredColumns.length)
    format.table match {
      case columns: TableFormat.Columns =>
        new ColumnsWriter(relation, format, columns, writers, position)
      case _ if writers.isEmpty  => new TableWriter(relation, writers)
      case TableFormat.AsMap     => new MapWriter(relation, format, writers)
      case TableFormat.AsVariant => new VariantWriter(relation, format, writers)
    }
  }
}

/** Writes each column of a table to the column of a schema that has the same name. */
final class ColumnsWriter(
    relation: Relation,
    format: ChangeFormat,
    columns: TableFormat.Columns,
    writers: Array[ValueWriter],
    position: Long
) extends TableWriter(relation, writers) {
  import columns.ignoreOthers

  /** The reader of each column of the table; null if the column is not wanted. */
  private val readers = new Array[CellReader](relation.columns.length)

  /** For each column of the table, whether its type cannot be read as the type in the schema. */
  private val unreadable = new Array[Boolean](relation.columns.length)

  /** The columns of the schema that the table does not have. */
  private val unfilled: Array[ValueWriter] = bind()

  private def bind(): Array[ValueWriter] = {
    val positions = columns.columns.fieldNames.map(key).zipWithIndex.toMap
    val writerOf = format.requiredColumns.zip(writers).toMap
    val named = relation.columns.map(column => key(column.name))
    named.zip(relation.columns).groupBy(_._1).collectFirst { case (_, Seq(_, (_, twice), _*)) =>
      throw new PgOutputException(
        "PGOUTPUT_SCHEMA_MISMATCH.DUPLICATE_COLUMN",
        "position" -> position,
        "table" -> relation.name,
        "column" -> twice.name
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

  private def evolved(column: RelationColumn, problem: String) = new PgOutputException(
    "PGOUTPUT_SCHEMA_EVOLUTION.IN_CHANGES",
    "position" -> position,
    "table" -> relation.name,
    "column" -> column.name,
    "problem" -> problem
  )

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
      val found = reader.read(kind, tuple.cells)
      if (found != null && format.failFast)
        throw invalid(reader.describe(kind, tuple.cells, found), position)
    } else if (unreadable(column)) missing.add(column)
  }

  override protected def writeMissing(column: Int): Unit =
    if (readers(column) != null) readers(column).setNull()
}

/**
 * Writes a table's columns as a map of their names to PostgreSQL's text. A NULL is a key with a NULL
 * value. A column that the message does not carry has no key.
 */
final class MapWriter(relation: Relation, format: ChangeFormat, writers: Array[ValueWriter])
    extends TableWriter(relation, writers) {
  private val names = relation.columns.map(_.name.getBytes(StandardCharsets.UTF_8)).toArray
  private val printers =
    relation.columns.map(column =>
      format.types.byOid(column.typeId).printer(format.options)
    ).toArray
  private val map = new StringMapWriter

  override protected def begin(): Unit = map.clear()

  override protected def write(column: Int, kind: Int, tuple: RowImage, position: Long): Unit = {
    map.keys.text.add(names(column), 0, names(column).length)
    val isNull = kind == 'n' || !addText(column, kind, tuple, position)
    map.addPair(isNull)
  }

  /** Adds the text of a value. Returns false if the value is not valid. */
  private def addText(column: Int, kind: Int, tuple: RowImage, position: Long): Boolean = {
    val cells = tuple.cells
    if (kind == 't') {
      map.values.text.add(cells.bytes, cells.from, cells.to)
      true
    } else
      try {
        printers(column).print(cells.bytes, cells.from, cells.to, map.values.text)
        true
      } catch {
        case _: InvalidValue if !format.failFast => false
        case value: InvalidValue                 => throw invalid(column, value, position)
      }
  }

  override protected def end(position: Long): Unit = map.write(writers(0))
}

/**
 * Writes a table's columns as one VARIANT, an object with a field for each column. A NULL is a null. A
 * column that the message does not carry has no field.
 */
final class VariantWriter(relation: Relation, format: ChangeFormat, writers: Array[ValueWriter])
    extends TableWriter(relation, writers) {
  private val values = relation.columns
    .map(column => format.types.byOid(column.typeId).variantValue(format.options))
    .toArray
  private var builder: VariantBuilder = _
  private val fields = new ArrayList[VariantBuilder.FieldEntry]

  override protected def begin(): Unit = {
    builder = new VariantBuilder(false)
    fields.clear()
  }

  override protected def write(column: Int, kind: Int, tuple: RowImage, position: Long): Unit = {
    val name = relation.columns(column).name
    try {
      fields.add(new VariantBuilder.FieldEntry(name, builder.addKey(name), builder.getWritePos))
      if (kind == 'n') builder.appendNull() else append(column, kind, tuple, position)
    } catch { case _: VariantSizeLimitException => throw tooLarge(position) }
  }

  private def append(column: Int, kind: Int, tuple: RowImage, position: Long): Unit =
    try values(column).append(_.fromCell(kind, tuple.cells, _), builder)
    catch {
      case _: InvalidValue if !format.failFast => builder.appendNull() // nothing was appended
      case value: InvalidValue                 =>
        // The type of a value in a VARIANT is fixed.
        val shown =
          if (value.needsOtherType)
            new InvalidValue(value.problem, "use a schema, or the option row 'map'")
          else value
        throw invalid(column, shown, position)
    }

  private def tooLarge(position: Long) = new PgOutputException(
    "PGOUTPUT_INVALID_VALUE.TOO_LARGE_FOR_VARIANT",
    "position" -> position,
    "table" -> relation.name
  )

  override protected def end(position: Long): Unit =
    try {
      builder.finishWritingObject(0, fields)
      writers(0).write(VariantValue.of(builder))
    } catch { case _: VariantSizeLimitException | _: InvalidValue => throw tooLarge(position) }
}

/** The columns of a table whose values a message does not carry. */
final class MissingColumns(relation: Relation) {
  private val columns = new Array[Int](relation.columns.length)
  private var count = 0

  /** The columns of the last array of names. The next change often lacks the same columns. */
  private var named = Array.emptyIntArray
  private var lastNames = NameArray.empty

  def clear(): Unit = count = 0
  def add(column: Int): Unit = { columns(count) = column; count += 1 }

  /** The names of the columns as [[NameArray]] lays them out. */
  def names: Array[Byte] = {
    if (!Arrays.equals(columns, 0, count, named, 0, named.length)) {
      named = columns.take(count)
      lastNames = NameArray.of(named.toSeq.map(relation.columns(_).name))
    }
    lastNames
  }
}

/** The bytes of an ARRAY<STRING> in a row (`UnsafeArrayData`). */
object NameArray {
  val empty: Array[Byte] = of(Nil)

  def of(names: Seq[String]): Array[Byte] = {
    val row = new UnsafeRowWriter(1)
    row.reset()
    val start = row.cursor
    val array = new UnsafeArrayWriter(row, 8)
    array.initialize(names.length)
    names.zipWithIndex.foreach { case (name, index) =>
      array.write(index, UTF8String.fromString(name))
    }
    row.setOffsetAndSizeFromPreviousCursor(0, start)
    row.getRow.getArray(0).copy().getBaseObject.asInstanceOf[Array[Byte]]
  }
}
