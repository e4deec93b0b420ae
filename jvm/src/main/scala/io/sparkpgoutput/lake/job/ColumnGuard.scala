package io.sparkpgoutput.lake.job

import java.io.IOException

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.{CatalogSnapshot, ColumnHiding, HiddenColumns}
import io.sparkpgoutput.lake.core.TableState
import io.sparkpgoutput.lake.queue.HiddenCells
import io.sparkpgoutput.source.connection.ServerClient

/**
 * Says how the reader hides the columns of a table. This head argues why '''no hidden value''' gets into a queue,
 * also if the server renames tables and columns.
 *
 * The options name tables and columns, and so does a Relation message. It does not have the numbers of columns,
 * which stay when a column is renamed. So a message under a name that the option does not have can have
 * the values of a column that the option means, for example after `ALTER TABLE users RENAME ssn TO social`.
 * The reader asks for each Relation message:
 *
 *   1. Is the table one that the options mean? Its name counts in the message, in the catalog and in the
 *      definition that the job has copied, because the table can be renamed between any two of them.
 *   2. Does the message have each column that the options name? If not, one has another name.
 *   3. Has nobody altered a hidden column since the copy? The catalog says so by the `xmin` of its row of
 *      `pg_attribute`. If it is the same, the column had its name all the time, and a name belongs to one column
 *      only. So the columns with these names are the hidden ones. The catalog must be as new as the
 *      message: it must see the transaction.
 *
 * If the answer to 2 or 3 is no, the reader hides all columns. [[io.sparkpgoutput.lake.fold.FoldFormat]] refuses
 * such changes, and the table is copied. The copy fails until the options fit the table: see
 * [[ColumnHiding]].
 *
 * A table that waits for the snapshot of a copy can have been altered since its last definition, which is often why it
 * is copied. So the third question is then whether the options hide each hidden column of that definition also under
 * the name that it has now. The changes from before the snapshot are left out. From the snapshot on, the copy locks the
 * table, so nobody can alter it. One case is not noticed: while the table waits, a hidden column gets another name and
 * then its own name back, before the reader asks. Values from in between can be in the files of the queue, and nowhere
 * else. A table that has failed and needs a copy has no queue.
 */
final private[job] class ColumnGuard(
    hiding: ColumnHiding,
    catalog: ServerCatalog,
    client: ServerClient,
    state: Long => Option[TableState]
) {

  /**
   * Returns what hides the columns of a table; None if all are shown.
   *
   * @param name the name in the Relation message
   * @param columns the names of the columns in the Relation message
   * @param xid the transaction of the message, if it is known
   */
  def cells(
      oid: Long,
      name: TableName,
      columns: Seq[String],
      xid: Option[Long]
  ): Option[HiddenCells] = if (hiding.tables.isEmpty) None
  else {
    val kept = state(oid)
    val names = (name +: (catalog.nameOf(oid) ++ kept.map(_.name)).toSeq).distinct
    hiding.of(names: _*).map { hidden =>
      val areThere = hidden.names.forall(columns.contains)
      // A table that has failed and needs a copy has no queue.
      val followed = kept.filterNot(table => table.isFailed && table.needsCopy)
      if (areThere && followed.forall(areSame(_, hidden, xid)))
        HiddenCells.of(columns, hidden, hiding.salt)
      else HiddenCells.all(columns)
    }
  }

  /**
   * Returns whether the hidden columns are as they were when the table was copied. For a table that waits for its
   * snapshot, it returns whether the options hide them also under the names that they have now.
   *
   * @throws IOException if the catalog does not see the transaction yet
   */
  private def areSame(kept: TableState, hidden: HiddenColumns, xid: Option[Long]): Boolean = {
    val wanted = kept.table.source.hidden
    def areHidden(now: Map[Int, (String, Long)]) =
      if (kept.awaitsSnapshot)
        hidden.shown(wanted, now.map { case (number, (name, _)) => number -> name }).isEmpty
      else wanted.forall(column => now.get(column.number).contains((column.name, column.version)))
    def ask: Either[String, Boolean] = client.query { connection =>
      val rows = connection.query(
        """SELECT attnum, attname, a.xmin::text AS version, pg_current_snapshot()::text AS snapshot,
          |  pg_is_in_recovery() AS in_recovery
          |FROM (SELECT) AS one LEFT JOIN pg_attribute a
          |  ON attrelid = ?::oid AND attnum > 0 AND NOT attisdropped""".stripMargin,
        kept.oid
      ) { row =>
        catalog.checkRecovery(row.getBoolean("in_recovery"))
        val column = Option(row.getString("attname"))
          .map(name => row.getInt("attnum") -> (name -> row.getString("version").toLong))
        val snapshot = CatalogSnapshot.of(row.getString("snapshot"))
        column -> (row.getBoolean("in_recovery") || xid.forall(snapshot.sees))
      }
      Either.cond(rows.head._2, areHidden(rows.flatMap(_._1).toMap), ServerCatalog.NotVisible)
    }
    // The reader starts a new session, as after a lost connection.
    wanted.isEmpty || ServerCatalog.whileBehind(ask).fold(
      why => throw new IOException(s"${why.capitalize}."),
      identity
    )
  }
}
