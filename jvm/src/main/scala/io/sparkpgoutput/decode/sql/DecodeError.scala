package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.{DataType, StringType}

import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder}
import io.sparkpgoutput.protocol.TextEncoding

/** Evaluates `pgoutput_error`: the text of what is wrong with a message, or NULL. */
case class DecodeError(data: Expression, inStream: Expression, encoding: TextEncoding)
    extends MessageEvaluator {

  override def dataType: DataType = StringType

  override type Decoder = MessageDecoder
  override protected def decoderClass: Class[MessageDecoder] = classOf[MessageDecoder]
  override def newDecoder(): MessageDecoder =
    new MessageDecoder(encoding, FieldSelection.Nothing)
  override protected def method: String = "errorOrNull"
  override protected def apply(decoder: MessageDecoder, message: Array[Byte], context: Int): Any =
    decoder.errorOrNull(message, context)

  override def prettyName: String = "pgoutput_error"
  override protected def call(show: Expression => String): String =
    arguments.map(show).mkString(s"$prettyName(", ", ", ")")

  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression
  ): DecodeError = copy(data, inStream)
}
