package io.sparkpgoutput.lake.resync

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.apply.{ApplyTable, BatchApply, PreparedTable, WaitingChanges}
import io.sparkpgoutput.lake.batch.RoutedTable
import io.sparkpgoutput.lake.copy.CopyError
import io.sparkpgoutput.lake.follow.{FollowedColumns, SourceCatalog}
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.state.{KeptState, TableState}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.TableError
import io.sparkpgoutput.lake.target.{Target, TargetWrite}
import io.sparkpgoutput.protocol.Lsn

/**
 * Copies one table while the stream runs, and applies the changes that waited meanwhile.
 *
 * @param renew takes the LSN of each snapshot as soon as it is made
 */
final class TableResync(
    session: SparkSession,
    options: ReplicateOptions,
    target: Target,
    catalog: SourceCatalog,
    state: KeptState,
    renew: (TableName, Long) => Unit,
    log: JobLog
) {
  private val copier = new TableCopier(session, options, target, catalog, state, log, renew)
  private val followed = new FollowedColumns(catalog, target, state, log)
  private val applied = new BatchApply(target, options.repairs, parallelism = 1)

  /** Returns whether the copy is committed. */
  def isCopied(table: TableState): Boolean = mark(table).nonEmpty

  private def mark(table: TableState) =
    if (target.exists(table.target)) target.mark(table.target, table.markName(state.job)) else None

  /** Copies the table unless that is done, and applies most of the changes that waited. */
  def copy(oid: Long)(snapshot: Long => Unit): Unit = {
    val table = state.table(oid).get
    if (!isCopied(table)) {
      catalog.checkTimeline(state)
      // What an error of the last try has asked for can be done since: an option, or the table itself.
      val now = catalog.again(oid, Some(table.table))
        .getOrElse(throw TableError.notPublished(table.table.source.name))
      catalog.checkReady(now.source)
      val planned = state.job.end
      val copied = copier.copy(now) { (found, lsn) =>
        if (planned.exists(Lsn.isBelow(lsn, _))) throw CopyError.olderSnapshot(found.source.name)
        val copying = state.table(oid).get.copy(table = found, copied = Some(lsn))
        // After the commit, only the state tells what the rows are a copy of.
        state.put(copying)
        state.save()
        snapshot(lsn)
        copier.make(copying)
        copying
      }(TargetWrite.Replace(_))
      state.put(copied)
      if (copied.generation > 1) copier.arrange(copied)
    }
    // What is appended meanwhile is less each time. The rest is applied while no micro-batch runs.
    (1 to TableResync.Rounds).foreach(_ => apply(oid))
  }

  /** Applies the changes that wait, as far as they are not in the table. */
  def apply(oid: Long): Unit = {
    val table = state.table(oid).get
    val has = mark(table).getOrElse(throw LakeError.markLost(table.target))
    val kept = WaitingTables.read(target, state.job, table)
    kept.mark.filter(Lsn.isBelow(has, _)).foreach { end =>
      val published = catalog.again(oid, Some(table.table))
      val now = followed.follow(table.copy(mark = Some(has)), published.map(Right(_)))
      val own = ClonedSession.of(session)
      val batch = WaitingChanges.messages(own, target.read(own, kept.target), has, end)
      val routed = RoutedTable.of(now.table, has, now.formerNames)
      val result = applied.run(batch, Seq(ApplyTable(routed, now.markName(state.job))), end)(_ =>
        Right(PreparedTable(now.table, now.formerNames))
      )
      result.tables.get(oid).foreach {
        case Left(error) => throw error
        case Right(done) =>
          log.tell(f"Applied ${done.changes}%,d changes of ${now.target} that waited.")
          state.put(now.applied(end, done.lastCommit))
      }
    }
  }
}

private object TableResync {
  final private val Rounds = 3
}
