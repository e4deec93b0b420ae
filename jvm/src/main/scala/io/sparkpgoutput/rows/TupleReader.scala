package io.sparkpgoutput.rows

import java.nio.charset.StandardCharsets
import java.util.HexFormat

import scala.collection.immutable.ArraySeq
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types.StructField

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.{DecodedTuple, EncodedTuple, TupleCells}
import io.sparkpgoutput.types.{Conversion, InvalidValue, PgType, ValueWriter}

/**
 * Reads tuples as rows. Each tuple comes with the types of its columns. Tuples with the same types
 * share a [[RowConverter]]. Not thread-safe.
 */
final class TupleReader(rowSchema: RowSchema) {

  /** The most converters that are kept. */
  final private val MostConverters = 1000
  private val structCells = new DecodedTuple
  private val messageCells = new EncodedTuple
  private val converters = mutable.HashMap.empty[Seq[Long], RowConverter]
  private lazy val untyped = new RowConverter(rowSchema, rowSchema.oids(null).toSeq)

  /** The oids that came last, and the converter of tuples with these. Null before the first. */
  private var lastIds: Array[Long] = _
  private var last: RowConverter = _

  /**
   * Reads a tuple. The next row overwrites this one.
   *
   * @param typeIds
   *   the oids of the columns' types. Null, or NULL elements, mean types that are not known.
   */
  def read(tuple: InternalRow, typeIds: ArrayData): UnsafeRow = {
    structCells.start(tuple)
    converter(typeIds).row(structCells)
  }

  /** Reads a tuple from its bytes in the message. */
  def read(tuple: Array[Byte], typeIds: ArrayData): UnsafeRow = {
    messageCells.start(tuple)
    converter(typeIds).row(messageCells)
  }

  private def converter(typeIds: ArrayData): RowConverter =
    if (typeIds == null) untyped
    else {
      if (last == null || !isLast(typeIds)) {
        val ids = rowSchema.oids(typeIds)
        if (converters.size >= MostConverters) converters.clear()
        // If there is no converter, this throws, and the last one stays.
        last = converters
          .getOrElseUpdate(ArraySeq.unsafeWrapArray(ids), new RowConverter(rowSchema, ids.toSeq))
        lastIds = ids
      }
      last
    }

  private def isLast(typeIds: ArrayData): Boolean = {
    val count = typeIds.numElements()
    var index = 0
    while (
      index < count && count == lastIds.length &&
      RowSchema.oid(typeIds, index) == lastIds(index)
    ) index += 1
    index == count && count == lastIds.length
  }
}

/**
 * Reads tuples as rows. All tuples have columns of the same types. Not thread-safe.
 *
 * @param typeIds the oids of the columns' types, 0 for a type that is not known
 */
final class RowConverter(rowSchema: RowSchema, typeIds: Seq[Long]) {
  import rowSchema.{failFast, rowType, schema, types}

  final private val FirstSize = 256
  private val ordinals = rowSchema.required.toArray
  private val writer = new UnsafeRowWriter(ordinals.length, FirstSize)
  private val readers: Array[CellReader] = rowSchema.conversions(typeIds) match {
    case Left(problem) =>
      throw new PgOutputException("PGOUTPUT_SCHEMA_MISMATCH.CONVERSIONS", "problem" -> problem)
    case Right(conversions) =>
      ordinals.zip(conversions).zip(ValueWriter.all(writer, rowType)).map {
        case ((ordinal, conversion), out) =>
          new CellReader(schema(ordinal), types.byOid(typeIds(ordinal)), conversion, out)
      }
  }

  /**
   * Reads a tuple. The next row overwrites this one.
   *
   * @throws PgOutputException
   *   if the tuple has another number of columns than the schema, or if a value does not fit its type and the
   *   mode is FAILFAST
   */
  def row(cells: TupleCells): UnsafeRow = {
    if (cells.columns != schema.length) {
      throw new PgOutputException(
        "PGOUTPUT_SCHEMA_MISMATCH.COLUMNS",
        "found" -> RowSchema.columns(cells.columns),
        "wanted" -> RowSchema.columns(schema.length)
      )
    }
    writer.reset()
    writer.zeroOutNullBytes()
    var index = 0
    while (index < ordinals.length) {
      val kind = cells.goTo(ordinals(index))
      val invalid = readers(index).read(kind, cells)
      if (invalid != null && failFast) {
        throw new PgOutputException(
          "PGOUTPUT_INVALID_VALUE.IN_ROW",
          "problem" -> readers(index).describe(kind, cells, invalid)
        )
      }
      index += 1
    }
    writer.getRow
  }
}

/** Reads the cells of one column and writes them to one member of a row. Not thread-safe. */
final class CellReader(
    field: StructField,
    pgType: PgType,
    conversion: Conversion,
    out: ValueWriter
) {

  /**
   * Reads the current cell. A cell without a value gives NULL.
   *
   * @return
   *   null, or what is wrong with a value that does not fit. NULL is written for such a value.
   */
  def read(kind: Int, cells: TupleCells): InvalidValue = {
    val start = out.writer.cursor
    try {
      if (kind == 't' || kind == 'b') conversion.fromCell(kind, cells, out)
      else out.setNull()
      null
    } catch {
      case invalid: InvalidValue =>
        out.writer.increaseCursor(start - out.writer.cursor)
        out.setNull()
        invalid
    }
  }

  def setNull(): Unit = out.setNull()

  /** Describes what is wrong with the value of the current cell, for an error message. */
  def describe(kind: Int, cells: TupleCells, invalid: InvalidValue): String = {
    val isText = kind == 't'
    val remedy = Option(invalid.remedy).orElse(Option.when(isText)("use STRING"))
    s"column '${field.name}', ${pgType.name} as ${field.dataType.sql}: " +
      s"${value(cells, isText)} ${invalid.problem}${remedy.fold("")("; " + _)}"
  }

  /** The first 100 characters of a value. */
  private def value(cells: TupleCells, isText: Boolean): String = {
    val text =
      if (isText) {
        val size = math.min(cells.to - cells.from, 4 * ShownSize + 4)
        new String(cells.bytes, cells.from, size, StandardCharsets.UTF_8)
      } else {
        val to = math.min(cells.to, cells.from + ShownSize)
        "\\x" + HexFormat.of.formatHex(cells.bytes, cells.from, to)
      }
    val isCut = text.codePointCount(0, text.length) > ShownSize
    if (isCut) s"'${text.substring(0, text.offsetByCodePoints(0, ShownSize))}…'"
    else s"'$text'"
  }

  final private val ShownSize = 100
}
