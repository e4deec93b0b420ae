package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Generate, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.SQLConf.{STATE_STORE_PROVIDER_CLASS => ProviderClass}
import org.apache.spark.sql.pgoutput.PlannedRows

import io.sparkpgoutput.changes.streaming.{CommittedMessage, InitialState, TransactionProcessor}
import io.sparkpgoutput.changes.transactions.OpenTransactionSchema
import io.sparkpgoutput.changes.{MessageColumns, TableName, TablePattern}
import io.sparkpgoutput.sql.{CallArguments, FunctionDescription}

/** The table functions. Their arguments are the name of a view and of its column with the order. */
object TableFunctions {
  type TableFunction = (FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan)

  val all: Seq[TableFunction] = Seq(
    function("pgoutput_changes", FunctionDescriptions.changes, changes),
    function("pgoutput_open", FunctionDescriptions.open, open),
    function("pgoutput_tables", FunctionDescriptions.tables, tables)
  )

  /** Spark's state store providers. The default provider does not support transformWithState. */
  final private val HdfsProvider =
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
  final private val RocksDbProvider =
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  private def function(
      name: String,
      description: FunctionDescription,
      build: Arguments => LogicalPlan
  ): TableFunction = (
    FunctionIdentifier(name),
    description.info(name, getClass.getName.stripSuffix("$")),
    arguments => {
      CallArguments.checkPositional(name, arguments)
      build(Arguments.of(name, arguments))
    }
  )

  private def changes(arguments: Arguments): LogicalPlan = {
    import arguments._
    val format = options.format(SQLConf.get)
    val columns = toAttributes(format.rowType)
    val isStream = PlannedRows.isStream(messages)
    val children = if (isStream) Seq(committedMessages(arguments)) else inputs
    TableChanges(children, options, format, columns, sourceId, isStream)
  }

  /** The messages of committed transactions in a stream. */
  private def committedMessages(arguments: Arguments): LogicalPlan = {
    import arguments._
    if (SQLConf.get.stateStoreProviderClass == HdfsProvider) {
      throw refused(
        "The function keeps the open transactions of a stream in RocksDB. Set " +
          s"${ProviderClass.key} to $RocksDbProvider."
      )
    }
    val messages = PlannedRows.analyzed(keyedInputs.head)
    PlannedRows.processed(
      OrderedMessages(messages),
      MessageColumns.names(MessageColumns.Source),
      new TransactionProcessor(options.assembler, options.abandoned),
      keyedInputs.lift(1).map { relations =>
        PlannedRows.query(Seq(relations)) { messages =>
          InitialState.of(messages.head, options.assembler.encoding)
        }
      },
      CommittedMessage.withSource(messages.output(MessageColumns.Source).dataType)
    )
  }

  private def open(arguments: Arguments): LogicalPlan = {
    import arguments._
    if (PlannedRows.isStream(messages)) {
      throw refused(
        "The function lists the transactions that are open at the end of the messages, but a stream " +
          "has no end."
      )
    }
    OpenTransactions(inputs, options, toAttributes(OpenTransactionSchema.schema), sourceId)
  }

  private def tables(arguments: Arguments): LogicalPlan = {
    import arguments._
    if (PlannedRows.isStream(messages)) {
      throw refused("The function searches all messages for tables, but a stream has no end.")
    }
    val definitions = PlannedRows.query(inputs)(TableSchemas.definitions(_, options))
    val named = for {
      TablePattern(namespace, Some(name)) <- options.tables.getOrElse(Nil)
    } yield TableName(namespace, name)
    val found = TableSchemas(
      definitions.output.head,
      named,
      options.row.types,
      SQLConf.get.caseSensitiveAnalysis
    )
    val columns = toAttributes(TableSchemas.schema)
    Project(columns, Generate(Inline(found), Nil, outer = false, None, columns, definitions))
  }
}
