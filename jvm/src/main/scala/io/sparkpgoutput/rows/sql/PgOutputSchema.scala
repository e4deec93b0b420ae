package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.options.RowOptions
import io.sparkpgoutput.protocol.RelationSchema
import io.sparkpgoutput.rows.TableSchema
import io.sparkpgoutput.sql.ConstantArgument

@ExpressionDescription(
  usage =
    """
    _FUNC_(relation[, options]) - Returns the Spark schema of a table as DDL, for people to read and
      for pgoutput_row. The comment of each column names its type in PostgreSQL.
  """,
  arguments =
    """
    Arguments:
      * relation - the field relation of the struct that pgoutput_decode returns for a Relation message.
      * options - a constant map with options of pgoutput_row. Only type.<oid> matters here: it names the
          type behind an oid that PostgreSQL does not fix.
  """,
  examples =
    """
    Examples:
      > SELECT _FUNC_(pgoutput_decode(X'520000404A7075626C6963006F7264657273006400020169640000000014FFFFFFFF00616D6F756E7400000006A4000C0006').relation);
       id BIGINT COMMENT 'int8', amount DECIMAL(12,2) COMMENT 'numeric(12,2)'
  """,
  since = "0.1.0",
  group = "struct_funcs"
)
case class PgOutputSchema(relation: Expression, options: Expression) extends BinaryExpression {
  import PgOutputSchema._

  def this(relation: Expression) = this(relation, Literal(null))

  override def prettyName: String = "pgoutput_schema"
  override def left: Expression = relation
  override def right: Expression = options
  override def nullable: Boolean = true
  override def dataType: DataType = StringType

  override def checkInputDataTypes(): TypeCheckResult =
    if (!isRelation(relation.dataType)) {
      TypeCheckFailure(
        "the first argument must be the field relation of pgoutput_decode's struct, and not " +
          relation.dataType.sql
      )
    } else if (!options.foldable) TypeCheckFailure("the options must be constant")
    else if (ConstantArgument.entries(options).isEmpty) {
      TypeCheckFailure(s"the options must be a map of strings, and not ${options.dataType.sql}")
    } else parsedOptions.fold(TypeCheckFailure, _ => TypeCheckSuccess)

  @transient private lazy val parsedOptions: Either[String, RowOptions] =
    RowOptions.row.parse(ConstantArgument.entries(options).getOrElse(Nil))

  /** Returns the DDL of a relation, or null if it lacks columns. Generated code calls this. */
  def ddl(relation: InternalRow): UTF8String = {
    val parsed =
      parsedOptions.fold(problem => throw new IllegalArgumentException(problem), identity)
    if (!TableSchema.isComplete(relation)) null
    else UTF8String.fromString(TableSchema.ddl(TableSchema.of(relation, parsed.types)))
  }

  /** NULL options count as no options, so this is not null-safe as other binary expressions are. */
  override def eval(row: InternalRow): Any = relation.eval(row) match {
    case found: InternalRow => ddl(found)
    case _                  => null
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val function = ctx.addReferenceObj("function", this, classOf[PgOutputSchema].getName)
    val found = relation.genCode(ctx)
    ev.copy(code = code"""
      ${found.code}
      UTF8String ${ev.value} = ${found.isNull} ? null : $function.ddl((InternalRow) ${found.value});
      boolean ${ev.isNull} = ${ev.value} == null;""")
  }

  override protected def withNewChildrenInternal(
      relation: Expression,
      options: Expression
  ): Expression = copy(relation, options)
}

object PgOutputSchema {
  private def isRelation(dataType: DataType): Boolean =
    dataType == NullType || DataTypeUtils.equalsIgnoreNullability(dataType, RelationSchema.schema)
}
