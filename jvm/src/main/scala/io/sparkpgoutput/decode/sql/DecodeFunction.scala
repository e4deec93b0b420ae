package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.types.{DataType, StructType}

import io.sparkpgoutput.decode.{MessageDecoder, MessageFilter}
import io.sparkpgoutput.protocol.MessageSchema

/** A function that gives the row of a message: all of it, or what the optimizer left of it. */
abstract class DecodeFunction extends MessageFunction {

  /** Whether a malformed message is an error, or NULL. */
  def failFast: Boolean

  /** The fields that rows have: those of [[MessageSchema]] or some of them. */
  def required: StructType = MessageSchema.schema

  /** The messages that rows are given of; NULL is given for the others. */
  def filter: MessageFilter = MessageFilter.all

  /** Whether its row is as the user asked for it. */
  final def isWhole: Boolean =
    required == MessageSchema.schema && filter == MessageFilter.all

  /** Whether the text of tuples is as it stands in the message. */
  final def isUtf8: Boolean = decodeOptions.encoding.isUtf8

  final override def dataType: DataType = required

  final override type Decoder = MessageDecoder
  final override protected def decoderClass: Class[MessageDecoder] = classOf[MessageDecoder]
  final override def newDecoder(): MessageDecoder =
    new MessageDecoder(decodeOptions.encoding, required, filter)

  /**
   * Generated code hands on the decoder's own row, which the next message overwrites, as Spark hands
   * on strings that point into a row of its input: what keeps a value copies it (see
   * `CodeGenerator.setColumn`).
   */
  final override protected def method: String = if (failFast) "decode" else "decodeOrNull"

  /** Interpreted, nothing is lost by a row of one's own. */
  final override protected def apply(
      decoder: MessageDecoder,
      message: Array[Byte],
      context: Int
  ): Any = {
    val row =
      if (failFast) decoder.decode(message, context) else decoder.decodeOrNull(message, context)
    if (row == null) null else row.copy()
  }
}
