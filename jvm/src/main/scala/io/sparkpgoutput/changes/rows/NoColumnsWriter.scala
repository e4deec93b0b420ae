package io.sparkpgoutput.changes.rows

/** Writes no columns. It only finds out which columns are missing. */
final private class NoColumnsWriter(relation: Relation) extends TableWriter(relation) {
  override def writeNulls(): Unit = ()
  override protected def begin(): Unit = ()
  override protected def write(column: Int, kind: Int, tuple: RowImage, position: Long): Unit =
    ()
  override protected def writeMissing(column: Int): Unit = ()
  override protected def end(position: Long): Unit = ()
}
