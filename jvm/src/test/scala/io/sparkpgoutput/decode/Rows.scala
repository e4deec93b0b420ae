package io.sparkpgoutput.decode

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.{ArrayData, GenericArrayData}
import org.apache.spark.sql.types.{ArrayType, DataType, StructType}

import io.sparkpgoutput.protocol.TupleSchema

/** Rows in objects, for Spark's writers take what is in their own format as it is. */
object Rows {

  /** The members of the row that are required, which may be fewer than it has. */
  def part(row: InternalRow, schema: StructType, required: StructType): InternalRow =
    value(row, schema, required).asInstanceOf[InternalRow]

  private def value(data: Any, whole: DataType, part: DataType): Any = (data, whole, part) match {
    case (row: InternalRow, struct: StructType, required: StructType) =>
      new GenericInternalRow(required.fields.map { member =>
        val ordinal = struct.fieldIndex(member.name)
        val dataType = struct(ordinal).dataType
        val found = value(row.get(ordinal, dataType), dataType, member.dataType)
        TupleSchema.elements(member).fold(found)(elements(found, _))
      }.toArray[Any])
    case (array: ArrayData, ArrayType(element, _), ArrayType(required, _)) =>
      new GenericArrayData(array.toArray[Any](element).map(value(_, element, required)))
    case (other, _, _) => other
  }

  /** Of a tuple's text these elements, the others NULL. */
  private def elements(text: Any, positions: Seq[Int]): Any = text match {
    case array: ArrayData =>
      new GenericArrayData(
        Array.tabulate[Any](array.numElements())(i =>
          if (positions.contains(i)) array.getUTF8String(i) else null
        )
      )
    case none => none
  }
}
