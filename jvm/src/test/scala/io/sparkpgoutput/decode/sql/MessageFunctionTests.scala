package io.sparkpgoutput.decode.sql

import org.apache.spark.SparkFunSuite
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{BinaryType, BooleanType}

import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.protocol.{Fields, StreamContext, TextEncoding}
import io.sparkpgoutput.sql.FunctionCall

/**
 * Code that the suites of the message functions share. `checkEvaluation` evaluates an expression interpreted
 * and in generated code, in each way that Spark can.
 */
abstract class MessageFunctionTests extends SparkFunSuite with ExpressionEvalHelper {

  /** Data and in_stream as columns, because Spark would fold literals. */
  protected val data: Expression = BoundReference(0, BinaryType, nullable = true)
  protected val inStream: Expression = BoundReference(1, BooleanType, nullable = true)

  protected def row(message: String, inStream: Any = null): InternalRow =
    InternalRow(if (message == null) null else Fields.unhex(message), inStream)

  /** The call of a function, as the analyzer makes it. */
  protected def decode(arguments: Expression*): Expression = DecodeFunctions.decode.call(arguments)
  protected def tryDecode(arguments: Expression*): Expression =
    DecodeFunctions.tryDecode.call(arguments)
  protected def error(arguments: Expression*): Expression = DecodeFunctions.error.call(arguments)

  /** The expression that evaluates a call of `pgoutput_decode`. */
  protected def evaluator(call: Expression): DecodeMessage = call match {
    case FunctionCall(_, _, decode: DecodeMessage) => decode
    case other                                     => fail(s"$other is not a decode")
  }

  protected def options(entries: (String, String)*): Expression =
    CreateMap(entries.flatMap { case (name, value) => Seq(Literal(name), Literal(value)) })

  /** The row that the decoder makes of the message. */
  protected def decoded(message: String, inStream: Any = null): InternalRow = {
    val context = inStream match {
      case known: Boolean => StreamContext.of(known)
      case _              => StreamContext.UNKNOWN
    }
    new MessageDecoder(TextEncoding.Utf8).decode(Fields.unhex(message), context)
  }

  /** INSERT of a text cell and a NULL; the same in a stream; and with a byte less. */
  protected val insert = "49 00004010 4e 0002 74 00000002 3432 6e"
  protected val insertInStream = "49 0000030c 00004010 4e 0002 74 00000002 3432 6e"
  protected val broken = "49 00004010 4e 0002 74 00000002 3432"

  /** LOGICAL MESSAGE that is valid in both readings. The decoder chooses the one without an xid. */
  protected val ambiguous = "4d 01 0000000180000000 616263646500 00000000"

  /** ORIGIN with the name `nöde` in LATIN1. */
  protected val latin1 = "4f 0000000001851440 6ef6646500"
}
