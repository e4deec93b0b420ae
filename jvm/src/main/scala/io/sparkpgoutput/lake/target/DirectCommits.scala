package io.sparkpgoutput.lake.target

import io.sparkpgoutput.lake.direct._

/**
 * What a target knows of the files of a table between direct commits.
 *
 * @tparam V a version of the table, as its format has it
 */
abstract private[target] class DirectCommits[V](keys: TableKeys) {
  @volatile private var counted = Option.empty[TableFiles]

  /** The number of files when they were all looked at the last time, or less. */
  protected var looked = 0L

  /** The numbers of the files and of their deleted rows; None before they are known. */
  def tableFiles: Option[TableFiles] = counted

  protected def count(files: Long, deletedRows: Long): Unit =
    counted =
      Some(counted.getOrElse(TableFiles.none).copy(files = files, deletedRows = deletedRows))

  protected def countRewritten(rewrite: Rewrite): Unit =
    counted = counted.map(_.rewritten(rewrite.files))

  /** Returns whether a version is written directly. */
  protected def isDirect(version: V): Boolean

  /** Returns a version for a lookup beside commits, and keeps its files. */
  protected def lookedUp(version: V): DirectTable

  /**
   * Returns whether there can be files to rewrite. To look at all files takes long, if a commit has not kept them.
   *
   * @param files the number of files
   */
  protected def mayBeDue(files: Long, areKept: Boolean): Boolean = {
    val isDue = areKept || Compaction.mayBeDue(files, looked)
    looked = if (isDue) files else math.min(looked, files)
    isDue
  }

  /**
   * Keeps the keys that the last lookup would have had to read from too many rows. Commits go on during this time.
   *
   * @param update returns the newest version
   */
  final def keepKeys(update: () => V): Unit = if (keys.areWanted) {
    val table = synchronized {
      val version = update()
      Option.when(isDirect(version))(lookedUp(version))
    }
    table.foreach(KeyLookup.keepWanted)
  }
}
