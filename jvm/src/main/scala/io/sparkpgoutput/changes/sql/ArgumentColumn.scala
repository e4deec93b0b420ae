package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.types._

/** A column that a table function reads, as it is; refused where its type is another. */
case class ArgumentColumn(child: Expression, purpose: ArgumentColumn.Purpose)
    extends UnaryExpression {
  override def dataType: DataType = child.dataType
  override def nullable: Boolean = child.nullable
  override def prettyName: String = "column"

  override def checkInputDataTypes(): TypeCheckResult =
    if (purpose.takes(dataType)) TypeCheckSuccess
    else TypeCheckFailure(s"${purpose.hint}, and not ${dataType.sql}")

  override def eval(row: InternalRow): Any = child.eval(row)
  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = child.genCode(ctx)
  override protected def withNewChildInternal(child: Expression): Expression = copy(child = child)
}

object ArgumentColumn {
  sealed abstract class Purpose(val hint: String) {
    def takes(dataType: DataType): Boolean
  }

  /** The messages. */
  case object Data
      extends Purpose(
        "the column of the messages must be BINARY (of hexadecimal text unhex makes that, a STRING " +
          "that holds bytes is to be cast); the option 'data' names another"
      ) {
    override def takes(dataType: DataType): Boolean = dataType == BinaryType
  }

  /** What orders them. */
  case object Order
      extends Purpose(
        "the column that orders the messages must be a BIGINT, such as an offset or a row number"
      ) {
    override def takes(dataType: DataType): Boolean = dataType match {
      case ByteType | ShortType | IntegerType | LongType => true
      case _                                             => false
    }
  }

  /** What tells streams apart. */
  case object Source
      extends Purpose(
        "the column of sources must be a STRING, a whole number or another type whose values are " +
          "compared exactly"
      ) {
    override def takes(dataType: DataType): Boolean = dataType match {
      case ByteType | ShortType | IntegerType | LongType | BooleanType => true
      case DateType | TimestampType | TimestampNTZType                 => true
      case _: DecimalType                                              => true
      // Of another collation strings may be equal that are not the same: to Spark, not to us.
      case text: StringType => text == StringType
      case _                => false
    }
  }
}
