package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.{DataType, LongType, StringType}
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.errors.InvalidLsnException
import io.sparkpgoutput.protocol.Lsn

/** A function of an LSN's text: what `pg_lsn_parse` and `try_pg_lsn_parse` have in common. */
abstract class LsnText extends UnaryExpression with ImplicitCastInputTypes {
  final override def inputTypes: Seq[DataType] = Seq(StringType)
  final override def dataType: DataType = LongType
  final override def nullable: Boolean = true

  /** The LSN; null for NULL. Generated code calls it. */
  def parse(text: UTF8String): java.lang.Long

  final override protected def nullSafeEval(text: Any): Any = parse(text.asInstanceOf[UTF8String])

  final override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val function = ctx.addReferenceObj("function", this, classOf[LsnText].getName)
    val parsed = ctx.freshName("parsed")
    nullSafeCodeGen(
      ctx,
      ev,
      text => s"""
        java.lang.Long $parsed = $function.parse($text);
        if ($parsed == null) ${ev.isNull} = true; else ${ev.value} = $parsed;"""
    )
  }
}

@ExpressionDescription(
  usage = """
    _FUNC_(text) - Returns the 64 bits of an LSN from its text; a text that is none is an error.
  """,
  arguments =
    """
    Arguments:
      * text - STRING: two hexadecimal numbers of 1 to 8 digits, padded or not, with a slash between.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_('16/B374D848');
       97500059720
      > SELECT _FUNC_('16/0000001a') = _FUNC_('16/1A');
       true
  """,
  note = """
    Compare LSNs as numbers, never as text: PostgreSQL 19 pads the text with zeros, others do not.
  """,
  since = "0.1.0",
  group = "conversion_funcs"
)
case class PgLsnParse(child: Expression) extends LsnText {
  override def prettyName: String = "pg_lsn_parse"

  override def parse(text: UTF8String): java.lang.Long = Lsn
    .parse(text.toString)
    .getOrElse(throw new InvalidLsnException(
      s"'$text' is not an LSN such as 16/B374D848; try_pg_lsn_parse gives NULL instead."
    ))

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(newChild)
}

@ExpressionDescription(
  usage = """
    _FUNC_(text) - Returns the 64 bits of an LSN from its text, or NULL for a text that is none.
  """,
  arguments =
    """
    Arguments:
      * text - STRING: two hexadecimal numbers of 1 to 8 digits, padded or not, with a slash between.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_('0/1A');
       26
      > SELECT _FUNC_('1A');
       NULL
  """,
  since = "0.1.0",
  group = "conversion_funcs"
)
case class TryPgLsnParse(child: Expression) extends LsnText {
  override def prettyName: String = "try_pg_lsn_parse"

  override def parse(text: UTF8String): java.lang.Long =
    Lsn.parse(text.toString).map(Long.box).orNull

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(newChild)
}
