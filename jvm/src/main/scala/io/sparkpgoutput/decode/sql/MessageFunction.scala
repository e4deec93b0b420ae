package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{
  DataTypeMismatch,
  TypeCheckFailure,
  TypeCheckSuccess
}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.util.MapData
import org.apache.spark.sql.types._

import io.sparkpgoutput.options.{DecodeOptions, FunctionOptions, OptionList, ShownCall}
import io.sparkpgoutput.protocol.StreamContext

/**
 * A function of a message, of whether it stands inside a stream, and of options: what
 * `pgoutput_decode`, `try_pgoutput_decode` and `pgoutput_error` have in common.
 *
 * NULL for a NULL message only: a NULL `in_stream` means that it is to be found out.
 */
abstract class MessageFunction extends TernaryExpression with ExpectsInputTypes {
  import FunctionOptions._
  import MessageFunction._

  def data: Expression
  def inStream: Expression
  def options: Expression

  /** What reads messages. */
  type Decoder <: AnyRef
  protected def decoderClass: Class[_ <: AnyRef]

  /** A decoder for one task; generated code calls it. */
  def newDecoder(): Decoder

  /** What the generated code calls on a decoder: takes the bytes and the context. */
  protected def method: String

  /** The same, interpreted. */
  protected def apply(decoder: Decoder, message: Array[Byte], context: Int): Any

  /** The options that it has. */
  protected def optionList: OptionList[DecodeOptions] = DecodeOptions.decode

  final override def first: Expression = data
  final override def second: Expression = inStream
  final override def third: Expression = options
  final override def nullable: Boolean = true
  final override def inputTypes: Seq[DataType] = Seq(BinaryType, BooleanType, OptionsType)

  /** Not evaluated twice where Spark 4.2 and later can avoid it (no `override`: 4.0 has it not). */
  def expensive: Boolean = true

  final override def sql: String = call(_.sql)
  override def toString: String = call(_.toString)

  private def call(show: Expression => String): String =
    ShownCall.of(prettyName, Seq(data), Seq(inStream, options))(show)

  final override def checkInputDataTypes(): TypeCheckResult =
    if (data.dataType.isInstanceOf[StringType]) TypeCheckFailure(StringHint)
    else if (!options.foldable) {
      DataTypeMismatch(
        "NON_FOLDABLE_INPUT",
        Map(
          "inputName" -> "`options`",
          "inputType" -> s"\"${OptionsType.sql}\"",
          "inputExpr" -> s"\"${options.sql}\""
        )
      )
    } else if (!isOptions(options.dataType)) {
      ExpectsInputTypes.checkInputDataTypes(children, inputTypes)
    } else {
      ExpectsInputTypes.checkInputDataTypes(children.take(2), inputTypes.take(2)) match {
        case TypeCheckSuccess => parsedOptions.fold(TypeCheckFailure, _ => TypeCheckSuccess)
        case failure          => failure
      }
    }

  @transient private lazy val parsedOptions: Either[String, DecodeOptions] =
    optionList.parse(entries(options.eval().asInstanceOf[MapData]))

  /** The options, which the analysis has checked. */
  protected def decodeOptions: DecodeOptions =
    parsedOptions.fold(problem => throw new IllegalArgumentException(problem), identity)

  /** One a thread, for nothing keeps Spark from sharing an interpreted expression. */
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
      apply(decoders.get, message.asInstanceOf[Array[Byte]], context)
    }
  }

  final override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val function = ctx.addReferenceObj("function", this, classOf[MessageFunction].getName)
    val decoder = ctx.addMutableState(
      decoderClass.getName,
      "decoder",
      name => s"$name = (${decoderClass.getName}) $function.newDecoder();"
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

object MessageFunction {
  private val StringHint = "the message must be BINARY, as pgoutput wrote it, and not STRING: " +
    "for hexadecimal text use unhex(…), for bytes that were taken for text CAST(… AS BINARY)"

  /** What stands for an argument that is not shown. */
  val unknownContext: Literal = Literal.create(null, BooleanType)
  val noOptions: Literal = Literal.create(null, FunctionOptions.OptionsType)
}
