package io.sparkpgoutput.changes

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

/** The columns of the messages as the operators read them. The source column is optional. */
object MessageColumns {
  final val Position = 0
  final val Message = 1
  final val Source = 2
  val names: Seq[String] = Seq("position", "message", "source")

  /** Returns the position of a message, or throws an error if it is NULL. */
  def position(row: InternalRow): Long =
    if (row.isNullAt(Position)) throw ChangesError.nullPosition else row.getLong(Position)

  /** Returns the bytes of a message, or throws an error if it is NULL. */
  def message(row: InternalRow, position: Long): Array[Byte] =
    if (row.isNullAt(Message)) throw ChangesError.nullMessage(position)
    else row.getBinary(Message)

  /** Returns the source of a message, or null if there is no source column. */
  def source(row: InternalRow, sourceType: Option[DataType]): Any = sourceType match {
    case Some(dataType) if !row.isNullAt(Source) => row.get(Source, dataType)
    case _                                       => null
  }
}
