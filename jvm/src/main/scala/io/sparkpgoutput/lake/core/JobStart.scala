package io.sparkpgoutput.lake.core

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Dropped, Excluded, Failed, Live}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.slot.SlotChecks
import io.sparkpgoutput.types.InfinityMode
import io.sparkpgoutput.types.registry.BuiltInTypes

/**
 * The mark that a table of the target has.
 *
 * @param target the name of the table in the target
 * @param job the UUID of the job that made the table
 * @param oid the oid of the table of the server that owns it
 * @param generation the newest generation of this owner that has a mark
 * @param mark None if no copy of it was committed
 */
final case class FoundMark(
    target: String,
    job: String,
    oid: Long,
    generation: Int,
    mark: Option[Long]
)

/**
 * What a process finds at its start. It reads the state first, and then the marks. An earlier process that is slow to
 * end can commit between the two reads. The mark is then newer than the state, and is right. If an earlier process has
 * written the state before this one has taken the slot and the next epoch, the start is tried again.
 *
 * @param kept the state of the greatest epoch
 * @param confirmed the confirmed LSN of the slot; None if there is no slot
 * @param flush the end of the server's WAL
 * @param marks the marks of the tables in the target that a job of this slot has made
 * @param checkTimeline
 *   throws PGOUTPUT_TIMELINE if the timeline of the server branched off from that of a state below an LSN
 * @param unread the tables of the target that cannot be read, so it is not known what marks they have
 * @param gone the oids of known tables that the server does not have any more
 */
final case class FoundJob(
    kept: Option[JobState],
    confirmed: Option[Long],
    flush: Long,
    isInRecovery: Boolean,
    marks: Seq[FoundMark],
    checkTimeline: (JobState, Long) => Unit,
    unread: Set[String] = Set.empty,
    gone: Set[Long] = Set.empty
)

/**
 * The decision how a job starts.
 *
 * @param needsSlot whether the slot is to be made. Then the job goes on with [[withSlot]].
 */
final case class JobStart(state: JobState, needsSlot: Boolean) {

  /** @param lsn the confirmed LSN of the slot that was made */
  def withSlot(lsn: Long): JobStart = JobStart(state.copy(confirmed = lsn), needsSlot = false)
}

object JobStart {

  /**
   * Returns the tables whose generations must be closed in the target before the process reads the marks:
   *
   *  - all that have rows, if the server is on another timeline than at the last start. An older process that is
   *    slow to end can have read changes that the server lost in a failover. After the marks are compared with
   *    the branch of the timeline, it must not commit them.
   *  - a live mirror and its history that have different generations. The last process ended in order, and gave up a
   *    requested copy between its two commits. Each of the two tables is right as of its own mark, and goes on under
   *    one generation.
   *
   * @param generation the newest generation that a table of the target has of its owner; None if it has none
   */
  def closed(
      fresh: JobState,
      kept: JobState,
      generation: TableState => Option[Int]
  ): Seq[TableState] = kept.tables.values.filter { table =>
    def found = table.parts.map(generation)
    table.owns && (kept.timeline != fresh.timeline || table.status == Live &&
      found.forall(_.exists(_ >= table.generation)) && found.distinct.length > 1)
  }.toSeq

  /**
   * Decides how a job starts.
   *
   * @param fresh
   *   the state of a new job, by the options of this start and the server. A job that goes on has the same source, and
   *   keeps its id, its confirmed LSN and its tables.
   */
  def of(fresh: JobState, found: FoundJob): JobStart = found.kept match {
    case None =>
      // The slot has passed changes. The tables can lack some of them, and it is not known which ones.
      if (found.marks.nonEmpty)
        throw new LakeException("PGOUTPUT_CHECKPOINT_LOST.NO_STATE", "target" -> fresh.target)
      // Nothing was read. If the slot exists, the job or its user has made it for this job.
      val start = JobStart(fresh, needsSlot = found.confirmed.isEmpty)
      found.confirmed.fold(start)(start.withSlot)
    case Some(kept) =>
      check(fresh, found, kept)
      checkSlot(found, kept)
      checkTarget(fresh, found, kept)
      val tables = kept.tables.filterNot { case (_, table) => isForgotten(found, table) }.map {
        case (oid, table) => oid -> withMark(fresh, found, kept, table)
      }
      checkServer(found, kept, tables.values)
      val current = tables.map { case (oid, table) =>
        oid -> inTarget(fresh, found, kept, reread(fresh, kept, table))
      }
      val state = fresh.copy(
        id = kept.id,
        confirmed = kept.confirmed,
        tables = current,
        startedFor = kept.startedFor
      )
      JobStart(state, needsSlot = false)
  }

