package io.sparkpgoutput.tablefunctions

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.OpenTransactionSchema

/** The table functions: of the names of a view of messages and of the column that orders them. */
object TableFunctions {
  type TableFunction = (FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan)

  val all: Seq[TableFunction] = Seq(
    function(FunctionDescriptions.changes, changes),
    function(FunctionDescriptions.open, open)
  )

  private def function(info: ExpressionInfo, build: Arguments => LogicalPlan): TableFunction = (
    FunctionIdentifier(info.getName),
    info,
    arguments => build(Arguments.of(info.getName, arguments))
  )

  private def changes(arguments: Arguments): LogicalPlan = {
    import arguments._
    val format = options.format(SQLConf.get)
    TableChanges(inputs, options, format, attributes(format.rowType), sourceId)
  }

  private def open(arguments: Arguments): LogicalPlan = {
    import arguments._
    OpenTransactions(inputs, options, attributes(OpenTransactionSchema.schema), sourceId)
  }

  private def attributes(schema: StructType): Seq[Attribute] = schema.map { field =>
    AttributeReference(field.name, field.dataType, field.nullable, field.metadata)()
  }
}
