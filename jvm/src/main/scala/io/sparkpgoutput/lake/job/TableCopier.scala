package io.sparkpgoutput.lake.job

import java.time.Duration
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit.NANOSECONDS

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{MirroredTable, TableComparison, TableMode}
import io.sparkpgoutput.lake.copy.{SnapshotConnections, TableCopy}
import io.sparkpgoutput.lake.core.{MadeSnapshot, TableFailure, TableState, TableStatus}
import io.sparkpgoutput.lake.direct.{DirectChange, NotDirect}
import io.sparkpgoutput.lake.target.{
  ColumnChange,
  HistoryOrder,
  TableEvolution,
  TargetTypes,
  TargetWrite
}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.slot.ServerStillWaits

/**
 * Copies tables while their changes go on. This head argues why there is no gap between '''the copy''' and the
 * changes. [[io.sparkpgoutput.lake.core.JobCore]] orders the steps, and this class runs steps 4 and 6. A cut is the
 * first part of the queue of a table: whole transactions that one commit writes. The mark of a table is the LSN up to
 * which it has all changes.
 *
 * {{{
 *   LSNs at the server   ─────── q ─────────── L0 ──────────────────────────────►
 *   in the queue                 ├─────────────┼───── changes from q on ─────────►
 *   in the snapshot      ──────────────────────┤      all that is below L0
 *   in the target                              └► one commit: rows, mark L0 ─► cuts of changes from L0 on
 * }}}
 *
 *   1. No commit of the table runs.
 *   2. The state says that the table is copied, with a new generation: the number of a copy, which is greater than that
 *      of all earlier copies of the job.
 *   3. The queue begins at q. If the reader is inside a transaction, q is just above its commit LSN, and not below the
 *      read LSN. Otherwise, q is the read LSN.
 *   4. The server makes a snapshot. It sees the transactions below its LSN L0, and no others. If L0 is below q,
 *      or below the mark of the table, the server is behind, and another snapshot is made.
 *   5. The state gets L0 and the definition of the table in the snapshot. If the target has a mark of a greater
 *      generation, the state also gets a generation above that one. If the state cannot be written within five minutes,
 *      the job gives up the snapshot, which locks the table at the server, and tries the copy again.
 *   6. One commit writes the rows, with the mark L0 of the new generation. In a mirror, it replaces all rows. In a
 *      history, it adds the rows of the snapshot. Marked rows and versions stay. From then on, a process that knows
 *      only an earlier copy cannot commit, because its generation is lower ([[io.sparkpgoutput.lake.core.MarkName]]).
 *      This also holds if the table of the target belonged to another table before.
 *
 * '''Why there is no gap, and no duplicate.''' Everything below L0 is in the snapshot. Everything from L0 on is in the
 * queue, because q is at or below L0. Changes from q to L0 are in both, and are below the mark L0, so the
 * applier leaves them out. Readers see the old rows until the commit of step 6, and the new ones after it.
 *
 * '''A table that keeps its past''' has rows that a snapshot does not have: the mode is `history`, `both` or
 * `versions`, or deleted rows are marked. If a user asks for a copy of such a table while it is live, no change must be
 * missing in these rows. So the table stays live and keeps its queue. Step 4 comes first, when the table is less than
 * five minutes behind. Then the table gets its changes up to L0, and none from L0 on. Then come the new generation and
 * L0 in one state, and step 6. If a cut meets an error that passes, the job gives up the snapshot and makes another one
 * later. The job also gives up the snapshot in three more cases. The snapshot has columns that the target has to follow
 * first. The changes up to L0 do not come within five minutes: the snapshot locks the table. Or step 6 fails for a
 * reason that passes, or is interrupted because the job ends in order. The table then has its earlier generation again.
 * If rows were committed nevertheless, the next cut or the next start finds the new generation. The table goes on from
 * the new mark, also if only the mirror of a history has it, and is copied once more.
 *
 * In all other cases, these rows lack the changes between what was applied before step 1 and L0. Examples are a cut
 * that cannot be applied, a copy that no user has requested, and a kill between steps 5 and 6.
 *
 * '''What a kill leaves.''' From step 2 on, the state says that the table is copied. If a kill comes before step 6, the
 * table of the target has its old rows, and the next process starts over at step 1. A requested copy of a live table is
 * only a request in the state before step 5. After step 6, the table has the mark L0 of the generation of the state, so
 * the next process knows that the copy was made, and goes on with changes from L0 on.
 *
 * '''A mirror with a history''' (the mode `both`) has a commit in each of two tables at step 6. Each commit reads the
 * rows of the server, in the same snapshot. A kill between the commits leaves the mark L0 in one table only, so the
 * next process starts over at step 1 with both. If the copy was requested, and is given up there, the table is live in
 * the state. The next cut or the next start gives both tables one generation, and each goes on from its own mark.
 *
 * '''What makes a job copy a table.''' docs/guarantees.md has all reasons. These classes find them:
 *
 *  - The table is new in the publications, is published again, or is not excluded any more.
 *  - A user asks for a copy (`resync`), or for copies of all tables, with which the job starts over ([[JobSetup]]).
 *  - The server has altered the table in a way that its messages do not describe. For example, ALTER TABLE has
 *    rewritten its values, or the table has another key, another replica identity or other partitions. Or a
 *    publication was altered: it has another row filter or other operations, for example, or the table was taken out of
 *    it and put back. [[io.sparkpgoutput.lake.catalog.TableComparison]] finds all of this in the catalog.
 *  - The messages of the table contradict the catalog, or lack values that the target needs
 *    ([[io.sparkpgoutput.lake.fold.FoldFormat]]).
 *  - The target cannot follow a change of the columns ([[io.sparkpgoutput.lake.target.TableEvolution]]).
 *  - An option gives a column another type, `infinity` or `moneyScale` gives its values another meaning, or an option
 *    gives a mirror a history, or says that marked rows are deleted.
 *  - An option excludes or hashes other columns, or the options lay out the table in a way that needs a copy.
 *  - The mark of the table is gone, is lower than the job expects, or belongs to a newer copy: somebody has removed
 *    or restored the table, or another process has copied it. Or a start cannot read the mark, and the server is on
 *    another timeline than before.
 *  - The queue of the table is gone: the job has dropped it ([[io.sparkpgoutput.lake.core.JobCore]]), or a file of it
 *    is lost.
 *  - The table gets a name in the target that another table had.
 *  - Its last copy did not end.
 *
 * If `onSchemaChange` is `error`, a table fails instead if a commit finds it changed, finds another mark, or lacks a
 * file of its queue. A table that is new or comes back, a request, a dropped queue, a new name, and a reason that a
 * start finds always lead to a copy. If three copies for the same reason did not help, the table fails. If the changes
 * after each copy lead to the next copy, the fourth copy and later ones begin after pauses of up to ten minutes, even
 * if the reasons differ.
 */
