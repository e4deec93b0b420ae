package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.types.{DataType, LongType, StringType}
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.protocol.Lsn

@ExpressionDescription(
  usage = "_FUNC_(lsn) - Returns the text of an LSN as PostgreSQL's type pg_lsn shows it.",
  arguments = """
    Arguments:
      * lsn - BIGINT: the 64 bits of the LSN; a negative value is one of the upper half.
  """,
  examples = """
    Examples:
      > SELECT _FUNC_(97500059720);
       16/B374D848
      > SELECT _FUNC_(-1);
       FFFFFFFF/FFFFFFFF
  """,
  since = "0.1.0",
  group = "conversion_funcs"
)
case class PgLsnFormat(child: Expression) extends UnaryExpression with ImplicitCastInputTypes {
  override def prettyName: String = "pg_lsn_format"
  override def inputTypes: Seq[DataType] = Seq(LongType)
  override def dataType: DataType = StringType

  override protected def nullSafeEval(lsn: Any): Any =
    UTF8String.fromString(Lsn.format(lsn.asInstanceOf[Long]))

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    defineCodeGen(
      ctx,
      ev,
      lsn => s"UTF8String.fromString(${Lsn.getClass.getName.stripSuffix("$")}.format($lsn))"
    )

  override protected def withNewChildInternal(newChild: Expression): Expression = copy(newChild)
}
