package io.sparkpgoutput.lake.job

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{ErrorText, LakeException}
import io.sparkpgoutput.lake.catalog.QuotedName
import io.sparkpgoutput.lake.folder._
import io.sparkpgoutput.lake.target.{OwnTables, TargetNames, Targets}
import io.sparkpgoutput.lake.verify.VerifiedTable

/**
 * Handles the requests of users to a job that runs. Each request is a file in the checkpoint folder, which is
 * removed when the request is done, or when the state has it.
 *
 * @param look looks at the server's catalog
 */
final private[job] class Requests(job: JobParts, verifications: Verifications, look: () => Unit) {
  import job.{core, folder, log}

  /** The requests that are being handled. */
  private val underWay = ConcurrentHashMap.newKeySet[String]

  /**
   * The requests for copies that no durable state has yet, each with the tables that are left and the last revision.
   */
  private val resyncs = mutable.Map.empty[String, (Seq[TableName], Long)]

  /** The requests that could not be taken at the first attempt. */
  private val delayed = mutable.Set.empty[String]
  @volatile private var wereTaken = false

  /** The requests that are done and may still have a file. None of them is taken again. */
  private val ended = ConcurrentHashMap.newKeySet[String]

  /** The requests with which this process or an earlier one has started the job over. */
  private val startedFor = job.state.startedFor.toSet

  /** The requests that are done, whose files could not be removed. */
  private val unremoved = ConcurrentHashMap.newKeySet[String]
  private var nextCleaning = 0L

  /** Returns whether the requests that were there at the start are taken, and all that were taken are done. */
  def areDone: Boolean = wereTaken && underWay.isEmpty && !verifications.isBusy

  /** Takes new requests, and continues with those that are not done. One thread calls it. */
  def take(): Unit = {
    clean()
    try {
      resyncs.toSeq.foreach { case (id, (tables, revision)) => resync(id, tables, revision) }
      val listed = folder.requests()
      ended.retainAll(listed.map(_.id).asJava): Unit
      val added = listed.filter(request => underWay.add(request.id))
      // One look serves all of them: somebody can ask for each table with a command of its own.
      if (added.exists(request => request.isInstanceOf[ResyncRequest] && !isDone(request.id)))
        look()
      val areTaken = added.map(isTaken)
      wereTaken ||= areTaken.forall(identity)
    } catch {
      case error: Throwable if endsJob(error) => job.end(error)
      case NonFatal(_) => () // the folder is away, which the state's writer reports
    }
  }

  private def endsJob(error: Throwable) = error.isInstanceOf[StartOver] || job.isReplaced

  /** Removes old files at the start and once a day. They do no harm, so a store that refuses that is only a warning. */
  private def clean(): Unit = if (JobClock.millis >= nextCleaning) {
    nextCleaning = JobClock.millis + Requests.MillisBetweenCleanings
    try folder.clean(job.epoch)
    catch {
      case NonFatal(error) =>
        log.warn(
          "Old files of the checkpoint folder cannot be removed, so they stay for now. " +
            TableFailures.text(error)
        )
    }
  }

  /** Takes a request. If it has an error, the request is taken again later, and others are taken now. */
  private def isTaken(request: JobRequest): Boolean =
    try {
      take(request)
      true
    } catch {
      case error: Throwable if endsJob(error) => throw error
      case NonFatal(error) =>
        underWay.remove(request.id)
        if (delayed.add(request.id))
          log.warn(s"The request ${request.id} has to wait. ${TableFailures.text(error)}")
        false
    }

  private def isDone(id: String) = ended.contains(id) || startedFor(id)

  private def take(request: JobRequest): Unit = request match {
    case _ if isDone(request.id)   => remove(request.id)
    case _: ResyncAllRequest       => throw new StartOver
    case ResyncRequest(id, tables) => resync(id, tables, 0)
    case VerifyRequest(id, tables) => verifications.ask(id, tables) { isAnswered =>
        // If there is no answer, the request is taken again.
        if (isAnswered) remove(id) else underWay.remove(id): Unit
      }
    case UnreadableRequest(id, problem) =>
      log.warn(s"A request cannot be read. $problem")
      folder.answer(id, JobAnswer(JobAnswer.Impossible, problem))
      remove(id)
  }

  /** Removes a request that is done. If that fails, the request is not taken again, and other requests are. */
  private def remove(id: String): Unit = {
    try {
      folder.handled(id)
      unremoved.remove(id): Unit
    } catch {
      case NonFatal(error) =>
        val later =
          if (startedFor(id)) ""
          else " If the file stays, the next process of the job does the request again."
        if (unremoved.add(id)) log.warn(
          s"The request $id is done, and its file cannot be removed: ${TableFailures.text(error)} The job tries it " +
            s"again.$later"
        )
    }
    ended.add(id)
    underWay.remove(id): Unit
  }

  /**
   * Asks for copies. The request is removed when the state has it for all tables. If another process has taken the next
   * epoch in the meantime, this state does not count, and the request stays for that process.
   *
   * @param revision the revision of the state that has the copies for which the core was already asked; 0 if there are
   *   none
   */
  private def resync(id: String, tables: Seq[TableName], revision: Long): Unit = {
    val asked = tables.map(name => name -> ask(name))
    val later = asked.collect { case (name, None) => name }
    val newest = asked.flatMap(_._2).foldLeft(revision)(math.max)
    if (later.isEmpty && core.withoutWaking(_.isWritten(newest))) {
      job.checkEpoch()
      resyncs -= id
      remove(id)
    } else resyncs(id) = (later, newest)
  }

  /** The last state of the job is durable, and has all requests to the core. */
  def stateEnded(): Unit = {
    val written = resyncs.collect { case (id, (later, _)) if later.isEmpty => id }
    if (written.nonEmpty) job.checkEpoch()
    written.foreach(remove)
  }

  /** Returns the revision that has the request; 0 if the table is not copied, and None if the job has to ask again. */
  private def ask(name: TableName): Option[Long] = core { core =>
    core.state.named.get(name) match {
      case Some(table) if core.isCommittingCopy(table.oid) => None
      case found =>
        val revision =
          found.flatMap(table => core.resync(table.oid, "A resync was requested.", JobClock.millis))
        if (revision.isEmpty)
          log.warn(s"The table $name is not published or is excluded, so it is not copied.")
        Some(revision.getOrElse(0L))
    }
  }
}

