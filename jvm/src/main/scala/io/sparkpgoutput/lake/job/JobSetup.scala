package io.sparkpgoutput.lake.job

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.ClonedSession

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.follow.SourceCatalog
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.resync.{HistoryOrder, StartOver, WaitingTables}
import io.sparkpgoutput.lake.state.{
  CheckpointFolder,
  JobRequest,
  KeptState,
  ResyncAllRequest,
  ResyncRequest,
  SlotIdentity,
  StateTable,
  TargetMarks
}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.{MirroredTable, ServerReadiness}
import io.sparkpgoutput.lake.target.Target
import io.sparkpgoutput.source.SourceError
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotState}

/** Checks everything that a job needs, before it changes anything. */
object JobSetup {

  /**
   * Returns the job.
   *
   * @param log takes what the job tells
   * @param verified the tables that it verifies at its end
   */
  def job(
      session: SparkSession,
      options: ReplicateOptions,
      log: JobLog,
      verified: Seq[String]
  ): ReplicationJob = ClonedSession.run(session) { own =>
    val client = new ServerClient(options.address, options.applicationName)
    try {
      val target = FirstStart.target(own, options, client)
      new JobSetup(own, options, target, client, log, verified).job()
    } catch {
      case error: Throwable =>
        client.close()
        throw error
    }
  }
}

final private class JobSetup(
    session: SparkSession,
    options: ReplicateOptions,
    target: Target,
    client: ServerClient,
    log: JobLog,
    verified: Seq[String]
) {
  private val server = client.replication(Server.of)
  private val catalog = new SourceCatalog(client, server, options, target)
  private val store = new StateTable(session, target)
  private val found = store.read()
  private val source =
    SlotIdentity(server.systemIdentifier, server.database, options.slot)
  private val slot = client.query(SlotState.read(_, options.slot))
  private val newestCheckpoint =
    CheckpointFolder.newest(options.checkpoint, session.sparkContext.hadoopConfiguration)

  def job(): ReplicationJob = {
    val requests = store.requests()
    val isAnew = requests.exists {
      case _: ResyncAllRequest => true
      case _                   => false
    }
    if (isAnew) anew(requests) else goingOn()
  }

  private def goingOn(): ReplicationJob = {
    // Tables of a job with another slot seem to be somebody else's.
    found.foreach { case (job, tables) =>
      JobStart.checkJob(source, job)
      catalog.checkModes(tables)
    }
    val tables = neededTables()
    checkPermissions(tables)
    val needsSlot = found.exists(_._1.needsSlot)
    slot.foreach(found =>
      if (needsSlot) SlotChecks.replaceable(found, server)
      else SlotChecks.readable(Some(found), server, options.slot)
    )
    val generation = found.fold(newestCheckpoint)(_._1.generation)
    val isStarted = CheckpointFolder.isStarted(
      options.checkpoint,
      generation,
      session.sparkContext.hadoopConfiguration
    )
    val start = JobStart.of(
      FoundState(
        source,
        isStarted,
        slot.flatMap(_.confirmedFlush),
        found,
        TargetMarks.read(target, source, tables.map(_.target), found.map(_._1.id)),
        generation
      )
    )
    if (start.job.end.isEmpty && !isStarted) checkFree()
    val rebuilt =
      start.lostState.map(JobStart.rebuilt(start.job, _, tables, WaitingTables.found(target)))
    val state = new KeptState(store, start.job, start.tables ++ rebuilt)
    catalog.checkModes(state.tables)
    ready(state, start.needsSlot, None)
  }

  private def anew(requests: Seq[JobRequest]): ReplicationJob = {
    val kept = found.map(_._1)
    found.foreach { case (_, tables) => catalog.checkModes(tables) }
    val job = StartOver.job(source, kept, TargetMarks.jobs(target).values.toSeq, newestCheckpoint)
    val sameServer = kept.exists(_.systemIdentifier == source.systemIdentifier)
    val flushed = client.query(Server.flushLsn)
    // A history that cannot go on can get another name by the options.
    val named = StartOver.known(catalog.sources(), known, sameServer)
      .filter(HistoryOrder.ahead(session, target, _, flushed).isEmpty)
    val tables = catalog.read(named)
    checkPermissions(tables)
    slot.foreach { found =>
      if (kept.exists(_.slot != options.slot)) throw LakeError.otherSlotExists(options.slot)
      SlotChecks.replaceable(found, server)
    }
    checkFree()
    kept.filter(sameServer && _.slot != options.slot).foreach(job => warnOfSlot(job.slot))
    StartOver.checkOwn(session, target, job, tables, flushed)
    val begun = StartOver.begun(tables)
    val done = requests.collect { case request @ (_: ResyncRequest | _: ResyncAllRequest) =>
      request.id
    }
    val start = new StartOver(session, target, job, begun, done.distinct)
    ready(new KeptState(store, job, begun), needsSlot = true, Some(start))
  }

  private def ready(state: KeptState, needsSlot: Boolean, startOver: Option[StartOver]) = {
    FirstStart.write(target, store)
    new ReplicationJob(
      session,
      options,
      target,
      client,
      server,
      catalog,
      state,
      needsSlot,
      verified,
      startOver,
      log
    )
  }

  private def checkPermissions(tables: Seq[MirroredTable]): Unit =
    client.query(ServerReadiness.check(_, tables.map(_.source), options.publications))

  private def warnOfSlot(left: String): Unit =
    if (client.query(SlotState.read(_, left)).nonEmpty)
      log.warn(
        s"The job does not read the slot $left any more, which holds back WAL of the server. If nobody " +
          s"else reads it, drop it: SELECT pg_drop_replication_slot('$left')"
      )

  /** Fails if somebody reads the slot. */
  private def checkFree(): Unit = slot.flatMap(_.holder).foreach { holder =>
    throw SourceError.slotInUse(options.slot, holder.pid, holder.applicationName)
  }

  /**
   * Returns all tables if some are still to be copied. Otherwise returns the tables that the stream
   * changes.
   */
  private def neededTables(): Seq[MirroredTable] = found match {
    case Some((job, tables)) if job.end.nonEmpty =>
      val live = tables.filter(_.isLive).map(_.table)
      catalog.again(live).collect {
        case (source, Right(table)) if live.exists(_.source.oid == source.oid) => table
      }
    case Some(_) => catalog.read(known)
    // The state can be lost, and then a history keeps its columns.
    case None => catalog.read(Nil, TargetMarks.modes(target, source))
  }

  private def known = found.toSeq.flatMap(_._2).filter(_.generation > 0).map(_.table)
}
