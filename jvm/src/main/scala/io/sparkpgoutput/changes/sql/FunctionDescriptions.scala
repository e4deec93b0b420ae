package io.sparkpgoutput.changes.sql

import io.sparkpgoutput.sql.FunctionDescription

/** The texts that DESCRIBE FUNCTION EXTENDED shows for the table functions. */
object FunctionDescriptions {
  private val arguments = Seq(
    "messages - the name of a table or view. Each row has one message of a replication slot.",
    """order - the name of the column that orders the messages: a whole number that is unique within a
      |      source, such as an offset or a row number. An LSN cannot be the order, because LSNs repeat.""",
    s"options - a constant map of options:\n${ChangesOptions.list.describe}"
  )

  val changes: FunctionDescription = describe(
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
  )

  val open: FunctionDescription = describe(
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
  )

  val tables: FunctionDescription = describe(
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
  )

  private def describe(
      usage: String,
      messages: String,
      examples: Seq[(String, Seq[String])],
      note: String,
      since: String = "0.1.0"
  ) = FunctionDescription(
    usage,
    arguments,
    examples,
    note,
    group = "table_funcs",
    before = "CREATE OR REPLACE TEMPORARY VIEW messages AS SELECT * FROM VALUES " +
      s"$messages AS (seq, data)",
    since = since
  )
}
