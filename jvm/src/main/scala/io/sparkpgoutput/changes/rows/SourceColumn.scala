package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.DataType

/**
 * Appends the source of a message to the row of a change.
 *
 * @param ordinal the ordinal of the source in the row of the message
 */
final class SourceColumn(format: ChangeFormat, sourceType: DataType, ordinal: Int) {
  private val joined = new JoinedRow
  private val projection: UnsafeProjection = {
    val columns = format.rowType.zipWithIndex.map { case (field, index) =>
      BoundReference(index, field.dataType, nullable = true)
    }
    UnsafeProjection.create(
      columns :+ BoundReference(columns.length + ordinal, sourceType, nullable = true)
    )
  }

  def apply(row: InternalRow, message: InternalRow): InternalRow = projection(joined(row, message))
}
