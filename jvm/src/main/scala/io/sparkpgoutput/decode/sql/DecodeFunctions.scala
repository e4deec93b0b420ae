package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.{BinaryType, BooleanType, DataType, StringType}

import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder}
import io.sparkpgoutput.options.{DecodeOptions, OptionList}
import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.sql.{CallArguments, FunctionDescription, SqlFunction}

/** The functions of messages: `pgoutput_decode`, `try_pgoutput_decode` and `pgoutput_error`. */
object DecodeFunctions {

  private val Data =
    """data - BINARY: one message as pgoutput wrote it, without the header of CopyData or XLogData.
      |      NULL and a message of zero bytes give NULL."""

  private val InStream =
    """in_stream - BOOLEAN: whether the message is between Stream Start and Stream Stop. It is
      |      ignored for messages that cannot be there. If it is NULL or left out, the function
      |      infers it from the message."""

  private val Notes =
    """The whole message is checked, whichever fields the query uses. A call that the query does not
      |need may not be evaluated, as with every function of Spark. To check all messages, filter on
      |pgoutput_error.
      |
      |A NULL message, such as a tombstone of Kafka, is NULL and not an error. Find such messages with
      |WHERE data IS NULL.
      |"""

  val decode: SqlFunction = function(
    "pgoutput_decode",
    usage =
      """(data[, in_stream[, options]]) - Decodes a message of PostgreSQL's logical replication
      |  (plugin pgoutput, protocol versions 1 to 4) to a struct. A malformed message is an error with
      |  the condition PGOUTPUT_MALFORMED_MESSAGE, or NULL with the mode PERMISSIVE.""",
    options = DecodeOptions.decode.describe,
    examples = Seq(
      "_FUNC_(X'420000000001851440000303B0970EA19E0000030C').xid" -> Seq("780"),
      "d.type, d.new.kinds, d.new.text FROM (SELECT _FUNC_(X'49000040104E0003740000000234326E75') AS d)" ->
        Seq("INSERT\ttnu\t[\"42\",null,null]"),
      "_FUNC_(X'490000030C000040104E0000', true).xid" -> Seq("780"),
      "_FUNC_(X'4F00000000018514406EF6646500', NULL, map('encoding', 'LATIN1')).origin" ->
        Seq("nöde"),
      "_FUNC_(X'4500', NULL, map('mode', 'PERMISSIVE'))" -> Seq("NULL")
    ),
    note = Notes +
      """
      |LSNs are the 64 bits as a BIGINT. pg_lsn_format shows them as PostgreSQL does."""
  )(decoded(_, DecodeOptions.decode))

  val tryDecode: SqlFunction = function(
    "try_pgoutput_decode",
    usage =
      """(data[, in_stream[, options]]) - Decodes a message of PostgreSQL's logical replication as
      |  pgoutput_decode does, but returns NULL for a malformed message. It never fails.""",
    options = DecodeOptions.tryDecode.describe,
    examples = Seq("_FUNC_(X'45').type" -> Seq("STREAM_STOP"), "_FUNC_(X'4500')" -> Seq("NULL")),
    note = Notes
  )(decoded(_, DecodeOptions.tryDecode))

  val error: SqlFunction = function(
    "pgoutput_error",
    usage = """(data[, in_stream[, options]]) - Returns what is wrong with a message, or NULL if
      |  pgoutput_decode decodes it. Use it to put malformed messages aside.""",
    options = DecodeOptions.decode.describe +
      "\n          The mode is ignored: a malformed message is never an error.",
    examples = Seq(
      "_FUNC_(X'45')" -> Seq("NULL"),
      "_FUNC_(X'49000040104E000174000000FF3432')" -> Seq(
        "INSERT at byte 13 (new, column 1): need 255 bytes, got 2; message of 15 bytes: " +
          "49000040104e000174000000ff3432"
      )
    ),
    note =
      """A NULL message, such as a tombstone of Kafka, is not malformed: the result is NULL. Find
      |such messages with WHERE data IS NULL."""
  )(call =>
    DecodeError(
      message(call),
      call.argument(1, BooleanType),
      call.options(2, DecodeOptions.decode).encoding
    )
  )

  val all: Seq[SqlFunction] = Seq(decode, tryDecode, error)

  private def function(
      name: String,
      usage: String,
      options: String,
      examples: Seq[(String, Seq[String])],
      note: String
  )(replacement: CallArguments => Expression): SqlFunction = {
    val arguments = Seq(Data, InStream, s"options - a constant map:\n$options")
    val description = FunctionDescription(usage, arguments, examples, note, "misc_funcs")
    new SqlFunction(name, needed = 1, description)(replacement)
  }

  private def decoded(call: CallArguments, options: OptionList[DecodeOptions]) =
    DecodeMessage(message(call), call.argument(1, BooleanType), call.options(2, options))

  /** The message; a STRING gets a hint at what the user may mean. */
  private def message(call: CallArguments) = call.argument(0, BinaryType) match {
    case text if text.dataType.isInstanceOf[StringType] =>
      throw call.refused(
        "The message must be BINARY, as pgoutput wrote it, and not STRING: for hexadecimal text use " +
          "unhex(…), for bytes that were taken for text CAST(… AS BINARY)."
      )
    case message => message
  }
}

/** Evaluates `pgoutput_error`: the text of what is wrong with a message, or NULL. */
case class DecodeError(data: Expression, inStream: Expression, encoding: TextEncoding)
    extends MessageEvaluator {

  override def dataType: DataType = StringType

  override def newReader(): MessageFunction = {
    val decoder = new MessageDecoder(encoding, FieldSelection.Unused)
    decoder.errorOrNull(_, _)
  }

  override def prettyName: String = "pgoutput_error"

  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression
  ): DecodeError = copy(data, inStream)
}
