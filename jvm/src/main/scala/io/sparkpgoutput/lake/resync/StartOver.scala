package io.sparkpgoutput.lake.resync

import org.apache.spark.sql.SparkSession

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.state.{
  JobState,
  KeptState,
  SlotIdentity,
  TableState,
  TableStatus,
  TargetMarks
}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.{MirroredTable, SourceTable}
import io.sparkpgoutput.lake.target.TargetNames.folded
import io.sparkpgoutput.lake.target.{Target, TargetNames}

/**
 * Begins a job anew in its target: all tables are copied again, with a new slot and a new checkpoint. What
 * the job had at the server, and its checkpoint, can be lost. These are the steps:
 *
 *   1. Each table of the job gets a mark of the next generation, with the rows that it has. From then on,
 *      no other process that still runs can write it.
 *   1. Each table gets the properties of the job as it is now, whose server can be another one.
 *   1. The state is written: all tables are to be copied, the slot is to be made, and the checkpoint has a
 *      new generation. The same commit takes the request away.
 *   1. The slot is made, in place of the one that is there.
 *   1. Each copy replaces the rows of its table, which readers had until then. New tables are made.
 *   1. The stream begins, with a new checkpoint.
 *
 * A job that is killed before the third step finds the request again. After it, the state says what is
 * left to do.
 *
 * @param tables the published tables, of which none is copied
 * @param requests the ids of all requests of copies
 */
final class StartOver(
    session: SparkSession,
    target: Target,
    job: JobState,
    tables: Seq[TableState],
    requests: Seq[Long]
) {

  /** Does the first three steps. */
  def run(state: KeptState, log: JobLog): Unit = {
    log.tell("All tables are copied again, with a new slot and a new checkpoint, as was requested.")
    val own = TargetMarks.jobs(target).collect { case (table, job.id) => table }
    val generations =
      own.map(table => folded(table) -> TargetMarks.close(session, target, table)).toMap
    tables.foreach { table =>
      val closed = generations.get(folded(table.target))
      val begun = closed.fold(table)(generation => table.copy(generation = generation))
      if (closed.nonEmpty) TargetMarks.renew(target, job, begun)
      state.put(begun)
    }
    val published = tables.map(table => folded(table.target)).toSet
    own.filterNot(table => published(folded(table))).foreach { table =>
      TargetMarks.leave(target, table, generations(folded(table)))
      log.warn(s"The table $table stays as it is: no published table has its name in the target.")
    }
    requests.foreach(state.take)
    state.save()
    WaitingTables.found(target).foreach(waiting => target.drop(waiting.name))
  }
}

object StartOver {

  /** Ends a job that runs, because a user has asked it to begin anew. */
  final class Requested extends RuntimeException("A copy of all tables was requested.")

  /**
   * Returns the job as it begins anew.
   *
   * @param kept the job as its state has it; None if the state is lost
   * @param marked the jobs that have made tables of the target
   * @param generation the newest generation that has a checkpoint
   * @throws LakeException if nothing tells which job it is
   */
  def job(
      source: SlotIdentity,
      kept: Option[JobState],
      marked: Seq[String],
      generation: Int
  ): JobState = {
    val id = kept.map(_.id).getOrElse(marked.distinct match {
      case Seq(one)            => one
      case one +: another +: _ => throw LakeError.twoJobs(one, another)
      case _                   => throw LakeError.noJob(source.toString)
    })
    JobState(
      id,
      source.systemIdentifier,
      source.database,
      source.slot,
      firstLsn = 0,
      end = None,
      generation = kept.map(_.generation).fold(generation)(math.max(_, generation)) + 1,
      needsSlot = true
    )
  }

  /**
   * Finds the tables that the job has already, and which keep their names in the target. A table of the
   * same server that was renamed has its oid. Another server can have other oids.
   */
  def known(
      published: Seq[SourceTable],
      kept: Seq[MirroredTable],
      sameServer: Boolean
  ): Seq[MirroredTable] = {
    val byName = kept.map(table => table.source.name -> table).toMap
    val names = published.map(_.name).toSet
    val byOid = kept.filterNot(table => names(table.source.name))
      .map(table => table.source.oid -> table).toMap
    published.flatMap { source =>
      byName.get(source.name).orElse(byOid.get(source.oid).filter(_ => sameServer))
        .map(_.copy(source = source))
    }
  }

  /** The states of tables before their copies. */
  def begun(tables: Seq[MirroredTable]): Seq[TableState] =
    tables.map(TableState(_, Map.empty, 1, TableStatus.Copying, mark = None, lastChange = None))

  /**
   * Checks that the job does not write a table that it has not made, or a history in another order.
   *
   * @param flushed the end of the server's WAL
   */
  def checkOwn(
      session: SparkSession,
      target: Target,
      job: JobState,
      tables: Seq[MirroredTable],
      flushed: Long
  ): Unit = {
    val jobs = TargetMarks.jobs(target)
    val names = target.tables().filterNot(TargetNames.isReserved)
      .map(table => folded(table) -> table).toMap
    for (table <- tables; name <- names.get(folded(table.target))) {
      if (!jobs.get(name).contains(job.id)) throw LakeError.foreignTable(target.sqlName(name))
      TargetMarks.checkMode(table, target.properties(name))
      HistoryOrder.check(session, target, table, flushed)
    }
  }
}
