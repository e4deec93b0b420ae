package io.sparkpgoutput.changes.rows

/** What a change does: the names are Spark's and Delta's, but for truncate. */
object ChangeType {
  final val Insert = "insert"
  final val UpdatePreimage = "update_preimage"
  final val UpdatePostimage = "update_postimage"
  final val Delete = "delete"
  final val Truncate = "truncate"
  val all: Seq[String] = Seq(Insert, UpdatePreimage, UpdatePostimage, Delete, Truncate)
}
