package io.sparkpgoutput.lake.verify

/**
 * The difference between the rows of a table and the rows of the server.
 *
 * @param serverRows the number of rows at the server
 * @param targetRows the number of rows in the target
 * @param onlyServer the number of rows whose keys the target lacks
 * @param onlyTarget
 *   the number of rows whose keys the server lacks, and of rows that the target has too often
 * @param different the number of rows that have the same key and other values
 * @param keys the first keys of such rows
 */
final case class TableDifference(
    serverRows: Long,
    targetRows: Long,
    onlyServer: Long,
    onlyTarget: Long,
    different: Long,
    keys: Seq[DifferingKey]
) {
  def isNone: Boolean = onlyServer == 0 && onlyTarget == 0 && different == 0
}

/**
 * The key of a row that differs.
 *
 * @param key the columns of the key as JSON; all columns if the table has no key
 */
final case class DifferingKey(kind: String, key: String)

object DifferingKey {
  val OnlyServer = "only at the server"
  val OnlyTarget = "only in the target"
  val Different = "different"
}
