package io.sparkpgoutput.lake.job

import java.time.Duration
import java.util.UUID

import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pgoutput.LocalFolder
import org.apache.spark.sql.types.{LongType, StructType}

import io.sparkpgoutput.errors.{LakeException, SourceException}
import io.sparkpgoutput.lake.catalog.{
  MirroredTable,
  PublishedTables,
  ServerReadiness,
  TableError,
  TableMode
}
import io.sparkpgoutput.lake.core.{FoundJob, FoundMark, JobStart, JobState, TableState, TableStatus}
import io.sparkpgoutput.lake.direct.KeyCache
import io.sparkpgoutput.lake.folder.{JobFolder, ResyncAllRequest, ResyncRequest}
import io.sparkpgoutput.lake.queue.SlotReader
import io.sparkpgoutput.lake.target.{OwnTable, OwnTables, Target, TargetError, Targets}
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.session.SessionSettings
import io.sparkpgoutput.source.slot.{
  Server,
  SlotChecks,
  SlotCreation,
  SlotHolder,
  SlotRemoval,
  SlotState
}

/** Checks everything that a job needs, before it changes anything. */
private[job] object JobSetup {

  /**
   * Returns a job that can run.
   *
   * @throws LakeException that names everything that is missing
   */
  def ready(session: SparkSession, options: ReplicateOptions, log: JobLog): ReadyJob = {
    options.statusFile.foreach(new StatusFile(_).check())
    val client = new ServerClient(options.address, options.applicationName)
    try {
      client.limitLockWaits(LockWait)
      val folder = JobFolder.of(session, options.checkpoint)
      folder.check()
      val kept = folder.read()
      // An error of the target waits, because the server says best what is wrong with the connection.
      val keys = new KeyCache(
        options.keyCacheMemory,
        options.keyCacheDisk,
        LocalFolder.make("spark-pgoutput-keys")
      )
      val target = Try(Targets.of(session, options.target, options.format, keys))
      if (kept.isEmpty) firstStart(options, client, target)
      new ReadyJob(options, client, folder, kept, new OwnTables(session, target.get), log)
    } catch {
      case error: Throwable =>
        client.close()
        throw error
    }
  }

  /** One error names everything that is missing, at the server and in the lake. */
  private def firstStart(
      options: ReplicateOptions,
      client: ServerClient,
      target: Try[Target]
  ): Unit = {
    val (ofServer, isFree) = client.query { connection =>
      // An old version is an error of its own.
      if (connection.majorVersion < Server.OldestVersion) Nil -> false
      else {
        val tables =
          PublishedTables.read(connection, options.publications, waitsForLocks = false)
        ServerReadiness.of(connection, tables, options.publications).job ->
          SlotState.read(connection, options.slot).forall(_.holder.isEmpty)
      }
    }
    // If somebody else reads the slot, that is an error of its own, and nothing is written before.
    val ofTarget = target.flatMap(found => Try(if (isFree) write(found))).failed.toOption
    if (ofServer.nonEmpty) throw TableError.notReady(ofServer ++ ofTarget.map {
      case known: LakeException => known.sentences
      case other                => String.valueOf(other.getMessage)
    })
    ofTarget.foreach(error => throw error)
  }

  /** Shows that the target can be written. */
  private def write(target: Target): Unit =
    if (target.tables().isEmpty)
      try {
        target.drop(Attempt)
        target.create(Attempt, new StructType().add("attempt", LongType), Nil, Map.empty)
        target.drop(Attempt)
      } catch {
        case known: LakeException => throw known
        case NonFatal(problem) =>
          throw TargetError.notWritable(s"the table ${target.sqlName(Attempt)}", problem)
      }

  /** How long a query of the catalog waits for an ALTER TABLE. All tables wait for the query. */
  private val LockWait = Duration.ofMillis(500)

  private val Attempt = "_spark_pgoutput_attempt"
}

/**
 * A job whose parts exist. [[open]] makes the slot if needed.
 *
 * @param kept the newest epoch and its state, if there is one
 */