private object Requests {
  final private val MillisBetweenCleanings = 24 * 3600 * 1000L
}

/** Ends a job that runs, because a user has asked it to start over with copies of all tables. */
final private[job] class StartOver extends RuntimeException("A copy of all tables was requested.")

/** Asks a job to copy tables again. The job can run in another process, or not at all. */
object ResyncCommand {

  /**
   * Writes the request into the checkpoint folder of the job.
   *
   * @param tables names of tables at the server: `schema.table`, or `table` for a table of public
   * @return the tables with their schemas
   * @throws LakeException if the folder has no state of a job, or the job does not know a table
   */
  def ask(
      session: SparkSession,
      checkpoint: String,
      tables: java.util.List[String]
  ): java.util.List[String] = {
    val folder = JobFolder.of(session, checkpoint)
    val (_, state) = folder.state()
    val wanted = named(tables.asScala.toSeq, state.named.keys.toSeq)
    folder.ask(ResyncRequest(JobRequest.newId(), wanted))
    wanted.map(_.toString).asJava
  }

  /** Finds tables by their names, which can lack the schema public. */
  private[job] def named(tables: Seq[String], known: Seq[TableName]): Seq[TableName] = tables.map {
    table =>
      // A table whose names are just this text wins over one whose names are in another case.
      val plain = known.filter(_.toString == table)
      (if (plain.isEmpty) known.filter(TargetNames.isOf(table, _)) else plain) match {
        case Seq(one) => one
        case Seq() => throw new LakeException(
            "PGOUTPUT_REPLICATE_OPTION.UNKNOWN_TABLE",
            "table" -> table,
            "known" -> known.map(_.unambiguous).sorted.mkString(", ")
          )
        case several => throw new LakeException(
            "PGOUTPUT_REPLICATE_OPTION.SEVERAL_TABLES",
            "table" -> table,
            "known" -> several.map(QuotedName(_)).sorted.mkString(", ")
          )
      }
  }.distinct

