package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types._

import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder, MessageFilter}
import io.sparkpgoutput.options.DecodeOptions
import io.sparkpgoutput.protocol.{MessageSchema, StreamContext}

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
   * Generated code passes on the row of the decoder itself, which the next message overwrites. Spark does
   * the same with strings that point into an input row: code that keeps a value copies it (see
   * `CodeGenerator.setColumn`).
   */
  override protected def method: String = if (options.failFast) "decode" else "decodeOrNull"

  override protected def apply(decoder: MessageDecoder, message: Array[Byte], context: Int): Any =
    if (options.failFast) decoder.decode(message, context)
    else decoder.decodeOrNull(message, context)

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

/**
 * Evaluates a function of a message. The argument `inStream` says whether the message is inside
 * a stream. If it is NULL, the decoder infers it. The result is NULL for a NULL message.
 */
abstract class MessageEvaluator extends BinaryExpression with ExpectsInputTypes {

  def data: Expression
  def inStream: Expression

  /** The class that reads messages. */
  type Decoder <: AnyRef
  protected def decoderClass: Class[_ <: AnyRef]

  /** Makes a decoder for one task. Generated code calls this method. */
  def newDecoder(): Decoder

  /** The method of a decoder that generated code calls, with the bytes and the context. */
  protected def method: String

  /** Calls that method, for interpreted evaluation. */
  protected def apply(decoder: Decoder, message: Array[Byte], context: Int): Any

  final override def left: Expression = data
  final override def right: Expression = inStream
  final override def nullable: Boolean = true
  final override def inputTypes: Seq[DataType] = Seq(BinaryType, BooleanType)

  /**
   * Tells Spark 4.2 and later not to evaluate this expression twice. There is no `override`, because
   * Spark 4.0 lacks the method.
   */
  def expensive: Boolean = true

  final override def sql: String = call(_.sql)
  override def toString: String = call(_.toString)

  /** The call of the SQL function that this evaluates. */
  protected def call(show: Expression => String): String

  /** The arguments as the user wrote them, without an `in_stream` that is not known. */
  final protected def arguments: Seq[Expression] = data +: Seq(inStream).filter {
    case Literal(null, _) => false
    case _                => true
  }

  /**
   * Each thread has its own decoder. Spark's `stateful` makes a copy of the expression for each of
   * Spark's own projections. But other code may share the expression between threads and call
   * `eval`.
   */
  @transient private lazy val decoders: ThreadLocal[Decoder] =
    ThreadLocal.withInitial(() => newDecoder())

  final override def eval(row: InternalRow): Any = {
    val message = data.eval(row)
    if (message == null) null
    else {
      val context = inStream.eval(row) match {
        case known: Boolean => StreamContext.of(known)
        case _              => StreamContext.UNKNOWN
      }
      apply(decoders.get, message.asInstanceOf[Array[Byte]], context) match {
        case row: UnsafeRow => row.copy() // the next message overwrites it
        case other          => other
      }
    }
  }

  final override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val evaluator = ctx.addReferenceObj("evaluator", this, classOf[MessageEvaluator].getName)
    val decoder = ctx.addMutableState(
      decoderClass.getName,
      "decoder",
      name => s"$name = (${decoderClass.getName}) $evaluator.newDecoder();"
    )
    val message = data.genCode(ctx)
    val known = inStream.genCode(ctx)
    val resultType = CodeGenerator.javaType(dataType)
    val context = s"${known.isNull} ? ${StreamContext.UNKNOWN} : " +
      s"${known.value} ? ${StreamContext.INSIDE} : ${StreamContext.OUTSIDE}"
    ev.copy(code = code"""
      ${message.code}
      $resultType ${ev.value} = null;
      if (!${message.isNull}) {
        ${known.code}
        ${ev.value} = $decoder.$method(${message.value}, $context);
      }
      boolean ${ev.isNull} = ${ev.value} == null;""")
  }
}
