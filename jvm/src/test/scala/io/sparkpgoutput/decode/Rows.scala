package io.sparkpgoutput.decode

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

import io.sparkpgoutput.decode.FieldSelection.{All, Elements}

/** Rows of objects, because Spark's writers copy rows in their own format without a change. */
object Rows {

  /** The selected part of a row. */
  def part(row: InternalRow, schema: StructType, selection: FieldSelection): InternalRow =
    value(row, schema, selection).asInstanceOf[InternalRow]

  /** All of a row. */
  def all(row: InternalRow, schema: StructType): InternalRow = part(row, schema, All)

  private def value(data: Any, dataType: DataType, part: FieldSelection): Any =
    (data, dataType, part) match {
      case (row: InternalRow, struct: StructType, _) =>
        new GenericInternalRow(part.members(struct).map { case (member, partOfIt) =>
          val ordinal = struct.fieldIndex(member.name)
          value(row.get(ordinal, struct(ordinal).dataType), struct(ordinal).dataType, partOfIt)
        }.toArray[Any])
      case (array: ArrayData, ArrayType(_, _), Elements(positions)) => elements(array, positions)
      case (array: ArrayData, ArrayType(element, _), _) =>
        new GenericArrayData(array.toArray[Any](element).map(value(_, element, part)))
      case (other, _, _) => other
    }

  /** These elements of a tuple's text, the others NULL. */
  private def elements(text: ArrayData, positions: Set[Int]): ArrayData = new GenericArrayData(
    Array.tabulate[Any](text.numElements())(i =>
      if (positions.contains(i)) text.getUTF8String(i) else null
    )
  )
}