final private[job] class ReadyJob(
    val options: ReplicateOptions,
    val client: ServerClient,
    val folder: JobFolder,
    kept: Option[(Long, JobState)],
    val ownTables: OwnTables,
    val log: JobLog
) {
  val server: Server = client.replication(Server.of)

  /** The newest epoch that exists; 0 if there is none. */
  val epoch: Long = kept.fold(0L)(_._1)

  private val keptState = kept.map(_._2)

  private val fresh = JobState(
    UUID.randomUUID().toString,
    server.systemIdentifier,
    server.timeline,
    server.database,
    options.slot,
    options.publications,
    options.target,
    ownTables.target.format,
    confirmed = 0,
    infinity = options.infinity.name,
    moneyScale = options.moneyScale,
    serverStarted = Some(server.started)
  )

  private val slot = client.query(SlotState.read(_, options.slot))
  private val requests = folder.requests().collect {
    case request @ (_: ResyncAllRequest | _: ResyncRequest) => request
  }

  /** The tables of the target that cannot be read. */
  private val unread = mutable.Set.empty[String]
  private val jobTables = tables()
  private val histories = jobTables.map(table => table.target -> table.properties.mode)
    .collect { case (name, mode: TableMode.History) => MirroredTable.folded(name) -> mode }.toMap
  val catalog = new ServerCatalog(client, server, options, ownTables.target, histories)

  /** The requests in the folder and in tables. The tables of another job of this slot can be left, and keep theirs. */
  private val requestsForAll = requests.collect { case ResyncAllRequest(id) => id } ++
    jobTables.filter(table => keptState.forall(_.id == table.properties.job))
      .flatMap(_.properties.startOver)

  /** The requests with which the job has started over. If an older state of a table is restored, it has an old one. */
  private val startedFor = keptState.toSeq.flatMap(_.startedFor)

  /** Whether a user has asked to start over with a new slot and copies of all tables, and no process has done so. */
  val startsOver: Boolean = !requestsForAll.forall(startedFor.contains)

  private val start = if (startsOver) startOver() else goOn()

  catalog.checkJob(catalog.all(start.state), isFirst = kept.isEmpty, log)
  checkModes()
  client.query(SlotChecks.publications(_, options.publications)): Unit
  // A slot that is left without a job holds back WAL of the server.
  if (start.needsSlot) folder.tryWrite()

  /** The tables of the job. A table that was left out when the job started over names the earlier slot. */
  private def tables() =
    read(table => table.slot == options.slot || keptState.exists(_.id == table.job))

  private def read(wanted: OwnTables.Properties => Boolean): Seq[OwnTable] = {
    val tables = ownTables.found(wanted)
    tables.unread.foreach { case (table, error) => cannotRead(table, error) }
    tables.own
  }

  /** A table that nobody can read stops no other table. It can be another user's. */
  private def cannotRead(table: String, error: Throwable): Unit =
    if (unread.add(table))
      log.warn(
        s"The table ${ownTables.target.sqlName(table)} cannot be read. ${TableFailures.text(error)}"
      )

  def state: JobState = start.state

  /** Returns whether an earlier process of the job has written the state since this one has read it. */
  private def isOvertaken: Boolean = !folder.isNewest(kept)

  /** Returns whether the slot has moved because an earlier process of the job has written its state since. */
  def isOfOldState(error: SourceException): Boolean =
    error.getCondition == "PGOUTPUT_SLOT_MOVED" && isOvertaken

  /** Takes the next epoch, unless an earlier process has written what this one has not read, such as a request. */
  def take(state: JobState): Boolean = folder.takeAfter(kept, state)

  /**
   * Takes over from an earlier process, which can write newer states all the time. The start is tried again with the
   * last one of them. This process holds the slot.
   */
  def takeOver(): Nothing = {
    folder.takeOver(kept)
    throw new StartAgain
  }

  private def goOn(): JobStart = {
    slot.foreach(slot => SlotChecks.readable(Some(slot), server, options.slot))
    checkHolder(keptState.map(_.id))
    def madeFor(part: TableState) = jobTables.find(table =>
      isOfState(table) && table.properties.oid == part.oid &&
        table.target.equalsIgnoreCase(part.target) && table.generation >= part.generation
    )
    val closed = keptState.toSeq
      .flatMap(JobStart.closed(fresh, _, madeFor(_).map(_.generation)))
      .map(_.parts.filter(madeFor(_).exists(made => valid(made.target, made.mark()).nonEmpty)))
      .filter(_.nonEmpty)
    closed.foreach(parts => close(parts.map(_.target): _*))
    val now = if (closed.isEmpty) jobTables else tables()
    val marks = now.filter(table =>
      // After pg_upgrade, the state knows the new server, and the tables know the old one.
      isOfState(table) || isOfServer(table)
    ).map(table =>
      FoundMark(
        table.target,
        table.properties.job,
        table.properties.oid,
        table.generation,
        valid(table.target, table.mark())
      )
    )
    val parts = FoundJob(
      keptState,
      slot.flatMap(_.confirmedFlush),
      client.query(Server.flushLsn),
      server.inRecovery,
      marks,
      (kept, lsn) => client.replication(SlotReader.checkTimeline(server, kept, lsn)),
      unread.toSet,
      client.query(_.query(
        "SELECT unnest(?::oid[])::bigint AS oid EXCEPT SELECT oid::bigint FROM pg_class",
        PublishedTables.array(keptState.toSeq.flatMap(_.tables.keys))
      )(_.getLong("oid"))).toSet
    )
    val start =
      try JobStart.of(fresh, parts)
      catch { case moved: SourceException if isOfOldState(moved) => throw new StartAgain }
    for {
      before <- keptState.toSeq
      table <- start.state.tables.values
      if table.needsCopy && before.tables.get(table.oid).exists(!_.needsCopy)
    } log.warn(s"The table ${table.name} is copied again. ${table.status.why.getOrElse("")}")
    start
  }

  /** Whether the job of the state has made the table. */
  private def isOfState(table: OwnTable) = keptState.exists(_.id == table.properties.job)

  private def isOfServer(table: OwnTable) = table.properties.database == server.database &&
    table.properties.systemIdentifier == server.systemIdentifier

  /** Reads the mark of a table. If the rows were restored, no mark is valid. */
  private def valid(table: String, mark: => Option[Long]): Option[Long] =
    try mark
    catch {
      case known: LakeException if known.getCondition == "PGOUTPUT_MARK_LOST" => None
      case NonFatal(error) =>
        cannotRead(table, error)
        None
    }

  private def close(tables: String*): Unit =
    try ownTables.close(tables: _*): Unit
    catch { case NonFatal(error) => tables.foreach(cannotRead(_, error)) }

  /** Fails if somebody else reads the slot. An earlier process of the same job is ended later. */
  private def checkHolder(job: Option[String]): Unit = slot.flatMap(_.holder).foreach { holder =>
    if (!job.exists(isOfJob(_, holder))) throw holder.error(options.slot)
  }

  private def isOfJob(job: String, holder: SlotHolder) =
    SessionSettings.isOfSource(job, holder.applicationName)

  /**
   * A table keeps its mode, even if it was renamed and the options give its new name another mode. Only a mirror can
   * get a history, and lose it.
   */
  private def checkModes(): Unit = start.state.tables.values.filter(_.owns).foreach { table =>
    val (kept, wanted) = (table.table.mode, options.modeOf(table.name))
    val isPossible = wanted != TableMode.Versions || table.table.source.key.nonEmpty ||
      options.namesMode(table.name)
    val change = Set(kept.name, wanted.name)
    val both = TableMode.Both.name
    if (isPossible && change.size > 1 && change != Set(TableMode.Mirror.name, both))
      log.warn(
        s"The table ${table.name} keeps its mode ${kept.name}, although the option mode says ${wanted.name}. " +
          (if (kept.name == TableMode.Mirror.name && wanted.name == TableMode.History.name)
             s"Set mode.${table.name}=$both to have its history, too."
           else
             "To have it in the other mode too, start another job with its own slot, target and checkpoint.")
      )
  }

  // A job that starts over.

  /**
   * The state of a job that starts over with a new slot and copies of all tables. What it had at the
   * server, and its checkpoint folder, can be lost.
   */
  private def startOver(): JobStart = {
    val id = keptState.fold(jobTables.map(_.properties.job).distinct match {
      case Seq(one) => one
      case one +: another +: _ =>
        throw new LakeException("PGOUTPUT_OTHER_JOB.TWO_JOBS", "one" -> one, "other" -> another)
      case _ =>
        throw new LakeException("PGOUTPUT_REPLICATE_OPTION.NO_JOB", "target" -> options.target)
    })(_.id)
    slot.foreach { slot =>
      if (keptState.exists(_.slot != options.slot))
        throw new LakeException(
          "PGOUTPUT_REPLICATE_OPTION.OTHER_SLOT_EXISTS",
          "slot" -> options.slot
        )
      SlotChecks.replaceable(slot, server)
    }
    checkHolder(Some(id))
    val isSameServer = keptState.exists(_.systemIdentifier == server.systemIdentifier)
    val tables = keptState.toSeq.flatMap(_.tables.values).filter(table =>
      isSameServer && !table.isForgettable
    ).map(table => table.oid -> (if (table.isFollowed) again(table) else table)).toMap
    JobStart(
      fresh.copy(id = id, tables = tables, startedFor = nowStartedFor),
      needsSlot = true
    )
  }

  /**
   * The ids of the requests with which this process starts over, and the last 100 before them. A request without an id
   * cannot be distinguished from a later one, so it is left out.
   */
  private def nowStartedFor =
    (requests.map(_.id) ++ requestsForAll.filter(_ != OwnTables.UnnamedRequest) ++
      startedFor.take(100)).distinct

  private def again(table: TableState) = table.keepingFormer.copy(
    status = TableStatus.Copying("A copy of all tables was requested."),
    next = None,
    mark = None
  )

  /** Makes the slot if needed. The slot comes first, so that no change is missed. */
  def open(): JobState = {
    if (startsOver) {
      // Another process of the job can have started over for the same request. Its slot is not dropped.
      if (isOvertaken) throw new StartAgain
      log.tell("All tables are copied again, with a new slot, as was requested.")
      // From now on, a process that knows only the earlier copies cannot write the tables.
      read(_.job == start.state.id).foreach(table => close(table.target))
      keptState.map(_.slot).filter(_ != options.slot).foreach(warnOfSlot)
      // The steps above can have taken long.
      if (isOvertaken) throw new StartAgain
      SlotRemoval.drop(options.address, options.slot)(holder =>
        isOfJob(start.state.id, holder) && !isOvertaken
      )
    }
    if (!start.needsSlot) {
      // It can be the slot of another job or query by mistake, which could not go on.
      if (keptState.isEmpty)
        log.tell(s"The job reads the slot ${options.slot}, which exists. Nothing else may read it.")
      start.state
    } else {
      log.tell(s"The server makes the slot ${options.slot}.")
      SlotCreation.create(options.address, options.slot, options.failover)
      val made = client.query(SlotState.read(_, options.slot))
      start.withSlot(SlotChecks.readable(made, server, options.slot).confirmedFlush.get).state
    }
  }

  private def warnOfSlot(slot: String): Unit =
    if (client.query(SlotState.read(_, slot)).nonEmpty)
      log.warn(
        s"The job does not read the slot $slot any more, which holds back WAL of the server. If nobody " +
          s"else reads it, drop it: SELECT pg_drop_replication_slot('$slot')"
      )

  /** The process has its epoch, with a state in which the requests are done. [[Requests]] removes their files. */
  def taken(): Unit = {
    val own = jobTables.filter(_.properties.job == start.state.id)
    // A table of which an older state was restored can have a request, too.
    if (startsOver || own.exists(_.properties.startOver.nonEmpty)) forgetStartOver()
    if (!startsOver) own.filterNot(isOfServer).foreach { table =>
      // The next process notes it, if this one cannot.
      try ownTables.noteServer(table.target, start.state)
      catch { case NonFatal(error) => cannotRead(table.target, error) }
    }
  }

  private def forgetStartOver(): Unit = {
    def unlessAway(table: String)(change: => Unit): Unit =
      try change
      catch {
        case NonFatal(error) =>
          log.warn(
            s"$table can still ask for copies of all tables, because it cannot be changed: " +
              s"${TableFailures.text(error)} If the checkpoint folder is lost, the job makes these copies again."
          )
      }
    unlessAway("A table of the target") {
      read(table => table.job == start.state.id && table.startOver.nonEmpty).foreach { table =>
        unlessAway(s"The table ${ownTables.target.sqlName(table.target)}") {
          ownTables.forgetStartOver(table.target)
        }
      }
    }
  }
}
