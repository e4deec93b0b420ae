package io.sparkpgoutput.lake.job

import java.time.Duration
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.Using
import scala.util.control.NonFatal

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.copy.SlotSnapshot
import io.sparkpgoutput.lake.core.TableState
import io.sparkpgoutput.lake.core.TableStatus.{Failed, Live}
import io.sparkpgoutput.lake.folder.JobAnswer
import io.sparkpgoutput.lake.verify.{PinnedTable, VerifiedTable}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.slot.ServerStillWaits

/**
 * Compares tables with those of the server, both as of one LSN, while the job goes on:
 *
 *   1. The appliers of the requested tables commit nothing at or above the read LSN.
 *   2. The server makes a snapshot with an LSN L. All tables have no change at L or above. If open
 *      transactions delay the snapshot, the appliers go on, and the verification starts over later.
 *   3. The applier of each table goes up to L, and then the table has exactly the transactions below L. The version of
 *      the table in the target is noted, and its applier goes on.
 *   4. The rows of the snapshot and the rows of the versions are compared.
 *
 * Nothing of this is kept. A request stays in the folder until it is answered, so the next start of a job
 * that was killed starts the verification over. If the server makes no snapshot for an hour, that is the answer.
 *
 * @param look looks at the server's catalog
 * @param triesFor
 *   how long the job tries to make a snapshot. The command that asked can have ended, which the job does not notice.
 * @param mostHold the longest time in which the appliers are held for a snapshot, or for a table that waits
 */
