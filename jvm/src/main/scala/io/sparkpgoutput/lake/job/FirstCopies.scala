package io.sparkpgoutput.lake.job

import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.util.Using

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.lake.copy.TableCopy
import io.sparkpgoutput.lake.state.{KeptState, TableState, TableStatus}
import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.lake.target.{Target, TargetWrite}
import io.sparkpgoutput.lake.{LakeError, LakeException}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.types.ConversionOptions

/**
 * The first copies of the tables, some side by side. A table that is copied already is left out, so a
 * crash repeats only the copies that were under way.
 *
 * @param copied
 *   is called after each copy
 */
final class FirstCopies(
    session: SparkSession,
    options: ReplicateOptions,
    target: Target,
    catalog: SourceCatalog,
    state: KeptState,
    log: JobLog,
    copied: () => Unit
) {
  def run(): Unit = {
    val tables = catalog.read().filterNot(table => state.table(table.source.oid).exists(_.isLive))
    // If the job ends behind a copy, the mark says that the copy is done, and this what it has.
    tables.foreach(table => state.put(begun(table)))
    state.save()
    SideBySide.run(session, tables, options.copies)(copy)
    state.save()
  }

  private def begun(table: MirroredTable) =
    TableState(table, Map.empty, 1, TableStatus.Copying, mark = None, lastChange = None)

  private def copy(table: MirroredTable): Unit = {
    val started = System.nanoTime()
    val name = table.source.name.toString
    log.tell(s"Copying $name.")
    Using.resource(open(table)) { copy =>
      val copying = begun(copy.table)
      make(copying)
      val own = ClonedSession.of(session)
      session.sparkContext.setJobDescription(copy.description)
      val rows = TargetWrite.Append(copy.rows(own))
      target.commit(own, copying.target, copying.markName(state.job), None, copy.lsn)(rows)
      state.put(copying.copy(status = TableStatus.Live, mark = Some(copy.lsn)))
      copied()
      state.saveIfDue()
      val seconds = math.max(1L, NANOSECONDS.toSeconds(System.nanoTime() - started))
      log.tell(
        f"Copied $name: ${copy.copiedRows}%,d rows, ${copy.copiedBytes / 1e6}%,.1f MB in $seconds s, " +
          s"as of ${Lsn.format(copy.lsn)}."
      )
    }
  }

  /** Opens a copy. If the table was altered since the catalog was read, it reads the catalog again. */
  private def open(table: MirroredTable, attempts: Int = 3): TableCopy =
    try
      TableCopy.open(
        options.address,
        options.applicationName,
        options.publications,
        table,
        ConversionOptions()
      )
    catch {
      case changed: LakeException
          if changed.getCondition == "PGOUTPUT_TABLE_CHANGED" && attempts > 1 =>
        val now = catalog.read().find(_.source.oid == table.source.oid).getOrElse(throw changed)
        open(now, attempts - 1)
    }

  /** Makes the table. One that a copy left without rows is taken if its columns are right. */
  private def make(table: TableState): Unit =
    if (!target.exists(table.target))
      target.create(
        table.target,
        table.table.schema,
        table.table.source.key,
        options.tableProperties ++ TargetMarks.properties(state.job, table)
      )
    else if (!TargetMarks.isMadeBy(state.job, target, table))
      throw LakeError.foreignTable(target.sqlName(table.target))
    else {
      val columns =
        target.read(session, table.target).schema.map(field => field.name -> field.dataType)
      val wanted = table.table.schema.map(field => field.name -> field.dataType)
      if (!wanted.forall(columns.contains))
        throw LakeError.unfinishedCopy(target.sqlName(table.target))
    }
}
