package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.{Expression, UnaryExpression}
import org.apache.spark.sql.types._

/** A column that a table function reads. It passes the values through, and checks their type. */
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

  /** The column of the messages. */
  case object Data
      extends Purpose(
        "the column of the messages must be BINARY (use unhex for hexadecimal text, and a cast for a " +
          "STRING that holds bytes); the option 'data' names another column"
      ) {
    override def takes(dataType: DataType): Boolean = dataType == BinaryType
  }

  /** The column that orders the messages. */
  case object Order
      extends Purpose(
        "the column that orders the messages must be a BIGINT, such as an offset or a row number"
      ) {
    override def takes(dataType: DataType): Boolean = dataType match {
      case ByteType | ShortType | IntegerType | LongType => true
      case _                                             => false
    }
  }

  /** The column that tells the sources apart. */
  case object Source
      extends Purpose(
        "the column of sources must be a STRING, a whole number or another type whose values are " +
          "compared exactly"
      ) {
    override def takes(dataType: DataType): Boolean = dataType match {
      case ByteType | ShortType | IntegerType | LongType | BooleanType => true
      case DateType | TimestampType | TimestampNTZType                 => true
      case _: DecimalType                                              => true
      // In another collation, Spark takes different strings for equal, but this code does not.
      case text: StringType => text == StringType
      case _                => false
    }
  }
}