final private[job] class TableCopier(job: JobParts) extends AutoCloseable {
  import TableCopier._
  import job.{catalog, core, ownTables, target}

  /** The snapshots that are made and not committed yet, by the oids of their tables. */
  private val open = new ConcurrentHashMap[Long, TableCopy]

  private val connections = new SnapshotConnections(job.options.source)

  /** Since when the server has been behind, by the oids of the tables that wait for it. */
  private val behind = new ConcurrentHashMap[Long, Long]

  /** Whether this process has seen the place of the tables. The first copy of a job makes it. */
  @volatile private var isThere = Try(absence.isEmpty).getOrElse(false)

  private def absence = ownTables.absence(job.state)

  /** Waits for the place of the tables if it is away: a copy would make it again, on the disk below a mount. */
  private def checkPlace(): Unit =
    if (isThere) absence.foreach(reason => throw new Waiting(reason))

  /** Waits while another table has a name of the copy in the target. It may get another name soon. */
  private def checkNames(table: TableState): Unit = job.state.tables.values
    .find(other => other.oid != table.oid && other.owned.exists(table.table.keys.contains))
    .foreach(other =>
      throw new Waiting(s"A name of ${table.name} in the target still belongs to ${other.name}.")
    )

  /** Makes a snapshot of a table. */
  def makeSnapshot(oid: Long): Unit = reporting(oid) { table =>
    checkPlace()
    if (forget(oid)) catchUp(table) else job.log.copying(table.name)
    val copy = start(table)
    open.put(oid, copy)
    if (table.copyReason.nonEmpty && isAltered(table, copy.table)) throw new Waiting(Altered)
    // The copy can have another mode than the table has had.
    val newest = table.copy(table = copy.table).parts
      .flatMap(ownTables.newestGeneration(job.state, _)).maxOption.getOrElse(0)
    val made = MadeSnapshot(copy.lsn, copy.table, newest, JobClock.millis)
    if (!core(_.snapshotMade(oid, made)))
      forget(oid): Unit // its lock would stay until the next copy
  }

  /**
   * Whether the columns of the target have to follow those of a snapshot. If the copy gave them to the target and was
   * given up then, the changes that the table goes on with would find them there.
   */
  private def isAltered(table: TableState, now: MirroredTable) =
    TableComparison.compare(table.table.source, now.source, table.columnNames).exists(changes =>
      TableEvolution.columns(table.table, TableEvolution.next(table, now, changes).table).nonEmpty
    )

  /** Lets the server catch up, because the last snapshot was too old. A job with `once` does not wait for ever. */
  private def catchUp(table: TableState): Unit = {
    val since = behind.computeIfAbsent(table.oid, _ => JobClock.millis)
    if (job.options.once && JobClock.millis - since > job.options.retryFor.toMillis)
      throw new Waiting(Behind)
    job.log.failed(table.name, TableFailure(TableFailure.Waits, Behind))
    Thread.sleep(MillisToCatchUp)
  }

  /** Opens a copy. If the table was altered since the catalog was read, it reads the catalog again. */
  private def start(table: TableState, attempts: Int = 3): TableCopy =
    try {
      // The changes of a table that is live wait for its snapshot.
      val atMost = Option.when(table.copyReason.nonEmpty)(MostWait)
      TableCopy.open(job.options.source, catalog.forCopy(table, job.state), connections, atMost)
    } catch {
      case waits: ServerStillWaits => throw new Waiting(waits.getMessage)
      case changed: LakeException
          if changed.getCondition == "PGOUTPUT_TABLE_CHANGED" && attempts > 1 =>
        start(table, attempts - 1)
    }

  /** Replaces the rows of the target by those of the snapshot. */
  def commit(oid: Long): Unit = reporting(oid) { table =>
    val copy = Option(open.get(oid)).getOrElse(
      throw new IllegalStateException(s"The snapshot of ${table.name} is gone.")
    )
    behind.remove(oid)
    val lsn = table.status match {
      case TableStatus.Copying(_, Some(lsn)) => lsn
      case other =>
        throw new IllegalStateException(s"${table.name} is ${other.name}, and not copied.")
    }
    val started = System.nanoTime()
    try job.log.watching(copy) {
        // Both tables of a mirror with a history are ready before the first one is written.
        checkPlace()
        checkNames(table)
        table.parts.map(new Part(_, copy, lsn)).foreach(_.write())
        isThere = true
        catalog.forget(oid)
        val read = copy.copied
        // The lock of the table is released before the job reports that the copy is done.
        forget(oid)
        job.lastErrors.remove(oid)
        core(_.copied(oid, JobClock.millis))
        val seconds = math.max(1L, NANOSECONDS.toSeconds(System.nanoTime() - started))
        job.log.copied(
          table.name,
          f"Copied ${table.name}: ${JobLog.counted(read.rows, "row")}, ${read.bytes / 1e6}%,.1f MB in $seconds s, " +
            s"as of ${Lsn.format(lsn)}."
        )
      }
    finally forget(oid)
  }

  /** Makes a table of the target ready for a copy, and then writes the rows of the snapshot in one commit. */
  final private class Part(table: TableState, copy: TableCopy, lsn: Long) {
    // These come before `prepare` gives the table the properties of this copy.
    private val isOfTable = table.table.endLsn.nonEmpty && ownTables.isOf(job.state, table)
    private val former = table.former.filter(former =>
      isOfTable && ownTables.generations(job.state, table).contains(former.generation)
    )

    // A copy that has begun and was not committed can have changed the property.
    private val areMarked =
      isOfTable && former.fold(ownTables.marks(job.state, table))(_.table.marks)
    private val hashes =
      if (former.isEmpty) ownTables.hashes(job.state, table) else Map.empty[String, String]
    private val isNew =
      ownTables.prepare(job.state, table, job.options.newProperties(job.target.format))
    // A table of which an older state was restored has marks, even if none of them is valid.
    private val isFirst = target.newest(table.target, job.state.id).isEmpty
    if (isFirst && !isNew) checkEmpty(table)
    private val shape = ownTables.shape(table)
    if (table.table.isHistory) {
      keepColumns(table)
      if (!isNew) shape.foreach(target.reshape(table.target, _))
    }
    HistoryOrder.check(job.session, ownTables, table.table, lsn)

    def write(): Unit = {
      lazy val session = ClonedSession.of(job.session)
      job.session.sparkContext.setJobDescription(copy.description)
      def before = target.read(session, table.target)
      lazy val merged =
        new MergedCopy(table.table, copy.lsn, copy.at, copy.rows(session), before, former, hashes)
      def all = table.table.mode match {
        case TableMode.Marking if isOfTable && merged.hasKey => merged.marked(areMarked)
        case TableMode.Versions if !isNew                    => merged.versions
        case mode                                            => copy.newRows(session, mode)
      }
      def write(rows: TargetWrite): Unit = {
        // A direct write runs no query, so it needs no session of its own.
        val ofWrite = if (rows.isInstanceOf[TargetWrite.Direct]) job.session else session
        target.commit(ofWrite, table.target, table.markName(job.state.id), None, lsn)(rows)
      }
      if (table.table.isHistory)
        write(TargetWrite.Append(copy.historyRows(session, table.table, isFirst)))
      else if (!isNew) write(TargetWrite.Replace(all, shape))
      else if (!copy.isSmall || !writesDirectly(copy, write))
        write(TargetWrite.Append(all))
      if (!isNew && !table.table.isHistory) arrange(table)
    }
  }

  /** Writes a small copy into a new table without a query of Spark. Returns whether the table allows that. */
  private def writesDirectly(
      copy: TableCopy,
      write: TargetWrite => Unit
  ): Boolean =
    try {
      write(TargetWrite.Direct(found =>
        DirectChange(Map.empty, copy.localRows(job.session, found.schema))
      ))
      true
    } catch { case _: NotDirect => false }

  /** If a copy did not end, it has left a table without rows. A user can have written into this table. */
  private def checkEmpty(table: TableState): Unit =
    if (!target.read(job.session, table.target).isEmpty)
      throw new LakeException(
        "PGOUTPUT_TARGET_EXISTS.UNFINISHED_COPY",
        "table" -> target.sqlName(table.target)
      )

  /** Gives a history that has rows the columns of a new copy. Other tables get them with their rows. */
  private def keepColumns(table: TableState): Unit = {
    // A DataFrame has a text in place of a VARCHAR, whose type is in the metadata of the column.
    val has =
      CharVarcharUtils.getRawSchema(target.read(job.session, table.target).schema).toNullable
    val wanted = TargetTypes.of(target.format, table.target, table.table.targetSchema, Nil)
    val changes = TableEvolution.keep(has, wanted.toNullable, table.generation)(
      target.alterProblem(table.target, _).isEmpty
    )
    for {
      change @ ColumnChange.Rename(name, _) <- changes
      problem <- target.alterProblem(table.target, change)
    } throw new LakeException(
      "PGOUTPUT_TARGET_FORMAT.FIXED_COLUMN",
      "column" -> name,
      "table" -> target.sqlName(table.target),
      "problem" -> problem
    )
    target.alter(table.target, changes)
  }

  /** Clusters the table again, because a replacement of the columns ends that. The rows are right without it, too. */
  private def arrange(table: TableState): Unit =
    try target.arrange(
        table.target,
        table.table.schema,
        table.table.targetKey,
        table.table.shape
      )
    catch {
      case NonFatal(problem) =>
        job.log.warn(s"The table ${table.target} is not clustered. ${problem.getMessage}")
    }

  private def reporting(oid: Long)(body: TableState => Unit): Unit =
    job.state.tables.get(oid).foreach { table =>
      try body(table)
      catch {
        case error: Throwable =>
          forget(oid)
          behind.remove(oid)
          job.unlessEnding(table, error) {
            if (TableFailures.isOtherMark(error)) job.checkEpoch()
            job.failed(table, TableFailures.of(error), error)
          }
      } finally if (!job.state.tables.values.exists(_.awaitsSnapshot)) connections.close()
    }

  /** Gives up the snapshot of a table whose changes before it cannot be applied now. */
  def dropSnapshot(oid: Long): Unit = forget(oid): Unit

  /** Gives up the snapshot of a table. Returns whether there was one. */
  private def forget(oid: Long): Boolean = {
    val copy = Option(open.remove(oid))
    copy.foreach(_.close())
    copy.nonEmpty
  }

  override def close(): Unit = {
    open.keySet.forEach { oid =>
      try forget(oid): Unit
      catch {
        case NonFatal(error) =>
          job.log.warn(s"A snapshot cannot be closed. ${TableFailures.text(error)}")
      }
    }
    connections.close()
  }
}

private object TableCopier {
  final private val MillisToCatchUp = 1000L
  private val MostWait = Duration.ofSeconds(30)
  private val Altered = "The table was altered, and the target has to follow this before the copy."
  final private val Behind =
    "The server of the copy lacks transactions that the job has read: it is a standby that is behind."
}
