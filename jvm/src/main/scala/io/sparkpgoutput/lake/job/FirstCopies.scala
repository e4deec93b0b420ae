package io.sparkpgoutput.lake.job

import org.apache.spark.sql.SparkSession

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.follow.SourceCatalog
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.resync.TableCopier
import io.sparkpgoutput.lake.state.{KeptState, TableState, TableStatus, TargetMarks}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.lake.target.{Target, TargetWrite}

/**
 * The first copies of the tables, some side by side, or the copies of a job that begins anew. A table that
 * is copied already is left out, so a crash repeats only the copies that were under way.
 *
 * @param copied is called after each copy
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
  private val copier = new TableCopier(session, options, target, catalog, state, log)

  def run(): Unit = {
    val known = state.tables.filter(_.generation > 0).map(_.table)
    val published = catalog.read(known)
    // A table that is published again later is a new one, which is copied then.
    state.tables.filter(table =>
      table.status == TableStatus.Copying && !published.exists(_.source.oid == table.oid)
    ).foreach(table => state.remove(table.oid))
    val tables = published.filter(table =>
      state.table(table.source.oid).forall(_.status == TableStatus.Copying)
    )
    tables.foreach(table =>
      replaced(table, published).foreach(dropped => state.remove(dropped.oid))
    )
    // If the job ends behind a copy, the mark says that the copy is done, and this what it has.
    tables.foreach(table => state.put(begun(table)))
    catalog.checkTimeline(state)
    state.save()
    SideBySide.run(session, tables, options.copies)(copy)
    state.save()
  }

  /**
   * Returns the table of the state whose name in the target a table needs, because it was dropped since its
   * copy, and another one has its name.
   */
  private def replaced(table: MirroredTable, published: Seq[MirroredTable]) = {
    val held =
      state.holder(table).filterNot(other => published.exists(_.source.oid == other.oid))
    if (held.exists(_.table.source.name != table.source.name))
      throw LakeError.foreignTable(target.sqlName(table.target))
    held
  }

  /**
   * The properties of the table tell of an earlier copy, even if the state is lost. A table that the job
   * has left has the mark of a copy that the state does not know.
   */
  private def begun(table: MirroredTable) = {
    val known = state.table(table.source.oid).map(_.generation)
    val left =
      if (known.isEmpty) TargetMarks.newestGeneration(target, table.target).map(_ + 1) else None
    val generation = known ++ left ++ TargetMarks.generation(target, table.target)
    TableState(
      table,
      Map.empty,
      generation.maxOption.getOrElse(1),
      TableStatus.Copying,
      mark = None,
      lastChange = None
    )
  }

  private def copy(table: MirroredTable): Unit = {
    val again = begun(table).generation > 1
    val done = copier.copy(table) { (found, _) =>
      val copying = begun(found)
      if (copying.generation == 1) checkEmpty(copying)
      copier.make(copying)
      copying
    }(if (again) TargetWrite.Replace(_) else TargetWrite.Append(_))
    if (again) copier.arrange(done)
    state.put(done.copy(status = TableStatus.Live, copied = done.mark))
    copied()
    state.saveIfDue()
  }

  /** A table that an interrupted copy left without rows is taken if its columns are right. */
  private def checkEmpty(table: TableState): Unit =
    if (target.exists(table.target) && TargetMarks.isMadeBy(state.job, target, table.target)) {
      val left = target.read(session, table.target)
      val columns = left.schema.map(field => field.name -> field.dataType)
      val wanted = table.table.targetSchema.map(field => field.name -> field.dataType)
      val mode = TargetMarks.mode(target.properties(table.target))
      if (mode != table.table.mode || !wanted.forall(columns.contains) || !left.isEmpty)
        throw LakeError.unfinishedCopy(target.sqlName(table.target))
    }
}
