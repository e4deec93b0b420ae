package io.sparkpgoutput.source.table

/** The columns of a table that a publication sends. */
object SentColumns {
  private val FirstWithColumnLists = 15

  /** From 18 on, publications can send generated columns too. */
  private val FirstWithGeneratedColumns = 18

  /**
   * Returns the condition in SQL that a publication sends a column.
   *
   * @param version the major version of the server
   * @param column the name of a row of `pg_attribute`, which is no system column and not dropped
   * @param table the name of a row of `pg_publication_tables`
   */
  def condition(version: Int, column: String, table: String): String = {
    val ordinary =
      Option.when(version < FirstWithGeneratedColumns)(s"$column.attgenerated = ''")
    val listed =
      Option.when(version >= FirstWithColumnLists)(s"$column.attname = ANY ($table.attnames)")
    (ordinary ++ listed).mkString(" AND ")
  }
}
