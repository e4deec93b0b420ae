package io.sparkpgoutput.lake.resync

import java.time.{Duration, Instant}
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.locks.ReentrantLock
import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.sql.SparkSession

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.LakeException
import io.sparkpgoutput.lake.faults.{
  Retries,
  SchemaChange,
  StoppedTable,
  TableFault,
  TransientError
}
import io.sparkpgoutput.lake.follow.SourceCatalog
import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.state.{KeptState, TableState, TableStatus, VerifyRequest}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.{MirroredTable, TableError}
import io.sparkpgoutput.lake.target.Target

/**
 * Copies tables while the stream runs: tables that are new, and tables that must be copied again. The
 * stream neither stops nor loses their changes. These are the steps for a table:
 *
 *   1. Its waiting table is made.
 *   1. The state is written: the table waits. From then on, the stream appends the table's changes to its
 *      waiting table. Readers keep the rows of before.
 *   1. The copy gets a snapshot. Its LSN is at or above the end of each micro-batch that was planned
 *      before, so what the stream has passed by is in the snapshot.
 *   1. The state is written: the table's definition as the snapshot has it.
 *   1. The copy replaces the rows, with the mark of a new generation in the same commit.
 *   1. The waiting changes from the mark on are applied, with the next mark.
 *   1. The state is written: the table is live.
 *   1. The waiting table is dropped.
 *
 * [[ResyncStart]] has the first two steps, and [[TableResync]] the others up to the last two.
 *
 * What a kill leaves is found by the state and the mark. Before step 2, nothing has happened, and the
 * waiting table is dropped. Before step 5, the copy begins again. After it, the mark says which changes
 * are left to apply.
 *
 * @param renew takes the LSN of each copy, from which on a new session may have to read the slot
 * @param failed takes the error of a table that ends the job
 * @param verify takes the requests to verify tables
 * @param look looks at the server's catalog if that is due
 */
