package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionDescription}
import org.apache.spark.sql.types.{DataType, StringType, StructType}

import io.sparkpgoutput.decode.MessageDecoder

@ExpressionDescription(
  usage = """
    _FUNC_(data[, in_stream[, options]]) - Returns NULL where pgoutput_decode decodes the message,
      else the text of the error: to put malformed messages aside.
  """,
  arguments =
    """
    Arguments:
      * data - BINARY: one message as pgoutput wrote it.
      * in_stream - BOOLEAN: whether the message stands between Stream Start and Stream Stop; NULL or
          left out: found out from the message.
      * options - a constant map:
          encoding - the server's client_encoding when the messages were written.
          mode - as pgoutput_decode has it; ignored.
  """,
  examples =
    """
    Examples:
      > SELECT _FUNC_(X'45');
       NULL
      > SELECT _FUNC_(X'49000040104E000174000000FF3432');
       INSERT at byte 13 (new, column 1): need 255 bytes, got 2; message of 15 bytes: 49000040104e000174000000ff3432
  """,
  since = "0.1.0",
  group = "misc_funcs"
)
case class PgOutputError(data: Expression, inStream: Expression, options: Expression)
    extends MessageFunction {

  def this(data: Expression, inStream: Expression) =
    this(data, inStream, MessageFunction.noOptions)
  def this(data: Expression) = this(data, MessageFunction.unknownContext)

  override def prettyName: String = "pgoutput_error"
  override def dataType: DataType = StringType

  override type Decoder = MessageDecoder
  override protected def decoderClass: Class[MessageDecoder] = classOf[MessageDecoder]
  override def newDecoder(): MessageDecoder =
    new MessageDecoder(decodeOptions.encoding, new StructType)
  override protected def method: String = "errorOrNull"
  override protected def apply(decoder: MessageDecoder, message: Array[Byte], context: Int): Any =
    decoder.errorOrNull(message, context)

  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression,
      options: Expression
  ): Expression = copy(data, inStream, options)
}
