package io.sparkpgoutput.lake.job

import java.time.Duration
import java.util.concurrent.atomic.AtomicInteger

import scala.annotation.tailrec
import scala.util.Using
import scala.util.control.NonFatal

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.copy.SlotSnapshot
import io.sparkpgoutput.lake.core.TableStatus.Live
import io.sparkpgoutput.lake.core.{TableState, TableStatus}
import io.sparkpgoutput.lake.folder.JobAnswer
import io.sparkpgoutput.lake.queue.SlotReader
import io.sparkpgoutput.lake.verify.{PinnedTable, TableVerifier, VerifiedTable}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.slot.ServerStillWaits

/**
 * Compares tables with those of the server, both as of one LSN, while the job goes on:
 *
 *   1. The appliers of the requested tables commit nothing above the read LSN.
 *   2. The server makes a snapshot with an LSN L. All tables have no change at L or above. If open
 *      transactions delay the snapshot, the appliers go on, and the verification starts over later.
 *   3. The appliers go up to L, and then each table has exactly the transactions below L.
 *   4. The version of each table in the target is noted, and the appliers go on.
 *   5. The rows of the snapshot and the rows of the versions are compared.
 *
 * Nothing of this is kept. A request stays in the folder until it is answered, so the next start of a job
 * that was killed starts the verification over.
 *
 * @param look looks at the server's catalog
 */
