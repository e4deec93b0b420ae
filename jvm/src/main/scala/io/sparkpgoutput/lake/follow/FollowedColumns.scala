package io.sparkpgoutput.lake.follow

import io.sparkpgoutput.lake.LakeException
import io.sparkpgoutput.lake.state.{KeptState, TableState}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.{MirroredTable, TableChange, TableComparison, TableError}
import io.sparkpgoutput.lake.target.Target

/** Follows the columns of a table at the server, if nothing is lost by that. */
final class FollowedColumns(
    catalog: SourceCatalog,
    target: Target,
    state: KeptState,
    log: JobLog
) {

  /**
   * Changes the columns of the target.
   *
   * @param now
   *   the table by the catalog of now, or why the target cannot have it; None if it is not published
   * @return the table as it is then, which is in the state too
   * @throws LakeException if the table must be copied again
   */
  def follow(
      table: TableState,
      now: Option[Either[LakeException, MirroredTable]]
  ): TableState = {
    val published = now
      .getOrElse(throw TableError.notPublished(table.table.source.name))
      .fold(error => throw error, identity)
    TableComparison.compare(table.table.source, published.source, table.columnNames) match {
      case Left(reason) => throw TableError.changed(table.table.source.name, reason)
      case Right(changes) =>
        val (followed, columns) = TableEvolution.follow(table, published, changes)
        catalog.reason(table.table.source, changes).foreach { reason =>
          throw TableError.changed(table.table.source.name, reason)
        }
        taken(table, changes).foreach { name =>
          throw TableError.changed(
            table.table.source.name,
            s"The target has a column '$name' already, whose values are not those of the new one."
          )
        }
        target.alter(table.target, columns)
        state.put(followed)
        if (columns.nonEmpty) {
          log.tell(s"The columns of ${table.target} change: ${columns.mkString(", ")}.")
          state.save()
        }
        followed
    }
  }

  /**
   * The name of a new or renamed column that another one of the target has: one that the source had before
   * a copy, one that a user has added, or the new one itself, if a job ended before it wrote its state.
   */
  private def taken(table: TableState, changes: Seq[TableChange]): Option[String] = {
    val names = changes.collect {
      case TableChange.Added(column)  => column.name
      case TableChange.Renamed(_, to) => to.name
    }
    if (names.isEmpty) None
    else {
      val columns = target.columns(table.target)
      names.find(name => columns.exists(_.equalsIgnoreCase(name)))
    }
  }
}
