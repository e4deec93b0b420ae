package io.sparkpgoutput.lake.job

import java.time.{Duration, Instant}

import scala.util.Try

import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.{Dataset, Row}

import org.apache.hadoop.conf.Configuration

import io.sparkpgoutput.lake.apply.{
  AppliedBatch,
  AppliedTable,
  ApplyTable,
  BatchApply,
  PreparedTable
}
import io.sparkpgoutput.lake.batch.{RoutedTable, TableStatistics}
import io.sparkpgoutput.lake.faults.{StoppedTable, TableFault}
import io.sparkpgoutput.lake.follow.FollowedTables
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.resync.Resyncs
import io.sparkpgoutput.lake.state.{CheckpointFolder, KeptState, TableState}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.target.Target

/**
 * Applies each micro-batch to the tables. Spark calls it again for a micro-batch that has failed, and
 * the marks in the tables say what is done.
 */
final class MicroBatches(
    options: ReplicateOptions,
    configuration: Configuration,
    target: Target,
    followed: FollowedTables,
    resyncs: Resyncs,
    state: KeptState,
    log: JobLog
) {
  private val applied =
    new BatchApply(target, options.repairs, parallelism = options.applies)

  /** The error of the last micro-batch, without Spark's words around it. */
  @volatile var error: Option[Throwable] = None

  /** Everything that was committed up to this time is applied. */
  @volatile var appliedUpTo: Option[Instant] = None

  def apply(batch: Dataset[Row], id: Long): Unit =
    try {
      error = None
      resyncs.exclusively(run(batch, id))
    } catch {
      case failure: Throwable =>
        error = Some(failure)
        throw failure
    }

  /**
   * Looks at the server's catalog if that was long ago, because a server that writes nothing has no
   * micro-batches. The caller has the lock of the micro-batches.
   */
  def look(): Unit = {
    if (followed.isOld) failed(followed.follow())
    state.saveIfDue()
  }

  private def run(batch: Dataset[Row], id: Long): Unit = {
    val started = Instant.now
    val end = MicroBatchEnd.read(
      CheckpointFolder.of(options.checkpoint, state.job.generation),
      id,
      configuration
    )
    resyncs.requests.take()
    val isDue = followed.isOld
    // Before the changes are read: rows are found by the names that columns have at the end. What fails
    // here as a whole is no table's error.
    val errors = Try(followed.follow())
    if (isDue) failed(errors.get)
    val tables = state.tables.filter(_.isLive).map(ofBatch) ++
      state.tables.filter(_.isWaiting).map(resyncs.waiting.applied)
    val result = applied.run(batch, tables, end)(prepare(errors, _))
    // A table that has no changes in this micro-batch can be altered, too.
    val altered = if (result.tables.isEmpty) Map.empty[Long, Throwable] else errors.get
    result.tables.foreach { case (oid, outcome) => outcome.foreach(commit(oid, end, _)) }
    failed(
      altered.filter { case (oid, _) => state.table(oid).exists(_.isLive) } ++
        result.tables.collect { case (oid, Left(error)) => oid -> error }
    )
    // The changes of a new table are in its copy.
    if (result.statistics.others.keys.exists(state.table(_).isEmpty)) errors.get: Unit
    val last = result.statistics.lastCommit
    appliedUpTo = Some(if (last == 0) started else microsToInstant(last))
    state.updateJob(_.copy(end = Some(end), appliedUpTo = appliedUpTo))
    state.saveIfDue()
    tell(id, result)
  }

  private def ofBatch(table: TableState) = ApplyTable(
    RoutedTable.of(table.table, table.mark.getOrElse(0L), table.formerNames),
    table.markName(state.job)
  )

  private def prepare(
      errors: Try[Map[Long, Throwable]],
      statistics: TableStatistics
  ): Either[Throwable, PreparedTable] = {
    val table = state.table(statistics.oid).get
    // What the catalog says of a table whose changes wait matters after its copy.
    val error = if (table.isWaiting) None else errors.get.get(table.oid)
    error.toLeft(PreparedTable(table.table, table.formerNames))
  }

  private def commit(oid: Long, end: Long, done: AppliedTable): Unit =
    state.table(oid).foreach { table =>
      if (table.isWaiting) resyncs.waiting.appended(oid, end)
      else {
        state.put(table.applied(end, done.lastCommit))
        resyncs.settled(oid)
      }
      if (done.repaired > 0)
        log.warn(
          s"The table ${table.target} differed in ${done.repaired} rows, which are repaired."
        )
    }

  /**
   * Copies tables with errors again, or stops them, or fails, before the server is told anything of this
   * micro-batch.
   */
  private def failed(errors: Map[Long, Throwable]): Unit = {
    // A change that does not get to those that wait would be missing after the copy.
    errors.collectFirst {
      case (oid, error) if !TableFault.is(error) || state.table(oid).exists(_.isWaiting) => error
    }.foreach(error => throw error)
    val left = errors.filterNot { case (oid, error) => resyncs.mends(oid, error) }
    if (!options.skips) left.values.headOption.foreach(error => throw error)
    left.foreach { case (oid, error) =>
      state.table(oid).foreach(StoppedTable.stop(_, error, target, state, log))
    }
    if (left.nonEmpty) state.save()
  }

  private def tell(id: Long, result: AppliedBatch): Unit = {
    val changes = result.tables.values.flatMap(_.toOption).map(_.changes)
    if (changes.nonEmpty) {
      val lag =
        Duration.between(microsToInstant(result.statistics.lastCommit), Instant.now).toMillis / 1e3
      log.tell(f"Batch $id: ${changes.size} tables, ${changes.sum}%,d changes, lag $lag%.1f s.")
    }
  }
}