final private[job] class Verifications(job: JobParts, reader: SlotReader, look: () => Unit) {
  import Verifications._
  import job.{core, folder, log, options, target}

  private val verifier = new TableVerifier(job.session, options.source, target)
  private val running = new AtomicInteger
  private var threads: JobThreads = _

  def isBusy: Boolean = running.get > 0

  /** Lets the verifications use the threads of the job. */
  def use(threads: JobThreads): Unit = this.threads = threads

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
        val found = verify(tables, text => folder.answer(id, JobAnswer(JobAnswer.Waits, text)))
        JobAnswer(JobAnswer.Done, VerifiedTable.toText(job.session, found))
      } catch {
        case NonFatal(problem) if !job.isEnding =>
          log.warn(s"The tables cannot be verified. ${TableFailures.text(problem)}")
          JobAnswer(JobAnswer.Failed, TableFailures.text(problem))
      }
    val answers = !job.isEnding
    if (answers) folder.answer(id, answer)
    answers
  }

  /**
   * Compares tables.
   *
   * @param tell is called with the reason if something delays the verification
   */
  def verify(tables: Seq[TableName], tell: String => Unit = _ => ()): Seq[VerifiedTable] =
    rounds(tables, Nil, MostRounds, tell).sortBy(_.table)

  /** Compares tables whose names are texts, as a user gives them. */
  def verifyNamed(tables: Seq[String]): Seq[VerifiedTable] = {
    running.incrementAndGet() // the versions that it reads stay
    try {
      val names = job.state.tables.values.map(_.name).toSeq.distinct
      verify(if (tables.isEmpty) names else ResyncCommand.named(tables, names))
    } finally running.decrementAndGet(): Unit
  }

  /**
   * Compares tables in one snapshot. If a table could not be compared for a reason that passes, it is then
   * compared in a snapshot of its own. A snapshot of many tables gets old, and no table may be truncated in
   * the meantime.
   */
  @tailrec
  private def rounds(
      tables: Seq[TableName],
      done: Seq[VerifiedTable],
      left: Int,
      tell: String => Unit
  ): Seq[VerifiedTable] = {
    val snapshots = if (left == MostRounds) Seq(tables) else tables.map(Seq(_))
    val found = snapshots.flatMap(names => round(names, tell).map(names -> _)).map(_._2)
    val (again, ended) = found.partition(_.canPass)
    if (again.isEmpty || left == 1) done ++ found.map(_.table)
    else {
      Thread.sleep(MillisBetweenRounds)
      rounds(again.map(_.name), done ++ ended.map(_.table), left - 1, tell)
    }
  }

  private def round(names: Seq[TableName], tell: String => Unit): Seq[Attempt] = {
    // The catalog of the tables matters even if no row of them changes.
    look()
    val tables = names.map(name => name -> Requests.table(job.state, name))
    val oids = tables.flatMap(_._2).filter(isComparable).map(_.oid)
    try Using.resource(snapshot(oids, tell)) { snapshot =>
        reach(oids, snapshot.lsn)
        val pinned = tables.map { case (name, _) => pin(name, snapshot.lsn) }
        core(_.release(oids))
        reader.ask(options.once)
        log.tell(s"Verifying ${names.length} tables as of ${Lsn.format(snapshot.lsn)}.")
        pinned.map(_.fold(identity, compare(_, snapshot)))
      }
    finally {
      core(_.release(oids))
      reader.ask(options.once)
    }
  }

  private def isComparable(table: TableState) = table.status == Live && !table.table.isHistory

  /** Makes a snapshot that no table is ahead of. */
  @tailrec
  private def snapshot(
      oids: Seq[Long],
      tell: String => Unit,
      pauses: Seq[Int] = Pauses
  ): SlotSnapshot = {
    val read = core { core =>
      core.hold(oids, core.readUpTo)
      core.readUpTo
    }
    // A commit that has already begun ends at or below this LSN.
    while (!job.isEnding && core.look(core => oids.exists(core.isApplying)))
      Thread.sleep(PauseMillis)
    val found =
      try Right(SlotSnapshot.make(
          options.source,
          "The server makes a snapshot to verify tables",
          MostHold
        ))
      catch { case waits: ServerStillWaits => Left(waits) }
    found match {
      case Right(snapshot) if !Lsn.isBelow(snapshot.lsn, read) => snapshot
      case other =>
        core(_.release(oids))
        other.foreach(_.close())
        val why = other.fold(_.getMessage, _ => "The server is a standby that is behind.")
        val text = s"$why The job goes on, and the verification is tried again in ${pauses.head} s."
        log.warn(text)
        tell(text)
        Thread.sleep(pauses.head * 1000L)
        snapshot(oids, tell, if (pauses.length > 1) pauses.tail else pauses)
    }
  }

  /**
   * Waits until the tables have everything below an LSN, or cannot get it now. A table that waits for
   * something else does not delay the others for long.
   */
  private def reach(oids: Seq[Long], lsn: Long): Unit = {
    core(_.hold(oids, lsn))
    reader.ask(true)
    val patience = System.nanoTime() + MostHold.toNanos
    def isThere(oid: Long) = core.look { core =>
      core.has(oid, lsn) || !core.state.tables.get(oid).exists(_.status == Live) ||
      core.shown(oid).waits.nonEmpty && System.nanoTime() > patience
    }
    while (!oids.forall(isThere)) {
      if (job.isEnding) throw new InterruptedException
      Thread.sleep(PauseMillis)
    }
  }

  private def pin(name: TableName, lsn: Long): Either[Attempt, PinnedTable] = {
    def skipped(target: String, reason: String, canPass: Boolean) =
      Left(Attempt(name, VerifiedTable(name.toString, target, lsn, Left(reason)), canPass))
    Requests.table(job.state, name) match {
      case None => skipped(name.toString, "The job has no such table any more.", canPass = false)
      case Some(table) if table.status != Live =>
        val reason = table.status.why.fold("")(why => s" $why")
        val isCopied = table.status.isInstanceOf[TableStatus.Copying]
        skipped(table.target, s"The table is ${table.status.name}.$reason", isCopied)
      case Some(table) if table.table.isHistory =>
        skipped(table.target, "It has changes and not rows: its mode is history.", canPass = false)
      case Some(table) if table.newestMark.exists(Lsn.isBelow(lsn, _)) =>
        skipped(table.target, "The table was copied at a later LSN.", canPass = true)
      case Some(table) if !core.look(_.has(table.oid, lsn)) =>
        val why = core.look(_.shown(table.oid)).waits.fold("")(why => s" $why")
        skipped(table.target, s"The table has not got all changes in time.$why", canPass = true)
      case Some(table) => Right(PinnedTable(table, target.version(table.target)))
    }
  }

  private def compare(pinned: PinnedTable, snapshot: SlotSnapshot): Attempt = {
    val name = pinned.state.name
    def attempt(table: VerifiedTable, canPass: Boolean) = Attempt(name, table, canPass)
    try {
      val found = verifier.compare(pinned, snapshot)
      val table = VerifiedTable(name.toString, pinned.state.target, snapshot.lsn, Right(found))
      log.tell(f"The table $name is ${table.result}: ${found.serverRows}%,d rows.")
      attempt(table, canPass = false)
    } catch {
      case NonFatal(problem) if !job.isEnding =>
        val text = TableFailures.text(problem)
        log.warn(s"The table $name is not verified. $text")
        val canPass = TableFailures.isPassing(problem) || TableFailures.isChanged(problem)
        attempt(
          VerifiedTable(name.toString, pinned.state.target, snapshot.lsn, Left(text)),
          canPass
        )
    }
  }
}

private object Verifications {
  final private val MostRounds = 3
  final private val MillisBetweenRounds = 2000L
  final private val PauseMillis = 20L

  /** The longest time in which the appliers are held. */
  private val MostHold = Duration.ofSeconds(30)

  /** The seconds that the appliers go on before they are held again. */
  private val Pauses = Seq(30, 60, 120, 300, 600)

  /**
   * The result for a table in one snapshot.
   *
   * @param canPass whether another snapshot can have another result
   */
  final case class Attempt(name: TableName, table: VerifiedTable, canPass: Boolean)
}
