package io.sparkpgoutput.lake.job

import java.util.UUID

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.resync.FoundWaiting
import io.sparkpgoutput.lake.state.{JobState, MarkedTable, SlotIdentity, TableState, TableStatus}
import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.protocol.Lsn

/**
 * The parts of a job that exist when it starts. Each part can be lost without the others.
 *
 * @param hasCheckpoint
 *   whether a micro-batch was planned, by the checkpoint that belongs to the state
 * @param confirmed the confirmed LSN of the slot; None if there is no slot
 * @param kept what the target's state table has
 * @param marked the tables in the target whose properties name this slot
 * @param generation the generation of the checkpoint
 */
final case class FoundState(
    source: SlotIdentity,
    hasCheckpoint: Boolean,
    confirmed: Option[Long],
    kept: Option[(JobState, Seq[TableState])],
    marked: Seq[MarkedTable],
    generation: Int = 1
)

/**
 * The decision how a job starts.
 *
 * @param needsSlot true if the slot is to be made
 * @param lostState the tables whose states are to be found anew
 */
final case class JobStart(
    job: JobState,
    tables: Seq[TableState],
    needsSlot: Boolean,
    lostState: Seq[MarkedTable]
)

object JobStart {

  /**
   * Decides how a job starts. A job makes the slot only if nothing was applied yet. Otherwise the slot
   * must still have everything that the tables lack.
   */
  def of(found: FoundState): JobStart = {
    found.kept.foreach { case (job, tables) =>
      checkJob(found.source, job)
      tables.filter(_.isLive).foreach(checkLive(found, _))
    }
    found.marked.map(_.job).distinct match {
      case one +: another +: _ => throw LakeError.twoJobs(one, another)
      case _                   => ()
    }
    found.kept match {
      // Nothing is copied before the slot is made.
      case Some((job, tables)) if job.needsSlot => JobStart(job, tables, needsSlot = true, Nil)
      case kept =>
        val isNew = !found.hasCheckpoint && marks(found).isEmpty && !kept.exists(_._1.isAnew)
        if (isNew) begin(found) else goOn(found)
    }
  }

  /** Nothing was applied. A slot that is there was made for this job, by the job or by its user. */
  private def begin(found: FoundState): JobStart = {
    val job = found.kept.map(_._1).getOrElse(
      JobState(
        found.marked.headOption.fold(UUID.randomUUID().toString)(_.job),
        found.source.systemIdentifier,
        found.source.database,
        found.source.slot,
        firstLsn = 0,
        end = None
      )
    )
    JobStart(
      job.copy(firstLsn = found.confirmed.getOrElse(0L), end = None),
      Nil,
      needsSlot = found.confirmed.isEmpty,
      lostState = Nil
    )
  }

  private def goOn(found: FoundState): JobStart = {
    val confirmed = found.confirmed.getOrElse(throw LakeError.slotLost(found.source.toString))
    if (found.kept.isEmpty && found.marked.isEmpty) throw LakeError.onlyCheckpoint
    if (!found.hasCheckpoint) checkConfirmed(found, confirmed)
    found.kept match {
      case Some((job, tables)) =>
        JobStart(job, tables.map(withMark(found, _)), needsSlot = false, Nil)
      case None =>
        val job = JobState(
          found.marked.head.job,
          found.source.systemIdentifier,
          found.source.database,
          found.source.slot,
          firstLsn = confirmed,
          // Without a checkpoint, some tables can still be without a copy.
          end = Option.when(found.hasCheckpoint)(confirmed),
          generation = found.generation
        )
        JobStart(job, Nil, needsSlot = false, lostState = found.marked.filterNot(isLeft(found, _)))
    }
  }

  /** A history that could not go on when the job began anew is left beside the one that follows it. */
  private def isLeft(found: FoundState, table: MarkedTable) = table.stopped.nonEmpty &&
    found.marked.exists(other => other.oid == table.oid && other.stopped.isEmpty)

