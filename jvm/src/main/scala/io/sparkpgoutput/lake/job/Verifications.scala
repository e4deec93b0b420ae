package io.sparkpgoutput.lake.job

import java.util.UUID
import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue}

import scala.annotation.tailrec
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession

import io.sparkpgoutput.lake.copy.SlotSnapshot
import io.sparkpgoutput.lake.faults.{SchemaChange, TransientError}
import io.sparkpgoutput.lake.follow.FollowedTables
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.resync.{CopyPool, Resyncs}
import io.sparkpgoutput.lake.state.{AnswerTable, JobAnswer, KeptState, TableState, VerifyRequest}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.target.Target
import io.sparkpgoutput.lake.verify.{PinnedTable, TableDifference, TableVerifier, VerifiedTable}
import io.sparkpgoutput.protocol.Lsn

/**
 * Compares tables with those of the server, both as of one LSN, while the stream runs. The versions that
 * the tables have in the target when a micro-batch ends at the LSN of a [[HeldSnapshot]] are noted. The
 * rows of the snapshot and the rows of the versions are then compared, and the stream goes on meanwhile.
 *
 * Nothing of this is kept. A request stays in the state until it is answered, so the next start of a job
 * that was killed begins again.
 */
final class Verifications(
    session: SparkSession,
    options: ReplicateOptions,
    target: Target,
    state: KeptState,
    resyncs: Resyncs,
    followed: FollowedTables,
    log: JobLog,
    isStopped: () => Boolean
) {
  import Verifications._

  private val held = new HeldSnapshot(options.source, options.slot, state, resyncs, log)
  private val verifier = new TableVerifier(session, options.source, target)
  private val answers = new AnswerTable(session, target)
  private val asked = new LinkedBlockingQueue[(Long, Seq[String])]
  private val known = ConcurrentHashMap.newKeySet[Long]
  private val tag = s"spark-pgoutput-verify-${UUID.randomUUID()}"

  private val thread =
    new Thread(
      () => answerAll(asked.take()),
      "spark-pgoutput verifies tables while the stream runs"
    )
  thread.setDaemon(true)

  @volatile private var ended = false
  private def isEnding = ended || isStopped()

  /** Takes requests. It ignores requests that it has taken before. */
  def take(requests: Seq[VerifyRequest]): Unit =
    requests.groupMap(_.id)(_.table).foreach { case (id, tables) =>
      if (known.add(id)) asked.add(id -> tables)
    }

  /** Answers requests while the stream runs. */
  def start(): Unit = thread.start()

  /** Ends the verification that runs. */
  def stop(): Unit = {
    ended = true
    thread.interrupt()
    try
      try session.sparkContext.cancelJobsWithTag(tag)
      finally if (thread.isAlive) thread.join(MillisToStop)
    finally held.release()
  }

  private def answerAll(next: => (Long, Seq[String])): Unit =
    try while (!isEnding) {
        val (id, tables) = next
        answer(id, tables)(())
      }
    catch { case _: InterruptedException => () }

  /** Answers the requests that were taken. `stream` runs the stream up to what is there. */
  def answer()(stream: => Unit): Unit =
    Iterator.continually(asked.poll()).takeWhile(_ != null)
      .foreach { case (id, tables) => answer(id, tables)(stream) }

  private def answer(id: Long, tables: Seq[String])(stream: => Unit): Unit = {
    val answer =
      try {
        val found =
          verify(tables, text => answers.add(id, JobAnswer(JobAnswer.Waits, text)))(stream)
        JobAnswer(JobAnswer.Done, VerifiedTable.toText(session, found))
      } catch {
        case NonFatal(problem) if !isEnding =>
          log.warn(s"The tables cannot be verified. ${problem.getMessage}")
          JobAnswer(JobAnswer.Failed, String.valueOf(problem.getMessage))
      }
    try {
      answers.add(id, answer)
      state.take(id)
      state.save()
    } catch {
      case NonFatal(problem) =>
        known.remove(id) // so that the request, which stays in the state, is taken again
        log.warn(s"The answer is not written. ${problem.getMessage}")
    }
  }

  /**
   * Compares tables.
   *
   * @param tables their names at the server
   * @param tell takes what delays it
   * @param stream runs the stream up to what is there; does nothing if it runs already
   */
  def verify(tables: Seq[String], tell: String => Unit = _ => ())(
      stream: => Unit
  ): Seq[VerifiedTable] = {
    session.sparkContext.addJobTag(tag)
    try
      CopyPool.within(session.sparkContext) {
        rounds(tables, Nil, MostRounds, tell)(() => stream).sortBy(_.table)
      }
    finally session.sparkContext.removeJobTag(tag)
  }

  /**
   * Compares tables in one snapshot, and then each of those that could not be compared, for a reason that
   * passes, in a snapshot of its own. A snapshot of many tables gets old, and no table may be truncated in
   * the meantime.
   */
  @tailrec
  private def rounds(
      tables: Seq[String],
      done: Seq[VerifiedTable],
      left: Int,
      tell: String => Unit
  )(stream: () => Unit): Seq[VerifiedTable] = {
    val snapshots = if (left == MostRounds) Seq(tables) else tables.map(Seq(_))
    val found = snapshots.flatMap(round(_, tell)(stream))
    val (again, ended) = found.partition(_.canPass)
    if (again.isEmpty || left == 1) done ++ found.map(_.table)
    else {
      Thread.sleep(MillisBetweenRounds)
      rounds(again.map(_.table.table), done ++ ended.map(_.table), left - 1, tell)(stream)
    }
  }

  private def round(tables: Seq[String], tell: String => Unit)(
      stream: () => Unit
  ): Seq[Attempt] =
    // What the catalog says of the tables matters even if nothing changes in them.
    try Using.resource(held.make(tell)(followed.expire())) { snapshot =>
        stream()
        val pinned =
          held.reached(snapshot.lsn, () => isEnding || resyncs.error.nonEmpty)(
            tables.map(pin(_, snapshot.lsn))
          )
        held.release()
        log.tell(s"Verifying ${tables.length} tables as of ${Lsn.format(snapshot.lsn)}.")
        pinned.map(_.fold(identity, compare(_, snapshot)))
      }
    finally held.release()

  private def pin(name: String, lsn: Long): Either[Attempt, PinnedTable] = {
    def skipped(target: String, reason: String, canPass: Boolean) =
      Left(Attempt(VerifiedTable(name, target, lsn, Left(reason)), canPass))
    // The job also knows tables of this name that the server has dropped.
    state.tables.filter(_.table.source.name.toString == name).sortBy(!_.isLive).headOption match {
      case None => skipped(name, "The job has no such table any more.", canPass = false)
      case Some(table) if !table.isLive =>
        val reason = table.status.why.fold("")(why => s" $why")
        skipped(table.target, s"The table is ${table.status.name}.$reason", table.isWaiting)
      case Some(table) if table.table.isHistory =>
        skipped(table.target, "It has changes and not rows: its mode is history.", canPass = false)
      case Some(table) if table.mark.exists(Lsn.isBelow(lsn, _)) =>
        skipped(table.target, "The table was copied at a later LSN.", canPass = true)
      case Some(table) => Right(PinnedTable(table, target.version(table.target)))
    }
  }

  private def compare(pinned: PinnedTable, snapshot: SlotSnapshot): Attempt = {
    def attempt(found: Either[String, TableDifference]) =
      VerifiedTable(name(pinned.state), pinned.state.target, snapshot.lsn, found)
    try {
      val found = verifier.compare(pinned, snapshot)
      val table = attempt(Right(found))
      log.tell(f"The table ${table.table} is ${table.result}: ${found.serverRows}%,d rows.")
      Attempt(table, canPass = false)
    } catch {
      case NonFatal(problem) if !isEnding =>
        log.warn(s"The table ${name(pinned.state)} is not verified. ${problem.getMessage}")
        val canPass =
          TransientError.unapply(problem).nonEmpty || SchemaChange.unapply(problem).nonEmpty
        Attempt(attempt(Left(String.valueOf(problem.getMessage))), canPass)
    }
  }

  private def name(table: TableState) = table.table.source.name.toString
}

private object Verifications {
  final private val MostRounds = 3
  final private val MillisBetweenRounds = 2000L
  final private val MillisToStop = 30000L

  /**
   * What was found out about a table in one snapshot.
   *
   * @param canPass whether another snapshot can have another result
   */
  final case class Attempt(table: VerifiedTable, canPass: Boolean)
}
