package io.sparkpgoutput.changes.rows

/** The types of changes, by the names that Spark and Delta use. They have no name for truncate. */
object ChangeType {
  final val Insert = "insert"
  final val UpdatePreimage = "update_preimage"
  final val UpdatePostimage = "update_postimage"
  final val Delete = "delete"
  final val Truncate = "truncate"
  val all: Seq[String] = Seq(Insert, UpdatePreimage, UpdatePostimage, Delete, Truncate)
}
