package io.sparkpgoutput.lake.table

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.LakeException

/** The errors of the tables of the server. */
object TableError {
  final val Changed = "PGOUTPUT_TABLE_CHANGED"
  final val NotReady = "PGOUTPUT_SOURCE_NOT_READY"

  /** @param problems what is missing, each a whole text with the statement that mends it */
  def notReady(problems: Seq[String]): LakeException = new LakeException(
    NotReady,
    "55000",
    problems match {
      case Seq(one) => s"The tables of the server cannot be kept equal yet: $one"
      case several =>
        val listed = several.zipWithIndex.map { case (text, index) => s"(${index + 1}) $text" }
        s"The tables of the server cannot be kept equal yet, for ${several.length} reasons: " +
          listed.mkString(" ")
    }
  )

  /** @param reason what happened to the table, a sentence */
  def changed(table: TableName, reason: String): LakeException = new LakeException(
    Changed,
    "55000",
    s"The table $table has changed in a way that its changes do not tell: $reason Run " +
      s"spark-pgoutput resync --table $table."
  )

  def notPublished(table: TableName): LakeException = new LakeException(
    Changed,
    "55000",
    s"The publications do not send the table $table any more. The target keeps its rows. To go on with the " +
      "table, add it to a publication of the job again."
  )
}
