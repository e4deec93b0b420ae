package io.sparkpgoutput.changes

import java.util.ArrayList

import org.apache.spark.types.variant.{VariantBuilder, VariantSizeLimitException}

import io.sparkpgoutput.protocol.{InvalidValueException, TupleCells}
import io.sparkpgoutput.types._

/**
 * Writes a table's columns as one VARIANT, an object with a field for each: a NULL is a null, a
 * column that the message does not carry has no field.
 *
 * @param slot
 *   None where it is not wanted
 */
final private[changes] class VariantReader(
    relation: Relation,
    format: ChangeFormat,
    slot: Option[Slot]
) extends TableReader(relation) {
  private val values = relation.columns
    .map(column => new VariantValue(format.options.pgType(column.typeId), format.options))
    .toArray
  private var builder: VariantBuilder = _
  private val fields = new ArrayList[VariantBuilder.FieldEntry]

  override def writeNulls(): Unit = slot.foreach(_.setNull())

  override protected def begin(): Unit = {
    builder = new VariantBuilder(false)
    fields.clear()
  }

  override protected def write(column: Int, kind: Int, tuple: ChangedTuple, position: Long): Unit =
    if (slot.isDefined) {
      val name = relation.columns(column).name
      try {
        fields.add(new VariantBuilder.FieldEntry(name, builder.addKey(name), builder.getWritePos))
        if (kind == 'n') builder.appendNull()
        else values(column).append(read(kind, tuple.cells), builder)
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

  private def read(kind: Int, cells: TupleCells)(conversion: Conversion, out: Slot): Unit =
    if (kind == 't') conversion.fromText(cells.bytes, cells.from, cells.to, out)
    else conversion.fromBinary(cells.bytes, cells.from, cells.to, out)

  override protected def writeMissing(column: Int): Unit = ()

  override protected def end(position: Long): Unit = slot.foreach { out =>
    try {
      builder.finishWritingObject(0, fields)
      out.write(VariantValue.of(builder))
    } catch { case _: VariantSizeLimitException | _: InvalidValue => throw tooLarge(position) }
  }
}
