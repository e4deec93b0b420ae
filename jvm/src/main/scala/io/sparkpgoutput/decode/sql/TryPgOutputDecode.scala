package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionDescription}

import io.sparkpgoutput.options.{DecodeOptions, OptionList}

@ExpressionDescription(
  usage = """
    _FUNC_(data[, in_stream[, options]]) - Decodes a message of PostgreSQL's logical replication as
      pgoutput_decode does, but gives NULL for a malformed message.
  """,
  arguments =
    """
    Arguments:
      * data - BINARY: one message as pgoutput wrote it.
      * in_stream - BOOLEAN: whether the message stands between Stream Start and Stream Stop; NULL or
          left out: found out from the message.
      * options - a constant map:
          mode - PERMISSIVE, the only one.
          encoding - the server's client_encoding when the messages were written.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_(X'45').type;
       STREAM_STOP
      > SELECT _FUNC_(X'4500');
       NULL
  """,
  since = "0.1.0",
  group = "misc_funcs"
)
case class TryPgOutputDecode(data: Expression, inStream: Expression, options: Expression)
    extends DecodeFunction {

  def this(data: Expression, inStream: Expression) =
    this(data, inStream, MessageFunction.noOptions)
  def this(data: Expression) = this(data, MessageFunction.unknownContext)

  override def prettyName: String = "try_pgoutput_decode"
  override def failFast: Boolean = false

  override protected def optionList: OptionList[DecodeOptions] = DecodeOptions.tryDecode
  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression,
      options: Expression
  ): Expression = copy(data, inStream, options)
}
