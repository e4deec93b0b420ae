package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder, MessageFilter}
import io.sparkpgoutput.options.DecodeOptions
import io.sparkpgoutput.protocol.MessageSchema

/**
 * The row of a message: evaluates `pgoutput_decode` and `try_pgoutput_decode`. At first it gives
 * all fields of all messages; the optimizer narrows it to what the query uses.
 *
 * @param selection the fields that rows have
 * @param filter the messages that give a row; the others give NULL
 * @param shared
 *   true if several operators use the row. Then the expression claims that it is not deterministic.
 *   Otherwise Spark 4.0 and 4.1 would copy it into a filter above it, and decode each message
 *   twice.
 */
case class DecodeMessage(
    data: Expression,
    inStream: Expression,
    options: DecodeOptions,
    selection: FieldSelection = FieldSelection.All,
    filter: MessageFilter = MessageFilter.all,
    shared: Boolean = false
) extends MessageEvaluator {

  override lazy val deterministic: Boolean = !shared && children.forall(_.deterministic)

  override def dataType: DataType = selection.prune(MessageSchema.schema)

  /** Returns whether the optimizer has not narrowed this decode. */
  def isWhole: Boolean = selection == FieldSelection.All && filter == MessageFilter.all

  /** Returns whether the decoder copies the text of tuples without a conversion. */
  def isUtf8: Boolean = options.encoding.isUtf8

  override type Decoder = MessageDecoder
  override protected def decoderClass: Class[MessageDecoder] = classOf[MessageDecoder]
  override def newDecoder(): MessageDecoder =
    new MessageDecoder(options.encoding, selection, filter)

  /**
   * Generated code hands on the row of the decoder, which the next message overwrites. Spark does
   * the same with strings that point into an input row: code that keeps a value copies it (see
   * `CodeGenerator.setColumn`).
   */
  override protected def method: String = if (options.failFast) "decode" else "decodeOrNull"

  /** Interpreted evaluation is slow anyway, so it copies the row. */
  override protected def apply(decoder: MessageDecoder, message: Array[Byte], context: Int): Any = {
    val row =
      if (options.failFast) decoder.decode(message, context)
      else decoder.decodeOrNull(message, context)
    if (row == null) null else row.copy()
  }

  override def prettyName: String =
    if (options.failFast) "pgoutput_decode" else "try_pgoutput_decode"

  override protected def call(show: Expression => String): String = {
    val encoding = Option.when(!isUtf8)(s"encoding ${options.encoding}")
    (arguments.map(show) ++ encoding).mkString(s"$prettyName(", ", ", ")")
  }

  /** For example `pgoutput_decode(data#1)[type, new.text] of INSERT, UPDATE`. */
  override def toString: String = {
    val fields =
      if (selection == FieldSelection.All) ""
      else selection.paths(MessageSchema.schema).mkString("[", ", ", "]")
    val types = filter.types.map(_.toSeq.sorted.mkString(" of ", ", ", ""))
    val relations = filter.relationIds.map(_.toSeq.sorted.mkString(" with relation_id ", ", ", ""))
    super.toString + fields + types.mkString + relations.mkString
  }

  override protected def withNewChildrenInternal(
      data: Expression,
      inStream: Expression
  ): DecodeMessage =
    copy(data, inStream)
}
