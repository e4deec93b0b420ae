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

  /**
   * Generated code passes on the row of the decoder itself, which the next message overwrites. Spark does
   * the same with strings that point into an input row: code that keeps a value copies it (see
   * `CodeGenerator.setColumn`).
   */
  override def newReader(): MessageFunction = {
    val decoder = new MessageDecoder(options.encoding, selection, filter)
    decoder.decode(_, _, options.failFast)
  }

  override def prettyName: String =
    if (options.failFast) "pgoutput_decode" else "try_pgoutput_decode"

  override protected def arguments(show: Expression => String): Seq[String] =
    super.arguments(show) ++ Option.when(!isUtf8)(s"encoding ${options.encoding}")

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

/** Reads messages, of which each comes with one of [[StreamContext]]. Generated code calls the method. */
trait MessageFunction {
  def apply(message: Array[Byte], context: Int): AnyRef
}

/**
 * Evaluates a function of a message. The argument `inStream` says whether the message is inside
 * a stream. If it is NULL, the decoder infers it. The result is NULL for a NULL message.
 */
abstract class MessageEvaluator
    extends ReaderExpression[MessageFunction](classOf[MessageFunction])
    with ExpectsInputTypes {

  def data: Expression
  def inStream: Expression

  final override def left: Expression = data
  final override def right: Expression = inStream
  final override def inputTypes: Seq[DataType] = Seq(BinaryType, BooleanType)

  override protected def arguments(show: Expression => String): Seq[String] =
    (data +: givenRight.toSeq).map(show)

  final override def eval(row: InternalRow): Any = {
    val message = data.eval(row)
    if (message == null) null
    else {
      val context = inStream.eval(row) match {
        case known: Boolean => StreamContext.of(known)
        case _              => StreamContext.UNKNOWN
      }
      reader.apply(message.asInstanceOf[Array[Byte]], context) match {
        case row: UnsafeRow => row.copy() // the next message overwrites it
        case other          => other
      }
    }
  }

  final override protected def genCall(
      reader: String,
      message: ExprCode,
      known: ExprCode
  ): String = {
    val context = s"${known.isNull} ? ${StreamContext.UNKNOWN} : " +
      s"${known.value} ? ${StreamContext.INSIDE} : ${StreamContext.OUTSIDE}"
    s"(${CodeGenerator.javaType(dataType)}) $reader.apply(${message.value}, $context)"
  }
}

/**
 * Evaluates a function of SQL with a reader that keeps state from row to row. The result is NULL if the
 * first argument is.
 */
abstract class ReaderExpression[Reader <: AnyRef](readerClass: Class[Reader])
    extends BinaryExpression
    with Serializable {

  /** Makes a reader for one task. Generated code calls this method. */
  def newReader(): Reader

  /** The expression in generated code that calls the reader. The first argument is not NULL there. */
  protected def genCall(reader: String, left: ExprCode, right: ExprCode): String

  /** The arguments of the SQL function that this evaluates, as the user wrote them. */
  protected def arguments(show: Expression => String): Seq[String]

  final override def nullable: Boolean = true

  /**
   * Tells Spark 4.2 and later not to evaluate this expression twice. There is no `override`, because
   * Spark 4.0 lacks the method.
   */
  def expensive: Boolean = true

  final override def sql: String = call(_.sql)
  override def toString: String = call(_.toString)

  private def call(show: Expression => String) =
    arguments(show).mkString(s"$prettyName(", ", ", ")")

  /** The second argument; None if the user left it out. */
  final protected def givenRight: Option[Expression] = Some(right).filter {
    case Literal(null, _) => false
    case _                => true
  }

  /**
   * Each thread has its own reader. Spark's `stateful` makes a copy of the expression for each of
   * Spark's own projections. But other code may share the expression between threads and call
   * `eval`.
   */
  @transient private lazy val readers: ThreadLocal[Reader] =
    ThreadLocal.withInitial(() => newReader())

  final protected def reader: Reader = readers.get

  final override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val expression = ctx.addReferenceObj("expression", this, classOf[ReaderExpression[_]].getName)
    val reader = ctx.addMutableState(
      readerClass.getName,
      "reader",
      name => s"$name = (${readerClass.getName}) $expression.newReader();"
    )
    val first = left.genCode(ctx)
    val second = right.genCode(ctx)
    val resultType = CodeGenerator.javaType(dataType)
    ev.copy(code = code"""
      ${first.code}
      $resultType ${ev.value} = null;
      if (!${first.isNull}) {
        ${second.code}
        ${ev.value} = ${genCall(reader, first, second)};
      }
      boolean ${ev.isNull} = ${ev.value} == null;""")
  }
}