  /** A catalog can keep names in lower case. */
  private def marked(found: FoundState, table: TableState): Option[MarkedTable] =
    found.marked.find(_.target.equalsIgnoreCase(table.target))

  /** The mark in the table is what counts. A table that has one is copied. */
  private def withMark(found: FoundState, table: TableState): TableState =
    markOf(found, table).fold(table) { mark =>
      val has = table.copy(mark = Some(mark))
      if (table.status == TableStatus.Copying)
        has.copy(status = TableStatus.Live, copied = Some(mark))
      else has
    }

  /** The mark of the copy that the state knows. */
  private def markOf(found: FoundState, table: TableState): Option[Long] =
    marked(found, table)
      .filter(marked => marked.oid == table.oid && marked.generation == table.generation)
      .flatMap(_.mark)

  /** Without a checkpoint, the stream begins at the confirmed LSN, and nothing below it comes. */
  private def checkConfirmed(found: FoundState, confirmed: Long): Unit = {
    val limit = found.kept match {
      case Some((job, _)) if job.end.isEmpty =>
        val first = job.firstLsn
        if (confirmed != first) throw LakeError.slotMoved(found.source.slot, first, confirmed)
        first
      case Some((job, tables)) =>
        // A copy can be newer than what the stream has reached.
        val copied = tables.flatMap(table => table.copied.map(table.target -> _)).toMap
        val streamed = found.marked.filter(_.stopped.isEmpty)
          .filterNot(table => table.mark == copied.get(table.target))
        (job.end ++ streamed.flatMap(_.mark)).reduce((one, other) => Lsn.max(one, other))
      case None => marks(found).reduce((one, other) => Lsn.min(one, other))
    }
    if (Lsn.isBelow(limit, confirmed))
      throw LakeError.slotMoved(found.source.slot, limit, confirmed)
  }

  private def marks(found: FoundState): Seq[Long] = found.marked.flatMap(_.mark)

  /** Checks that a job goes on with the slot that it had. */
  def checkJob(source: SlotIdentity, job: JobState): Unit = {
    val kept = SlotIdentity(job.systemIdentifier, job.database, job.slot)
    if (kept != source) throw LakeError.otherSource(kept.onServer, source.onServer)
  }

  /** A live table has the mark that was read back, or a later one. */
  private def checkLive(found: FoundState, state: TableState): Unit =
    markOf(found, state) match {
      case None => throw LakeError.markLost(state.target)
      case Some(mark) =>
        if (state.mark.exists(Lsn.isBelow(mark, _)))
          throw LakeError.markWentBack(state.target, state.mark.get, mark)
    }

  /**
   * Returns the state of a table whose state was lost. Its mark says what it has.
   *
   * @param tables the tables by the catalog of now
   * @param waiting the tables of the target in which changes wait
   */
  def rebuilt(
      job: JobState,
      marked: MarkedTable,
      tables: Seq[MirroredTable],
      waiting: Seq[FoundWaiting]
  ): TableState = {
    val table = tables.find(_.source.oid == marked.oid)
      .getOrElse(throw LakeError.stateLost(marked.target, "It is not published any more."))
    val waits = waiting.filter(_.oid == marked.oid).map(_.generation).maxOption
      .filter(_ >= marked.generation)
    val status = (waits, marked.stopped, marked.mark) match {
      case (None, Some(reason), _)               => TableStatus.Stopped(reason)
      case (None, None, Some(_))                 => TableStatus.Live
      case (None, None, None) if job.end.isEmpty => TableStatus.Copying
      // The stream has passed changes that are not in the table.
      case _ => TableStatus.Waiting("The state of the job was lost.")
    }
    TableState(
      table.copy(target = marked.target, mode = marked.mode),
      Map.empty,
      waits.getOrElse(marked.generation),
      status,
      marked.mark,
      None
    )
  }
}
