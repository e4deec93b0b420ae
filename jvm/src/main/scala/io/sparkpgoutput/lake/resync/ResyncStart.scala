package io.sparkpgoutput.lake.resync

import io.sparkpgoutput.lake.follow.SourceCatalog
import io.sparkpgoutput.lake.state.{KeptState, TableState, TableStatus, TargetMarks}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.lake.target.Target

/**
 * The first two steps of a copy while the stream runs: the waiting table is made, and the state says that
 * the table waits. The callers have the lock of [[Resyncs]].
 *
 * @param isUnderWay tells if the table with an oid is being copied
 * @param isCopied tells if the copy that a table waits for is committed
 */
final private[resync] class ResyncStart(
    target: Target,
    catalog: SourceCatalog,
    state: KeptState,
    waiting: WaitingTables,
    log: JobLog,
    isUnderWay: Long => Boolean,
    isCopied: TableState => Boolean
) {

  /**
   * Returns whether a table takes the place of one that was dropped, and whose changes can still be in the
   * stream.
   */
  def replacesLiveTable(table: MirroredTable): Boolean =
    state.holder(table).exists(holder => !holder.isStopped && isReplaced(holder, table))

  /**
   * Begins to copy a table, unless its name in the target is that of another table.
   *
   * @param now the table by the catalog of now
   * @param reason why, a sentence
   * @return whether the table waits for its copy
   */
  def begin(now: MirroredTable, reason: String): Boolean = {
    val kept = state.table(now.source.oid)
    val holder = state.holder(now)
    val dropped = holder.filter(isReplaced(_, now))
    // The options of now can give a history another prefix than the one that its columns have.
    val table = dropped.fold(now)(dropped => now.copy(mode = dropped.table.mode))
    val name = table.source.name
    if (kept.exists(isBeingCopied)) {
      log.tell(s"The table $name is being copied. $reason")
      true
    } else if (dropped.exists(table => isUnderWay(table.oid))) {
      log.tell(s"The table $name is being copied, and was dropped and made again.")
      false
    } else if (dropped.isEmpty && holder.nonEmpty) {
      refuse(table, holder.get)
      false
    } else {
      log.warn(s"The table $name is copied while the stream goes on. $reason")
      makeWait(table, kept, dropped, reason)
      true
    }
  }

  /** Returns whether a table was dropped, or left the publications, and another one has its name. */
  private def isReplaced(dropped: TableState, table: MirroredTable) =
    dropped.table.source.name == table.source.name &&
      !catalog.sources().exists(_.oid == dropped.oid)

  /** A copy that is committed while a request for another one is taken serves it, too. */
  private def isBeingCopied(table: TableState) =
    table.isWaiting && (isUnderWay(table.oid) || !isCopied(table))

  private def refuse(table: MirroredTable, holder: TableState): Unit = {
    val why =
      s"The table ${holder.table.source.name} has its name ${table.target} in the target."
    log.warn(s"The table ${table.source.name} is stopped. $why")
    state.put(TableState(table, Map.empty, 0, TableStatus.Stopped(why), None, None))
    state.save()
  }

  private def makeWait(
      table: MirroredTable,
      kept: Option[TableState],
      dropped: Option[TableState],
      reason: String
  ): Unit = {
    // The target can have a table that the job has left when it began anew.
    val generations = (kept ++ dropped).map(_.generation) ++
      TargetMarks.newestGeneration(target, table.target)
    val begun = TableState(
      table,
      Map.empty,
      generations.maxOption.getOrElse(0) + 1,
      TableStatus.Waiting(reason),
      kept.flatMap(_.mark),
      kept.flatMap(_.lastChange)
    )
    waiting.make(begun)
    waiting.forget(begun.oid)
    dropped.foreach(table => state.remove(table.oid))
    state.put(begun)
    try state.save()
    catch {
      case problem: Throwable =>
        // Otherwise the table would wait here, and be live for the next start.
        kept.fold(state.remove(begun.oid))(state.put)
        dropped.foreach(state.put)
        throw problem
    }
    (kept ++ dropped).filter(_.isWaiting).foreach(waiting.drop)
  }
}