  /**
   * All rows of a table must be converted by the same values of the options. So if a value changes, the table is
   * copied again. Only a change from `infinity` = `error` needs no copy: no row of such a table has an infinite value.
   */
  private def reread(fresh: JobState, kept: JobState, table: TableState): TableState = {
    def has(types: String*) = table.table.source.columns.exists(column =>
      // A user-defined type can contain any other type.
      BuiltInTypes.byOid.get(column.readType).forall(found => types.exists(found.name.contains))
    )
    val changed =
      if (
        fresh.infinity != kept.infinity && kept.infinity != InfinityMode.Error.name &&
        has("date", "timestamp", "tsrange", "tstzrange")
      ) Some("infinity")
      else if (fresh.moneyScale != kept.moneyScale && has("money")) Some("moneyScale")
      else None
    changed.filter(_ => !table.needsCopy && table.isFollowed).fold(table)(option =>
      table.copying(s"The option $option has changed.")
    )
  }

  /**
   * A table that is not in the new target of a job has no mark there, so the state forgets its mark. Otherwise, a start
   * before its copy would take the target for one that has lost its tables: see [[checkTarget]].
   */
  private def inTarget(fresh: JobState, found: FoundJob, kept: JobState, table: TableState) =
    if (fresh.target != kept.target && table.needsCopy && !found.marks.exists(_.oid == table.oid))
      table.copy(mark = None)
    else table

  private def check(fresh: JobState, found: FoundJob, kept: JobState): Unit = {
    if (fresh.source != kept.source)
      throw new LakeException(
        "PGOUTPUT_OTHER_JOB.OTHER_CHECKPOINT",
        "kept" -> kept.source,
        "found" -> fresh.source
      )
    found.marks.map(_.job).find(_ != kept.id).foreach(other =>
      throw new LakeException("PGOUTPUT_OTHER_JOB.TWO_JOBS", "one" -> kept.id, "other" -> other)
    )
  }

  private def checkSlot(found: FoundJob, kept: JobState): Unit = {
    val confirmed = found.confirmed.getOrElse(
      throw new LakeException(
        "PGOUTPUT_SLOT_NOT_FOUND.OF_JOB",
        "slot" -> kept.slot,
        "database" -> kept.database
      )
    )
    SlotChecks.notMoved(kept.slot, kept.confirmed, confirmed)
  }

  /**
   * If a target has lost several tables at once, its disk is probably not mounted. New tables would be made on another
   * disk. When the disk is mounted again, its tables would be copied again, and histories would lack changes. A user
   * can have removed a single table, or have named another target.
   */
  private def checkTarget(fresh: JobState, found: FoundJob, kept: JobState): Unit = {
    val written = kept.written
    val isGone = found.marks.isEmpty && !kept.tables.values.exists(isUnread(found, _))
    if (isGone && written.length > 1 && fresh.target == kept.target)
      throw if (fresh.format != kept.format) new LakeException(
        "PGOUTPUT_MARK_LOST.OTHER_FORMAT",
        "target" -> kept.target,
        "tables" -> written.length,
        "kept" -> kept.format,
        "found" -> fresh.format
      )
      else new LakeException(
        "PGOUTPUT_MARK_LOST.NO_TABLE",
        "target" -> kept.target,
        "tables" -> written.length
      )
  }

