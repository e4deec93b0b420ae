package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.expressions.Expression

import io.sparkpgoutput.decode.sql.{DecodeMessage, MessageEvaluator}
import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder}
import io.sparkpgoutput.options.DecodeOptions
import io.sparkpgoutput.protocol.MessageSchema
import io.sparkpgoutput.rows.{MessageRowReader, RowConverter, RowSchema}

/**
 * The typed row of a message's tuple. The optimizer puts it in the place of a [[ReadTuple]] of a
 * [[DecodeMessage]], of which nothing else is used: it reads the tuple from the message, and makes no arrays
 * of its cells.
 *
 * @param field the tuple's ordinal in [[MessageSchema]]
 */
case class DecodeTuple(
    data: Expression,
    inStream: Expression,
    options: DecodeOptions,
    field: Int,
    typeIds: Seq[Long],
    rowSchema: RowSchema
) extends MessageEvaluator
    with TypedRow {

  override def withColumns(positions: Seq[Int]): DecodeTuple =
    copy(rowSchema = rowSchema.copy(required = positions))

  override type Decoder = MessageRowReader
  override protected def decoderClass: Class[MessageRowReader] = classOf[MessageRowReader]
  override def newDecoder(): MessageRowReader = new MessageRowReader(
    new MessageDecoder(options.encoding, FieldSelection.Nothing),
    field,
    new RowConverter(rowSchema, typeIds)
  )

  override protected def method: String = if (options.failFast) "read" else "readOrNull"
  override protected def apply(
      reader: MessageRowReader,
      message: Array[Byte],
      context: Int
  ): Any = {
    val row =
      if (options.failFast) reader.read(message, context) else reader.readOrNull(message, context)
    if (row == null) null else row.copy()
  }

  override protected def call(show: Expression => String): String = {
    val decode = DecodeMessage(data, inStream, options)
    s"$prettyName(${show(decode)}.${MessageSchema.schema(field).name})"
  }

  /** For example `pgoutput_row(pgoutput_decode(data#1).new)[id, amount]`. */
  override def toString: String = super.toString + columnNames

  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression
  ): DecodeTuple = copy(data, inStream)
}
