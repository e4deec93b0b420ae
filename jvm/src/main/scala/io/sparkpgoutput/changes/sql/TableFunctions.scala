package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{Generate, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pgoutput.PlannedRows
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes.streaming.{CommittedMessage, InitialState, TransactionProcessor}
import io.sparkpgoutput.changes.transactions.OpenTransactionSchema
import io.sparkpgoutput.changes.{MessageColumns, TableName, TablePattern}
import io.sparkpgoutput.sql.{CallArguments, ConstantArgument, FunctionDescription}

/** The table functions. Their arguments are the name of a view and of its column with the order. */
object TableFunctions {
  type TableFunction = (FunctionIdentifier, ExpressionInfo, Seq[Expression] => LogicalPlan)

  /** The text of the arguments in DESCRIBE FUNCTION EXTENDED. */
  private val ArgumentTexts = Seq(
    "messages - the name of a table or view. Each row has one message of a replication slot.",
    """order - the name of the column that orders the messages: a whole number that is unique within a
      |      source, such as an offset or a row number. An LSN cannot be the order, because LSNs repeat.""",
    s"options - a constant map of options:\n${ChangesOptions.list.describe}"
  )

  val all: Seq[TableFunction] = Seq(
    function(
      "pgoutput_changes",
      usage =
        """(messages, order[, options]) - Returns the committed changes of tables, one in each row: the
          |  table's columns, then _table, _change_type, _commit_version, _commit_timestamp, _xid, _gid,
          |  _origin, _ordinal, _position, _keys, _missing and, with the option source, _source.""",
      messages =
        "(1, X'420000000001A761C0000303B09721E12200000316'), (2, X'520000404A7075626C6963006F726465727300640001016964000000001400000000'), (3, X'490000404A4E000174000000023432'), (4, X'43000000000001A761C00000000001A76200000303B09721E122')",
      examples = Seq(
        "row, _table, _change_type, _xid FROM _FUNC_('messages', 'seq')" ->
          Seq("{\"id\":\"42\"}\tpublic.orders\tinsert\t790"),
        "id, _commit_version, _ordinal, _keys FROM _FUNC_('messages', 'seq', map('schema', 'id BIGINT'))" ->
          Seq("42\t27746752\t1\t[\"id\"]")
      ),
      note =
        """The rows are in no order. ORDER BY _commit_version, _ordinal is the order of the changes. The
          |function reads the messages twice. If a second read could return others, write or persist them first."""
    )(changes),
    function(
      "pgoutput_open",
      usage =
        """(messages, order[, options]) - Returns the transactions that are still open at the end of the
          |  messages, one in each row. The columns are _xid, _gid, state (begun, streaming or prepared),
          |  first_position and changes. With the option source, the first column is _source.""",
      messages = "(7, X'420000000001A761C0000303B09721E12200000316')",
      examples = Seq(
        "* FROM _FUNC_('messages', 'seq')" -> Seq("790\tNULL\tbegun\t7\t0")
      ),
      note =
        """If the positions go on from read to read, the next read begins at the least first_position, or after
          |the last message if no transaction is open. If you peek a slot again, take all of the new read."""
    )(open),
    function(
      "pgoutput_tables",
      usage =
        """(messages, order[, options]) - Returns the tables that the messages define, one in each row. The
          |  column _table has the name of the table, and the column schema has its last schema as DDL. The
          |  column merged_schema has the schema of all columns that the table had in these messages, with
          |  types that take all their values.""",
      messages = "(2, X'520000404A7075626C6963006F726465727300640001016964000000001400000000')",
      examples = Seq(
        "* FROM _FUNC_('messages', 'seq')" ->
          Seq("public.orders\tid BIGINT COMMENT 'int8'\tid BIGINT COMMENT 'int8'")
      ),
      note =
        """Both schemas are valid for the option schema of pgoutput_changes. If the option tables names a table
          |that the messages do not define, its schemas are NULL.""",
      since = "0.2.0"
    )(tables)
  )

  /** Spark's state store providers. The default provider does not support transformWithState. */
  final private val HdfsProvider =
    "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
  final private val RocksDbProvider =
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

  private def function(
      name: String,
      usage: String,
      messages: String,
      examples: Seq[(String, Seq[String])],
      note: String,
      since: String = "0.1.0"
  )(build: Arguments => LogicalPlan): TableFunction = {
    val description = FunctionDescription(
      usage,
      ArgumentTexts,
      examples,
      note,
      group = "table_funcs",
      before = "CREATE OR REPLACE TEMPORARY VIEW messages AS SELECT * FROM VALUES " +
        s"$messages AS (seq, data)",
      since = since
    )
    (
      FunctionIdentifier(name),
      description.info(name, getClass.getName.stripSuffix("$")),
      arguments => build(new Arguments(CallArguments(name, arguments)))
    )
  }

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
      throw call.refused(
        "The function keeps the open transactions of a stream in RocksDB. Set " +
          s"${SQLConf.STATE_STORE_PROVIDER_CLASS.key} to $RocksDbProvider."
      )
    }
    val inputs = MessagesOperator.withSameSources(keyedInputs.map(PlannedRows.analyzed))
    val sourceType = inputs.head.output(MessageColumns.Source).dataType
    val abandoned = AbandonedXids(options.abandoned, sourceType, SQLConf.get.sessionLocalTimeZone)
    PlannedRows.processed(
      OrderedMessages(inputs.head),
      MessageColumns.names(MessageColumns.Source),
      new TransactionProcessor(options.assembler, abandoned),
      inputs.lift(1).map { relations =>
        PlannedRows.query(Seq(relations)) { messages =>
          InitialState.of(messages.head, options.assembler.encoding)
        }
      },
      CommittedMessage.withSource(sourceType)
    )
  }

  private def open(arguments: Arguments): LogicalPlan = {
    import arguments._
    refuseStream(
      "The function lists the transactions that are open at the end of the messages, but a stream " +
        "has no end."
    )
    OpenTransactions(inputs, options, toAttributes(OpenTransactionSchema.schema), sourceId)
  }

  private def tables(arguments: Arguments): LogicalPlan = {
    import arguments._
    refuseStream("The function searches all messages for tables, but a stream has no end.")
    val definitions = PlannedRows.query(keyedInputs)(TableSchemas.definitions(_, options))
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

/** The arguments of a call of a table function. */
final class Arguments(val call: CallArguments) {
  import call.{arguments, refused}

  call.checkPositional()
  if (arguments.length < 2 || arguments.length > 3) throw unusable

  val options: ChangesOptions = {
    val entries = arguments.lift(2).map(ConstantArgument.entries(_).getOrElse(throw unusable))
    ChangesOptions.parse(entries.getOrElse(Nil)).fold(problem => throw refused(problem), identity)
  }

  /** The name of the view with the messages. */
  val messages: String = text(arguments.head)

  /** The name of the column that orders them. */
  private val order = text(arguments(1))

  private def text(argument: Expression) = ConstantArgument.value(argument) match {
    case Some(text: UTF8String) => text.toString
    case _                      => throw unusable
  }

  private def unusable = refused(
    "The arguments must be the name of a table or view, the name of the column that orders its " +
      "messages, and optionally a constant map of options."
  )

  if (options.relations.exists(PlannedRows.isStream)) {
    throw refused(
      "The option 'relations' names a stream. It must be a table or view of earlier messages that is " +
        "not a stream."
    )
  }

  /** Throws an error with this problem if the messages are a stream. */
  def refuseStream(problem: String): Unit =
    if (PlannedRows.isStream(messages)) throw refused(problem)

  /** The messages and, if there are any, the earlier ones, with the columns of [[MessageColumns]]. */
  def inputs: Seq[LogicalPlan] = inputsOf(onlySource = None)

  /** The inputs with a column of sources. It has one value if there is only one source. */
  def keyedInputs: Seq[LogicalPlan] = inputsOf(onlySource = Some(Literal(0)))

  private def inputsOf(onlySource: Option[Expression]): Seq[LogicalPlan] =
    (messages +: options.relations.toSeq).map { view =>
      val rows = new UnresolvedRelation(CatalystSqlParser.parseMultipartIdentifier(view))
      val position = Cast(column(order, ArgumentColumn.Order), LongType)
      val message = column(options.data, ArgumentColumn.Data)
      val source = options.source.map(column(_, ArgumentColumn.Source)).orElse(onlySource)
      val named = (Seq(position, message) ++ source).zip(MessageColumns.names)
      Project(named.map { case (column, name) => Alias(column, name)() }, rows)
    }

  private def column(name: String, purpose: ArgumentColumn.Purpose) =
    ArgumentColumn(UnresolvedAttribute.quotedString(name), purpose)

  /** The id of the column `_source`. */
  def sourceId: Option[ExprId] = options.source.map(_ => NamedExpression.newExprId)
}

/** A column that a table function reads. It passes the values through, and checks their type. */
case class ArgumentColumn(child: Expression, purpose: ArgumentColumn.Purpose)
    extends TaggingExpression {
  override def prettyName: String = "column"
  override def toString: String = s"$prettyName($child)"

  override def checkInputDataTypes(): TypeCheckResult =
    if (purpose.takes(dataType)) TypeCheckSuccess
    else TypeCheckFailure(s"${purpose.hint}, and not ${dataType.sql}")

  override protected def withNewChildInternal(child: Expression): Expression = copy(child = child)
}

object ArgumentColumn {

  /**
   * What a column is read for.
   *
   * @param hint says which types it can have
   */
  final case class Purpose(hint: String)(val takes: DataType => Boolean)

  /** The column of the messages. */
  val Data: Purpose = Purpose(
    "the column of the messages must be BINARY (use unhex for hexadecimal text, and a cast for a " +
      "STRING that holds bytes); the option 'data' names another column"
  )(_ == BinaryType)

  /** The column that orders the messages. */
  val Order: Purpose = Purpose(
    "the column that orders the messages must be a BIGINT, such as an offset or a row number"
  ) {
    case ByteType | ShortType | IntegerType | LongType => true
    case _                                             => false
  }

  /** The column that says which source a message comes from. */
  val Source: Purpose = Purpose(
    "the column of sources must be a STRING, a whole number or another type whose values are " +
      "compared exactly"
  ) {
    case ByteType | ShortType | IntegerType | LongType | BooleanType => true
    case DateType | TimestampType | TimestampNTZType                 => true
    case _: DecimalType                                              => true
    // In another collation, Spark takes different strings for equal, but this code does not.
    case text: StringType => text == StringType
    case _                => false
  }
}
