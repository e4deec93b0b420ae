package io.sparkpgoutput.lake.table

import io.sparkpgoutput.changes.TableName

/** Names in SQL that runs on the server. They are always quoted, because a name can be a key word. */
object QuotedName {
  def apply(name: String): String = s"\"${name.replace("\"", "\"\"")}\""

  def apply(table: TableName): String = s"${apply(table.namespace)}.${apply(table.name)}"
}