final class Resyncs(
    session: SparkSession,
    options: ReplicateOptions,
    target: Target,
    catalog: SourceCatalog,
    state: KeptState,
    renew: (TableName, Long) => Unit,
    log: JobLog,
    failed: Throwable => Unit,
    verify: Seq[VerifyRequest] => Unit,
    look: () => Unit
) {
  private val lock = new ReentrantLock(true)
  private val underWay = ConcurrentHashMap.newKeySet[Long]

  /** Where the changes wait. */
  val waiting: WaitingTables = new WaitingTables(target, state, log)

  /**
   * The number of times that the job copied a table again by itself for the same error, by the oid of the
   * table and the error. It counts from the last sign that the copy was right: changes were applied, or
   * there was no error for some minutes.
   */
  private val repeated = new ConcurrentHashMap[(Long, String), Int]

  /** When the last copy of a table went live, by the oid of the table, unless another one has begun. */
  private val joined = new ConcurrentHashMap[Long, Instant]
  private val failure = new AtomicReference[Option[Throwable]](None)
  private val resync = new TableResync(session, options, target, catalog, state, renew, log)
  private val beginning =
    new ResyncStart(target, catalog, state, waiting, log, underWay.contains(_), resync.isCopied)
  private val pool = Executors.newFixedThreadPool(options.copies, Resyncs.threads)

  /** What users ask. Who takes the requests has the lock, as in [[exclusively]]. */
  val requests: Requests = new Requests(catalog, state, log, isBeingApplied, begin, verify)
  private val polls = Executors.newScheduledThreadPool(1, Resyncs.threads)
  private val tag = s"spark-pgoutput-resync-${java.util.UUID.randomUUID()}"

  /** The error that ends the job. */
  def error: Option[Throwable] = failure.get

  /** Runs something while no table begins to wait or joins the stream, such as a micro-batch. */
  def exclusively[T](body: => T): T = {
    lock.lockInterruptibly()
    try body
    finally lock.unlock()
  }

  /** Goes on with the copies that the last process has left, and looks for requests from then on. */
  def start(): Unit = {
    exclusively {
      state.tables.filter(table => table.isWaiting && lacksChanges(table)).foreach(copyAnew)
    }
    waiting.start()
    exclusively(requests.take())
    state.tables.filter(_.isWaiting).foreach(table => submit(table.oid))
    val seconds = Resyncs.SecondsBetweenRequests
    polls.scheduleWithFixedDelay(() => poll(), seconds, seconds, TimeUnit.SECONDS): Unit
  }

  /**
   * Returns whether changes of a table are lost because somebody has removed its waiting table. It is
   * made before the copy, and dropped when the table is live.
   */
  private def lacksChanges(table: TableState) =
    resync.isCopied(table) && !target.exists(table.waitingName)

  private def copyAnew(table: TableState): Unit =
    try {
      val now = catalog.again(table.oid, Some(table.table))
        .getOrElse(throw TableError.notPublished(table.table.source.name))
      begin(now, s"Somebody has removed the table ${table.waitingName}.")
    } catch { case error: LakeException if options.skips => handle(table.oid, error) }

  /** Ends the copies under way. The next start begins them again. */
  def stop(): Unit = {
    polls.shutdownNow()
    pool.shutdownNow()
    try session.sparkContext.cancelJobsWithTag(tag)
    finally pool.awaitTermination(Resyncs.SecondsToStop, TimeUnit.SECONDS): Unit
  }

  /** Waits until no table waits any more, one has failed, or the job stops. */
  def await(isStopping: () => Boolean): Unit =
    while (error.isEmpty && isBusy && !isStopping()) Thread.sleep(Resyncs.PauseMillis)

  private def isBusy = !underWay.isEmpty || state.tables.exists(_.isWaiting)

  private def takeRequests(): Unit =
    try requests.take()
    catch {
      case again: StartOver.Requested => throw again
      case NonFatal(problem) => log.warn(s"The requests cannot be read. ${problem.getMessage}")
    }

  /** A server without changes has no micro-batches. */
  private def poll(): Unit =
    if (lock.tryLock())
      try {
        takeRequests()
        look()
      } catch {
        // The next look is in some seconds. If the server is not there, the stream says so.
        case TransientError(_) => ()
        case NonFatal(error) =>
          failure.set(Some(error))
          failed(error)
      } finally lock.unlock()

  /**
   * Copies a table again if an error says that the changes do not tell what happened to it. If the table
   * was dropped and made again, copies the new one. The caller has the lock.
   *
   * @return false if it is another error, or if the table cannot be copied
   */
  def mends(oid: Long, error: Throwable): Boolean =
    options.copiesChanged && SchemaChange.unapply(error).exists { change =>
      val kept = state.table(oid).map(_.table)
      def now = catalog.again(oid, kept).orElse(kept.flatMap(catalog.madeAgain))
      if (Option(joined.remove(oid)).exists(_.plus(Resyncs.Proof).isBefore(Instant.now)))
        settled(oid)
      repeated.merge((oid, change.sentences), 1, _ + _) <= Resyncs.MostRepeated &&
      now.filter(_.source.unpublished.isEmpty).exists { table =>
        begin(table, change.sentences)
        true
      }
    }

  /**
   * Copies a table that the publications have since the job runs. The caller has the lock, and can be
   * applying changes of the tables that were there before.
   */
  def added(table: MirroredTable): Unit =
    // Otherwise the error of the table that was dropped begins the copy, when no change is applied.
    if (!beginning.replacesLiveTable(table)) begin(table, "It was added to the publication.")

  /**
   * Begins to copy a table. The caller has the lock.
   *
   * @param now the table by the catalog of now
   * @param reason why, a sentence
   */
  def begin(now: MirroredTable, reason: String): Unit =
    if (beginning.begin(now, reason)) submit(now.source.oid)

  private def isBeingApplied(oid: Long) = underWay.contains(oid) &&
    state.table(oid).exists(table => table.isWaiting && resync.isCopied(table))

  /** Tells that changes were applied to a table, so the copy of it was right. */
  def settled(oid: Long): Unit = repeated.keySet.removeIf(_._1 == oid): Unit

  private def submit(oid: Long): Unit =
    if (underWay.add(oid)) pool.execute(() => run(oid))

  private def run(oid: Long): Unit = {
    session.sparkContext.addJobTag(tag)
    val problem =
      try {
        new Retries().repeat(() => pool.isShutdown, log.warn) {
          CopyPool.within(session.sparkContext) {
            resync.copy(oid)(lsn => waiting.copiedAsOf(oid, lsn))
          }
          exclusively(join(oid))
        }
        None
      } catch { case problem: Throwable => Some(problem) }
      finally {
        session.sparkContext.removeJobTag(tag)
        underWay.remove(oid): Unit
      }
    if (!pool.isShutdown) problem match {
      case Some(error) => handle(oid, error)
      // Another copy can have been asked for since the table went live.
      case None => if (state.table(oid).exists(_.isWaiting)) submit(oid)
    }
  }

  /** Applies what is left, while no micro-batch runs. */
  private def join(oid: Long): Unit = {
    resync.apply(oid)
    val table = state.table(oid).get
    state.put(table.copy(status = TableStatus.Live))
    state.save()
    joined.put(oid, Instant.now)
    log.tell(s"The table ${table.table.source.name} is live.")
    waiting.drop(table)
  }

  private def handle(oid: Long, problem: Throwable): Unit =
    try exclusively {
        // Another copy can have begun since this one failed, also one of a table that replaces this one.
        val isOver = underWay.contains(oid) || state.table(oid).isEmpty
        if (!isOver && !mends(oid, problem)) {
          if (!options.skips || !TableFault.is(problem)) throw problem
          val table = state.table(oid).get
          // The generation of a copy that was not made can be used again.
          val generation = if (resync.isCopied(table)) table.generation else table.generation - 1
          StoppedTable.stop(table.copy(generation = generation), problem, target, state, log)
          state.save()
          waiting.drop(table)
        }
      }
    catch {
      case _: InterruptedException => ()
      case error: Throwable =>
        failure.set(Some(error))
        failed(error)
    }
}

private object Resyncs {
  final private val SecondsBetweenRequests = 5L
  final private val SecondsToStop = 30L
  final private val PauseMillis = 100L
  final private val MostRepeated = 3

  /** After this time without an error, a copy was right, and another error is a new one. */
  private val Proof = Duration.ofMinutes(10)

  private val threads = new DaemonThreads("spark-pgoutput copies tables while the stream runs")
}