final private[job] class Verifications(
    job: JobParts,
    threads: JobThreads,
    look: () => Unit,
    triesFor: Duration = Duration.ofHours(1),
    mostHold: Duration = Duration.ofSeconds(30)
) {
  import Verifications._
  import job.{core, folder, log, options, target}

  private val running = new AtomicInteger

  def isBusy: Boolean = running.get > 0

  /** Whether tables wait for the changes before the snapshot of a verification. */
  @volatile var isPinning = false

  /** Whether versions of tables are read, which must stay in the target. */
  @volatile var readsVersions = false

  /**
   * Answers a request, in a thread of its own.
   *
   * @param ended is called at the end, with whether there is an answer
   */
  def ask(id: String, tables: Seq[TableName])(ended: Boolean => Unit): Unit = {
    running.incrementAndGet()
    threads.verify {
      var isAnswered = false
      try isAnswered = answer(id, tables)
      finally {
        ended(isAnswered)
        running.decrementAndGet(): Unit
      }
    }
  }

  private def answer(id: String, tables: Seq[TableName]): Boolean = {
    val answer =
      try {
        val verified =
          compared(tables, text => folder.answer(id, JobAnswer(JobAnswer.Pending, text)))
        JobAnswer(JobAnswer.Done, VerifiedTable.toText(job.session, verified))
      } catch {
        case NonFatal(problem) if !job.isEnding =>
          log.warn(s"The tables cannot be verified. ${TableFailures.text(problem)}")
          JobAnswer(JobAnswer.Impossible, TableFailures.text(problem))
      }
    val answers = !job.isEnding
    if (answers) folder.answer(id, answer)
    answers
  }

  /**
   * Compares tables.
   *
   * @throws io.sparkpgoutput.errors.LakeException if they cannot be compared
   */
  def verify(tables: Seq[TableName]): Seq[VerifiedTable] =
    try compared(tables, _ => ())
    catch {
      case NonFatal(problem) if !job.isEnding =>
        throw VerifyCommand.failed(TableFailures.text(problem))
    }

  /** @param say is called with the reason if something delays the verification */
  private def compared(tables: Seq[TableName], say: String => Unit): Seq[VerifiedTable] =
    rounds(tables, MostRounds, say).sortBy(_.table)

  /**
   * Compares tables in one snapshot. If a table could not be compared for a reason that passes, it is then
   * compared in a snapshot of its own. A snapshot of many tables gets old, and no table may be truncated in
   * the meantime. If the server makes no more snapshots, the earlier results stand.
   */
  private def rounds(
      tables: Seq[TableName],
      remaining: Int,
      say: String => Unit
  ): Seq[VerifiedTable] = {
    val snapshots = if (remaining == MostRounds) Seq(tables) else tables.map(Seq(_))
    val results = snapshots.flatMap(round(_, say))
    val (passing, lasting) = results.partition { case (_, table) => table.canPass }
    lasting.map(_._2) ++ (
      if (passing.isEmpty || remaining == 1) passing.map(_._2)
      else {
        Thread.sleep(MillisBetweenRounds)
        try rounds(passing.map(_._1), remaining - 1, say)
        catch { case _: Waiting => passing.map(_._2) }
      }
    )
  }

  private def round(names: Seq[TableName], say: String => Unit): Seq[Result] = {
    // The catalog of the tables matters even if no row of them changes.
    look()
    val tables = names.map(name => name -> job.state.named.get(name))
    val oids = tables.flatMap(_._2)
      .filter(table => table.status == Live && !table.table.isHistory).map(_.oid)
    // A table that is held can get another name, or another table can get its name.
    val asked = tables.map { case (name, table) => name -> table.map(_.oid) }
    val until = System.nanoTime() + triesFor.toNanos
    try Using.resource(snapshot(oids, say, until)) { snapshot =>
        core(_.hold(oids, snapshot.lsn))
        readsVersions = true
        isPinning = true
        val pinned = pinAll(asked, oids, snapshot.lsn)
        isPinning = false
        val found = pinned.count(_.isRight).toLong
        if (found > 0)
          log.tell(
            s"Verifying ${JobLog.counted(found, "table")} as of ${Lsn.format(snapshot.lsn)}."
          )
        pinned.map(_.fold(identity, compare(_, snapshot)))
      }
    finally {
      core(_.release(oids))
      isPinning = false
      readsVersions = false
    }
  }

  /**
   * Makes a snapshot that no table is ahead of.
   *
   * @param until when it is not tried again, by [[System.nanoTime]]
   * @throws Waiting if there is none until then
   */
  @tailrec
  private def snapshot(
      oids: Seq[Long],
      say: String => Unit,
      until: Long,
      pauses: Seq[Int] = Pauses
  ): SlotSnapshot = {
    // A commit that has already begun ends at or below this LSN.
    val read = core { core =>
      core.hold(oids, core.readUpTo)
      core.readUpTo
    }
    val snapshotOrReason =
      try Right(SlotSnapshot.make(
          options.source,
          "The server makes a snapshot to verify tables",
          mostHold
        ))
      catch { case waits: ServerStillWaits => Left(waits.getMessage) }
    snapshotOrReason match {
      case Right(snapshot) if !Lsn.isBelow(snapshot.lsn, read) => snapshot
      case other =>
        core(_.release(oids))
        other.foreach(_.close())
        val why = other.fold(identity, _ => "The server is a standby that is behind.")
        if (System.nanoTime() + TimeUnit.SECONDS.toNanos(pauses.head.toLong) > until)
          throw new Waiting(
            s"$why The job has tried to make a snapshot for ${triesFor.toMinutes} minutes."
          )
        val text = s"$why The job goes on, and the verification is tried again in ${pauses.head} s."
        log.warn(text)
        say(text)
        Thread.sleep(pauses.head * 1000L)
        snapshot(oids, say, until, if (pauses.length > 1) pauses.tail else pauses)
    }
  }

  /**
   * Pins each table as soon as it has everything below an LSN, or cannot get it now, and lets its later commits
   * begin. So a table that has to catch up, or that waits for something, does not hold the others.
   *
   * @param tables the names that are asked for, with the oids of their tables when the snapshot was asked for
   * @param held the tables whose commits end at the LSN
   */
  private[job] def pinAll(
      tables: Seq[(TableName, Option[Long])],
      held: Seq[Long],
      lsn: Long
  ): Seq[Either[Result, PinnedTable]] = {
    val patience = System.nanoTime() + mostHold.toNanos
    val pinned = mutable.HashMap.empty[TableName, Either[Result, PinnedTable]]
    def isThere(oid: Long) = core.withoutWaking { core =>
      core.has(oid, lsn) || !core.state.tables.get(oid).exists(_.status == Live) ||
      core.hasWaited(oid, JobClock.millis - mostHold.toMillis) && System.nanoTime() > patience
    }
    while (!tables.forall { case (name, _) => pinned.contains(name) }) {
      for ((name, oid) <- tables if !pinned.contains(name)) {
        val isHeld = oid.exists(held.contains)
        if (!isHeld || oid.exists(isThere)) {
          pinned(name) = pin(name, oid, isHeld, lsn)
          core(_.release(oid))
        }
      }
      if (job.isEnding) throw new InterruptedException
      Thread.sleep(PauseMillis)
    }
    tables.map { case (name, _) => pinned(name) }
  }

  private def pin(
      name: TableName,
      oid: Option[Long],
      isHeld: Boolean,
      lsn: Long
  ): Either[Result, PinnedTable] = {
    def skipped(target: String, reason: String, canPass: Boolean) =
      Left(name -> VerifiedTable(name.toString, target, lsn, Left(reason), canPass))
    // The next snapshot has the table that was made again under this name.
    val isMadeAgain = job.state.named.get(name).exists(found => !oid.contains(found.oid))
    oid.flatMap(job.state.tables.get(_)) match {
      case None => skipped(name.toString, "The job has no such table any more.", isMadeAgain)
      case Some(table) if table.status != Live =>
        val reason = table.status.why.fold("")(why => s" $why")
        val text = table.status match {
          case _: Failed => s"The table has failed.$reason"
          case other     => s"The table is ${other.name}.$reason"
        }
        skipped(table.target, text, table.isCopying || isMadeAgain)
      case Some(table) if table.table.isHistory =>
        skipped(table.target, "It has changes and not rows: its mode is history.", canPass = false)
      case Some(table) if !isHeld =>
        skipped(table.target, "The table became live after the snapshot.", canPass = true)
      case Some(table) if table.newestMark.exists(Lsn.isBelow(lsn, _)) =>
        skipped(table.target, "The table was copied at a later LSN.", canPass = true)
      case Some(table) if !core.withoutWaking(_.has(table.oid, lsn)) =>
        val why = core.withoutWaking(_.shown(table.oid)).waits.fold("")(why => s" $why")
        skipped(table.target, s"The table has not got all changes in time.$why", canPass = true)
      case Some(table) =>
        try Right(PinnedTable(table, target.version(table.target)))
        catch {
          case NonFatal(problem) if !job.isEnding =>
            Left(failed(table, lsn, problem, TableFailures.isPassing(problem)))
        }
    }
  }

  private def compare(pinned: PinnedTable, snapshot: SlotSnapshot): Result =
    try {
      val difference = pinned.compare(job.session, options.source, target, snapshot)
      val state = pinned.state
      val table = VerifiedTable(state.name.toString, state.target, snapshot.lsn, Right(difference))
      log.tell(
        s"The table ${state.name} is ${table.result}: ${JobLog.counted(difference.serverRows, "row")}."
      )
      state.name -> table
    } catch {
      case NonFatal(problem) if !job.isEnding =>
        val canPass = TableFailures.isPassing(problem) || TableFailures.needsCopy(problem)
        failed(pinned.state, snapshot.lsn, problem, canPass)
    }

  private def failed(table: TableState, lsn: Long, problem: Throwable, canPass: Boolean) = {
    val text = TableFailures.text(
      if (TableFailures.isKnown(problem)) problem
      else VerifyCommand.failed(TableFailures.text(problem), s"the table ${table.name}")
    )
    log.warn(s"The table ${table.name} is not verified. $text")
    table.name -> VerifiedTable(table.name.toString, table.target, lsn, Left(text), canPass)
  }
}

private object Verifications {

  /** The result of a table in one snapshot, with the name under which the next snapshot can have another result. */
  type Result = (TableName, VerifiedTable)
  final private val MostRounds = 3
  final private val MillisBetweenRounds = 2000L
  final private val PauseMillis = 20L

  /** The seconds that the appliers go on before they are held again. */
  private val Pauses = Seq(30, 60, 120, 300, 600)
}