  /**
   * Asks a job to copy all tables, with a new slot. What the job had at the server can be lost.
   *
   * @param checkpoint the checkpoint folder; null if it is lost
   * @param target the target of a job whose checkpoint folder is lost; null otherwise
   * @param format null if the catalog decides
   * @param slot with a target: the slot of the job; null if the target has the tables of one job only
   * @throws LakeException if there is no job, or if it is not clear which one is meant
   */
  def askForAll(
      session: SparkSession,
      checkpoint: String,
      target: String,
      format: String,
      slot: String
  ): Unit =
    if (checkpoint != null) {
      val folder = JobFolder.of(session, checkpoint)
      if (folder.newestEpoch().isEmpty) throw folder.noState
      folder.ask(ResyncAllRequest(JobRequest.newId()))
    } else ClonedSession.run(session) { session =>
      val ownTables = new OwnTables(session, Targets.of(session, target, Option(format)))
      val jobs = ownTables.found().own.groupBy(_.properties.job).values
        .filter(tables => slot == null || tables.exists(_.properties.slot == slot)).toSeq
      jobs match {
        case Seq(tables) =>
          val id = JobRequest.newId()
          tables.foreach(table => ownTables.askToStartOver(table.target, id))
        case Seq() =>
          throw new LakeException("PGOUTPUT_REPLICATE_OPTION.NO_JOB", "target" -> target)
        case several =>
          val slots = several.flatten.map(_.properties.slot).distinct.sorted.mkString(", ")
          throw new LakeException(
            "PGOUTPUT_REPLICATE_OPTION.SEVERAL_JOBS",
            "target" -> target,
            "slots" -> slots
          )
      }
    }
}

/** Asks a job to compare tables with the server. */
object VerifyCommand {

  /**
   * Writes the request into the checkpoint folder of a job.
   *
   * @param tables names of tables at the server as [[ResyncCommand]] takes them; empty for all
   * @throws LakeException
   *   if the folder has no state of a job, the job has no tables, or it does not know a table
   */
  def ask(
      session: SparkSession,
      checkpoint: String,
      tables: java.util.List[String]
  ): AskedVerification = {
    val folder = JobFolder.of(session, checkpoint)
    val wanted = named(folder, checkpoint, tables.asScala.toSeq)
    val id = JobRequest.newId()
    folder.ask(VerifyRequest(id, wanted))
    new AskedVerification(session, folder, id)
  }

  /**
   * Starts a job that applies all changes that exist at its start, then verifies tables, and ends.
   *
   * @param options those of the job
   */
  def run(
      session: SparkSession,
      options: java.util.Map[String, String],
      tables: java.util.List[String]
  ): Replication = {
    val parsed = ReplicateOptions.parse(options.asScala.toSeq.sortBy(_._1)).copy(once = true)
    val folder = JobFolder.of(session, parsed.checkpoint)
    val wanted = named(folder, parsed.checkpoint, tables.asScala.toSeq)
    new Replication(session, parsed, wanted)
  }

  private[job] def failed(problem: String, what: String = "the tables"): LakeException =
    new LakeException(
      "PGOUTPUT_VERIFICATION_FAILED",
      "what" -> what,
      "problem" -> ErrorText.sentence(problem)
    )

  private def named(folder: JobFolder, checkpoint: String, tables: Seq[String]): Seq[TableName] = {
    val (_, state) = folder.state()
    val names = state.named.keys.toSeq
    if (names.isEmpty)
      throw new LakeException("PGOUTPUT_REPLICATE_OPTION.NO_TABLES", "folder" -> checkpoint)
    if (tables.isEmpty) names else ResyncCommand.named(tables, names)
  }
}

/**
 * A request for a verification, which a job answers.
 *
 * @param session the user's session, which gets the result
 */
final class AskedVerification(session: SparkSession, folder: JobFolder, id: String) {

  /** The number of the last answer that was read. The job can have removed earlier ones. */
  private var read = 0
  private var lines = Option.empty[String]

  /**
   * Looks for answers.
   *
   * @return what delays the verification, since the last call
   * @throws LakeException if the job cannot verify the tables
   */
  def poll(): java.util.List[String] = {
    val answers = folder.answers(id, after = read)
    answers.lastOption.foreach { case (number, _) => read = number }
    val added = answers.map(_._2)
    added.foreach {
      case JobAnswer(JobAnswer.Done, text) => lines = Some(text)
      case JobAnswer(JobAnswer.Impossible, text) =>
        throw VerifyCommand.failed(text)
      case _ => ()
    }
    added.collect { case JobAnswer(JobAnswer.Pending, text) => text }.asJava
  }

  /** What the job says of itself, as JSON; null if it has not said anything yet. */
  def status: String = folder.readStatus().orNull

  /** A row for each table; null before the job has answered. */
  def result: DataFrame = lines.map(VerifiedTable.fromText(session, _)).orNull
}
