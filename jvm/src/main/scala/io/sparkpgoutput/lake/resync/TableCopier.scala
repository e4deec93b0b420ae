package io.sparkpgoutput.lake.resync

import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.copy.{HistoryCopy, TableCopy}
import io.sparkpgoutput.lake.follow.{SourceCatalog, TableEvolution}
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.state.{KeptState, TableState, TargetMarks}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.{MirroredTable, TableError}
import io.sparkpgoutput.lake.target.{Target, TargetTypes, TargetWrite}
import io.sparkpgoutput.lake.{LakeError, LakeException}
import io.sparkpgoutput.protocol.Lsn

/**
 * Copies a table of the server into the target, in one commit.
 *
 * @param renew takes the LSN of each snapshot as soon as it is made
 */
final class TableCopier(
    session: SparkSession,
    options: ReplicateOptions,
    target: Target,
    catalog: SourceCatalog,
    state: KeptState,
    log: JobLog,
    renew: (TableName, Long) => Unit = (_, _) => ()
) {

  /**
   * Copies a table.
   *
   * @param begin
   *   makes the table of the target ready for the table as the snapshot has it and for the snapshot's
   *   LSN, and returns its state
   * @param write
   *   how the rows are written. A history gets them in any case behind those that it has.
   * @return the state, with the mark of the copy
   */
  def copy(table: MirroredTable)(begin: (MirroredTable, Long) => TableState)(
      write: DataFrame => TargetWrite
  ): TableState = {
    val started = System.nanoTime()
    val name = table.source.name.toString
    log.tell(s"Copying $name.")
    Using.resource(open(table))(copy =>
      log.watching(copy) {
        val copying = begin(copy.table, copy.lsn)
        HistoryOrder.check(session, target, copying.table, copy.lsn)
        val own = ClonedSession.of(session)
        session.sparkContext.setJobDescription(copy.description)
        val rows =
          if (copying.table.isHistory)
            TargetWrite.Append(HistoryCopy.rows(own, copy, isFirst = copying.generation == 1))
          else write(copy.rows(own))
        target.commit(own, copying.target, copying.markName(state.job), None, copy.lsn)(rows)
        val seconds = math.max(1L, NANOSECONDS.toSeconds(System.nanoTime() - started))
        val read = copy.copied
        log.tell(
          f"Copied $name: ${read.rows}%,d rows, ${read.bytes / 1e6}%,.1f MB in $seconds s, " +
            s"as of ${Lsn.format(copy.lsn)}."
        )
        copying.copy(mark = Some(copy.lsn))
      }
    )
  }

  /**
   * Makes the table of the target, or makes one that the job has made ready for another copy.
   *
   * @throws LakeException if somebody else has made the table, or if it has another mode
   */
  def make(table: TableState): Unit =
    if (target.exists(table.target)) {
      if (!TargetMarks.isMadeBy(state.job, target, table.target))
        throw LakeError.foreignTable(target.sqlName(table.target))
      TargetMarks.checkMode(table.table, target.properties(table.target))
      TargetMarks.take(session, target, state.job, table)
      fit(table)
    } else
      target.create(
        table.target,
        table.table.targetSchema,
        table.table.targetKey,
        options.tableProperties ++ TargetMarks.properties(state.job, table)
      )

  /** Gives a history that has rows the columns of a new copy. Other tables get them with their rows. */
  private def fit(table: TableState): Unit =
    if (table.table.isHistory) {
      val has = target.read(session, table.target).schema.toNullable
      val wanted = TargetTypes.of(target.format, table.target, table.table.targetSchema, Nil)
      val changes = TableEvolution.keep(has, wanted.toNullable, table.generation)
      target.alter(table.target, changes)
    }

  /**
   * Arranges a table that was replaced, because new columns take that away. The rows are right without it,
   * too.
   */
  def arrange(table: TableState): Unit =
    try target.arrange(table.target, table.table.schema, table.table.targetKey)
    catch {
      case NonFatal(problem) =>
        log.warn(s"The table ${table.target} is not arranged by its key. ${problem.getMessage}")
    }

  /** Opens a copy. If the table was altered since the catalog was read, it reads the catalog again. */
  private def open(table: MirroredTable, attempts: Int = 3): TableCopy =
    try TableCopy.open(options.source, table, renew(table.source.name, _))
    catch {
      case changed: LakeException
          if changed.getCondition == TableError.Changed && attempts > 1 =>
        val now = catalog.again(table.source.oid, Some(table)).getOrElse(throw changed)
        open(now, attempts - 1)
    }
}
