package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.expressions.ExpressionInfo

/** What DESCRIBE FUNCTION EXTENDED shows of the table functions. */
object FunctionDescriptions {
  private val Messages =
    """
    Arguments:
      * messages - the name of a table or view with one message of a replication slot a row.
      * order - the name of the column that orders the messages, a whole number, unique within a source,
          such as an offset or a row number; LSNs repeat and cannot serve.
      * options - a constant map: data, the column of the messages ('data' by default); source, the
          column that tells the streams of several slots apart; """

  val changes: ExpressionInfo = describe(
    "pgoutput_changes",
    usage =
      """
    _FUNC_(messages, order[, options]) - Returns the committed changes of tables, one row each: of the
      table's columns, then _table, _change_type, _commit_version, _commit_timestamp, _xid, _gid,
      _origin, _ordinal, _position, _keys, _missing and, with the option source, _source.
  """,
    arguments = Messages +
      """tables, whose changes are wanted, such as
          'public.orders, sales.*'; schema, the columns of the one table as DDL; without it row, 'map' (the
          default) or 'variant', what all columns are together; schemaEvolution, what becomes of a column
          that the schema does not take, 'error' (the default) or 'ignore'; after, the greatest
          _commit_version of an earlier read; relations, the name of a view with earlier messages, whose
          tables count; incomplete, what a commit without its beginning is, 'error' (the default) or
          'skip'; abandon, the xids of streamed transactions that will have no end; and all options of
          pgoutput_row.
  """,
    examples =
      """
    Examples:
      > CREATE OR REPLACE TEMPORARY VIEW messages AS SELECT * FROM VALUES (1, X'420000000001A761C0000303B09721E12200000316'), (2, X'520000404A7075626C6963006F726465727300640001016964000000001400000000'), (3, X'490000404A4E000174000000023432'), (4, X'43000000000001A761C00000000001A76200000303B09721E122') AS (seq, data);
      > SELECT row, _table, _change_type, _xid FROM _FUNC_('messages', 'seq');
       {"id":"42"}	public.orders	insert	790
      > SELECT id, _commit_version, _ordinal, _keys FROM _FUNC_('messages', 'seq', map('schema', 'id BIGINT'));
       42	27746752	1	["id"]
  """,
    note =
      """
    The rows have no order: that of the changes is by _commit_version and _ordinal. The messages are read
    twice; write or persist them first where a second time could give others.
  """
  )

  val open: ExpressionInfo = describe(
    "pgoutput_open",
    usage =
      """
    _FUNC_(messages, order[, options]) - Returns the transactions that are open at the end of the
      messages: with the option source _source, then _xid, _gid, state (begun, streaming, prepared),
      first_position and changes, their number so far.
  """,
    arguments = Messages + """and the other options of pgoutput_changes.
  """,
    examples =
      """
    Examples:
      > CREATE OR REPLACE TEMPORARY VIEW messages AS SELECT * FROM VALUES (7, X'420000000001A761C0000303B09721E12200000316') AS (seq, data);
      > SELECT * FROM _FUNC_('messages', 'seq');
       790	NULL	begun	7	0
  """,
    note =
      """
    The next read begins at the least first_position, or behind the last message where nothing is open.
  """
  )

  val tables: ExpressionInfo = describe(
    "pgoutput_tables",
    usage =
      """
    _FUNC_(messages, order[, options]) - Returns the tables that the messages define, one row for each:
      its name as _table; schema, its last schema as DDL; and merged_schema, the schema of all columns
      that it had in these messages, with types that take all their values.
  """,
    arguments =
      Messages + """tables, the tables that you want, such as 'public.orders'; and the other
          options of pgoutput_changes.
  """,
    examples =
      """
    Examples:
      > CREATE OR REPLACE TEMPORARY VIEW messages AS SELECT * FROM VALUES (2, X'520000404A7075626C6963006F726465727300640001016964000000001400000000') AS (seq, data);
      > SELECT * FROM _FUNC_('messages', 'seq');
       public.orders	id BIGINT COMMENT 'int8'	id BIGINT COMMENT 'int8'
  """,
    note =
      """
    Both schemas are valid for the option schema of pgoutput_changes. If the option tables names a table
    that the messages do not define, its schemas are NULL.
  """
  )

  private def describe(
      name: String,
      usage: String,
      arguments: String,
      examples: String,
      note: String
  ): ExpressionInfo = new ExpressionInfo(
    TableFunctions.getClass.getName.stripSuffix("$"),
    null,
    name,
    usage,
    arguments,
    examples,
    note,
    "table_funcs",
    "0.1.0",
    "",
    "built-in"
  )
}
