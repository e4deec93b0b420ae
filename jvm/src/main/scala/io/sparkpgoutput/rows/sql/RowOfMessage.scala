package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.types.{DataType, StructType}

import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.decode.sql.{DecodeFunction, MessageFunction}
import io.sparkpgoutput.protocol.MessageSchema
import io.sparkpgoutput.rows.{MessageRowReader, RowConverter}

/**
 * What the optimizer makes of a typed row of a decode's tuple: the tuple is read from the message, and
 * no arrays of its cells are made. Users cannot call it.
 *
 * @param failFast
 *   whether a malformed message is an error, or gives NULL
 * @param field
 *   the tuple's, in the row of the decode
 * @param row
 *   the function of the tuple, whose type_ids are constant
 */
case class RowOfMessage(
    data: Expression,
    inStream: Expression,
    options: Expression,
    override val prettyName: String,
    failFast: Boolean,
    field: Int,
    row: RowFunction
) extends MessageFunction
    with TypedRow {

  override def dataType: DataType = row.dataType
  override def wholeRow: StructType = row.wholeRow
  override def withRequired(positions: Seq[Int]): RowOfMessage =
    copy(row = row.withRequired(positions))

  override type Decoder = MessageRowReader
  override protected def decoderClass: Class[MessageRowReader] = classOf[MessageRowReader]
  override def newDecoder(): MessageRowReader = new MessageRowReader(
    new MessageDecoder(decodeOptions.encoding, new StructType),
    field,
    new RowConverter(row.rowSchema, row.constantTypeIds.get)
  )

  override protected def method: String = if (failFast) "read" else "readOrNull"
  override protected def apply(
      reader: MessageRowReader,
      message: Array[Byte],
      context: Int
  ): Any = {
    val found =
      if (failFast) reader.read(message, context) else reader.readOrNull(message, context)
    if (found == null) null else found.copy()
  }

  /** For example `pgoutput_row(pgoutput_decode(data#1).new)[id, amount]`. */
  override def toString: String = {
    val name = MessageSchema.schema(field).name
    s"${row.prettyName}(${super.toString}.$name)${rowType.fieldNames.mkString("[", ", ", "]")}"
  }

  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression,
      options: Expression
  ): Expression = copy(data, inStream, options)
}

object RowOfMessage {

  /** The same as a row of this field of a decode's row. */
  def of(row: RowFunction, decode: DecodeFunction, field: Int): RowOfMessage = RowOfMessage(
    decode.data,
    decode.inStream,
    decode.options,
    decode.prettyName,
    decode.failFast,
    field,
    // The tuple is not evaluated: nothing is to be seen of it.
    row.withNewChildren(
      Literal.create(null, row.tuple.dataType) +: row.children.tail
    ).asInstanceOf[RowFunction]
  )
}