  /** The server must have all that the job has read from it. */
  private def checkServer(found: FoundJob, kept: JobState, tables: Iterable[TableState]): Unit = {
    val has = kept.copy(tables = tables.map(table => table.oid -> table).toMap).walEnd
    found.checkTimeline(kept, has)
    // A standby that has started again can still replay what it had replayed before.
    if (!found.isInRecovery) SlotChecks.walEnd(kept.slot, has, found.flush)
  }

  /**
   * The job forgets a dropped table as soon as the target does not have the table, either. If the table has hidden
   * columns, the server must not have it, either.
   */
  private def isForgotten(found: FoundJob, table: TableState) =
    table.status == Dropped && (table.isForgettable || found.gone(table.oid)) &&
      !found.marks.exists(_.oid == table.oid) && !isUnread(found, table)

  private def isUnread(found: FoundJob, table: TableState) =
    table.table.targets.exists(target => found.unread.exists(_.equalsIgnoreCase(target)))

  /**
   * Accepts the mark that the table of the target has. Its rows are the rows that the table of the server had
   * at the mark, no matter which process and generation has written them. So a mark is right if it is equal
   * to the one in the state, or greater. A lower one means that the table was restored.
   *
   * A mirror and its history can have different marks, if a process ended between two commits. The queue then begins at
   * the lesser one. If the process was killed between the commits of a copy, the table is copied again.
   *
   * A table that cannot be read keeps the mark that the state has, because each commit compares the marks, and the
   * work on this table meets its error. On another timeline, an older process could still commit what the server has
   * lost: the generation of this table is not closed.
   */
  private def withMark(
      fresh: JobState,
      found: FoundJob,
      job: JobState,
      kept: TableState
  ): TableState = {
    val parts = kept.table.targets.map { target =>
      target -> found.marks.find(mark =>
        mark.target.equalsIgnoreCase(target) && mark.oid == kept.oid &&
          mark.generation >= kept.generation
      )
    }
    val marks = parts.flatMap(_._2)
    val generation = marks.map(_.generation).foldLeft(kept.generation)(math.max)
    def lsn(part: Option[FoundMark]) = part.filter(_.generation == generation).flatMap(_.mark)
    def lacks(least: Long) = parts.find(part => !lsn(part._2).exists(!Lsn.isBelow(_, least)))
    def has(least: Long) = parts.nonEmpty && lacks(least).isEmpty
    val table = kept.copy(generation = generation)
    def withMarks(status: TableStatus) = {
      val lsns = marks.flatMap(_.mark).sortWith(Lsn.isBelow)
      val (least, greatest) = (lsns.headOption, lsns.lastOption)
      table.copy(status = status, mark = least, ahead = greatest.filterNot(least.contains))
    }
    kept.status match {
      case Copying(_, Some(lsn)) if has(lsn) => withMarks(Live).copy(former = None)
      // Another process may still commit this copy. Its commit must not count, because this process has no queue for
      // the changes after the copy.
      case Copying(reason, _)                         => table.copy(status = Copying(reason))
      case Dropped | Excluded | Failed(_, _, true, _) => table
      case _ if isUnread(found, kept) =>
        if (fresh.timeline == job.timeline) table
        else table.copying("The timeline of the server has changed, and the table cannot be read.")
      case status if has(kept.mark.getOrElse(0L)) => withMarks(status)
      case _ =>
        val (target, part) = lacks(kept.mark.getOrElse(0L)).getOrElse(kept.target -> None)
        table.copying(
          lsn(part).fold(
            if (fresh.target != job.target)
              s"The target was ${job.target} before, and ${fresh.target} does not have the table $target of the job."
            else
              s"The table $target of the target has no mark: it was removed or replaced, or an " +
                "older state of it was restored."
          )(lsn =>
            s"The table $target of the target has the mark ${Lsn.format(lsn)} and had " +
              s"${Lsn.format(kept.mark.getOrElse(0L))} before. An older state of it was restored."
          )
        )
    }
  }
}
