package io.sparkpgoutput.changes.rows

import java.util.ArrayList

import org.apache.spark.types.variant.{VariantBuilder, VariantSizeLimitException}

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.errors.InvalidValueException
import io.sparkpgoutput.types.{InvalidValue, ValueWriter, VariantValue}

/**
 * Writes a table's columns as one VARIANT, an object with a field for each column. A NULL is a null. A
 * column that the message does not carry has no field.
 */
final class VariantWriter(relation: Relation, format: ChangeFormat, writer: ValueWriter)
    extends TableWriter(relation) {
  private val values = relation.columns
    .map(column => format.types.byOid(column.typeId).variantValue(format.options))
    .toArray
  private var builder: VariantBuilder = _
  private val fields = new ArrayList[VariantBuilder.FieldEntry]

  override def writeNulls(): Unit = writer.setNull()

  override protected def begin(): Unit = {
    builder = new VariantBuilder(false)
    fields.clear()
  }

  override protected def write(column: Int, kind: Int, tuple: RowImage, position: Long): Unit = {
    val name = relation.columns(column).name
    try {
      fields.add(new VariantBuilder.FieldEntry(name, builder.addKey(name), builder.getWritePos))
      if (kind == 'n') builder.appendNull()
      else values(column).append(_.fromCell(kind, tuple.cells, _), builder)
    } catch {
      case _: InvalidValue if !format.failFast => builder.appendNull() // nothing was appended
      case invalid: InvalidValue =>
        throw ChangesError.invalid(invalid, name, relation.name, position)
      case _: VariantSizeLimitException => throw tooLarge(position)
    }
  }

  private def tooLarge(position: Long) = new InvalidValueException(
    s"position $position: a row of table ${relation.name} is too large for VARIANT; use a schema, or " +
      "the option row 'map'."
  )

  override protected def end(position: Long): Unit =
    try {
      builder.finishWritingObject(0, fields)
      writer.write(VariantValue.of(builder))
    } catch { case _: VariantSizeLimitException | _: InvalidValue => throw tooLarge(position) }
}
