package io.sparkpgoutput.lake.job

import java.io.IOException
import java.net.{SocketException, SocketTimeoutException, UnknownHostException}

import scala.util.control.NonFatal

import org.apache.spark.SparkException

import io.sparkpgoutput.errors.{ErrorCauses, PgOutputException, SourceException}
import io.sparkpgoutput.lake.core.TableFailure
import io.sparkpgoutput.source.connection.SqlState

/**
 * Decides what happens to a table, or to the job, after an error.
 *
 * An error of one table does not end the job, unless the option `onTableError` is `stop`. An unknown error stops its
 * table, and the job tries again. This does no harm, because each commit compares its mark.
 */
object TableFailures {

  /**
   * Classes of SQLSTATEs that a running job waits for: connections, logins that are refused (a password is
   * changed), resources that the server lacks, statements and sessions that somebody ends, and errors of disks.
   */
  private val PassingStates = Set("08", "28", "53", "57", "58", "40", SqlState.LockNotAvailable)

  /**
   * The SQLSTATEs of the server that another attempt need not have: tables that are gone or in use, and internal
   * errors, which PostgreSQL reports if a table changes while its definition is read.
   */
  private val RetriedStates =
    Set(SqlState.UndefinedTable, SqlState.ObjectInUse, SqlState.InternalError)

  /** How many characters of a text are shown and kept. */
  final private val MostText = 2000

  /** What Spark says about tasks whose executor is lost. */
  private val LostTasks =
    Seq("ExecutorLostFailure", "Executor heartbeat timed out", "Checkpoint block")

  final private val Connection = "PGOUTPUT_CONNECTION"
  final private val OtherJob = "PGOUTPUT_OTHER_JOB"

  /** The errors that a new copy of the table corrects. If another process has taken over, the job ends instead. */
  private val NeedCopy =
    Set("PGOUTPUT_TABLE_CHANGED", "PGOUTPUT_SCHEMA_EVOLUTION", "PGOUTPUT_MARK_LOST", OtherJob)

  /** For example, all slots of the server are in use at the moment. */
  final private val SlotNotCreated = "PGOUTPUT_SLOT_NOT_CREATED"

  /** The errors of the server, the slot and the state after which no table can continue. */
  private val EndsJob = Set(
    "PGOUTPUT_SLOT_NOT_FOUND",
    "PGOUTPUT_SLOT_MOVED",
    "PGOUTPUT_SLOT_INVALIDATED",
    "PGOUTPUT_SLOT_PLUGIN",
    "PGOUTPUT_SLOT_DATABASE",
    "PGOUTPUT_SLOT_TEMPORARY",
    "PGOUTPUT_SLOT_TWO_PHASE",
    "PGOUTPUT_SLOT_SYNCHRONIZED",
    "PGOUTPUT_OTHER_SERVER",
    "PGOUTPUT_SERVER_BEHIND",
    "PGOUTPUT_SERVER_VERSION",
    "PGOUTPUT_TIMELINE",
    "PGOUTPUT_PUBLICATION_NOT_FOUND",
    "PGOUTPUT_PUBLICATION_MADE_AGAIN"
  )

  /** Returns the failure of a table whose cut, copy or columns have the error. */
  def of(error: Throwable): TableFailure = {
    val kind =
      if (isPassing(error)) TableFailure.Waits
      else condition(error) match {
        case Some(condition) if NeedCopy(condition) => TableFailure.NeedsCopy
        case Some("PGOUTPUT_SOURCE_NOT_READY" | "PGOUTPUT_TARGET_LOG_LOST" | SlotNotCreated) =>
          TableFailure.Retried
        case _ if known(error).exists(_.getSqlState == SqlState.InsufficientPrivilege) =>
          TableFailure.Retried
        case Some(Connection) if known(error).exists(found => RetriedStates(found.getSqlState)) =>
          TableFailure.Retried
        case Some(_) => TableFailure.Lasting
        case None    => TableFailure.Retried
      }
    TableFailure(kind, text(error))
  }

  /** Returns whether the error concerns the whole job, no matter which table met it. */
  def endsJob(error: Throwable): Boolean =
    !isPassing(error) && known(error).exists(_.isInstanceOf[SourceException]) &&
      condition(error).exists(EndsJob)

  /** Returns whether the job goes on after an error that concerns no table, and tries again. */
  def mayPass(error: Throwable): Boolean = NonFatal(error) && of(error).passes

  /** Returns whether another process, a store or the server is the reason, which passes by itself. */
  def isPassing(error: Throwable): Boolean = ErrorCauses.of(error).exists(passes)

  private def passes(cause: Throwable): Boolean = cause match {
    case found: PgOutputException =>
      found.getCondition match {
        case Connection => PassingStates.exists(found.getSqlState.startsWith)
        // A statement such as TRUNCATE interrupted the copy. The next attempt has a newer snapshot.
        case "PGOUTPUT_COMMIT_CONFLICT" | "PGOUTPUT_COPY_INTERRUPTED" => true
        case _                                                        => false
      }
    case _: SocketException | _: SocketTimeoutException | _: UnknownHostException => true
    case found: IOException => !found.getClass.getName.contains("FileNotFound")
    case other =>
      val name = other.getClass.getName
      PassingClasses.exists(name.endsWith) ||
      LostTasks.exists(text => Option(other.getMessage).exists(_.contains(text)))
  }

  /** The errors of stores and catalogs, by their names, because their JARs may be absent. */
  private val PassingClasses = Seq(
    "iceberg.exceptions.RuntimeIOException",
    "iceberg.exceptions.ServiceUnavailableException",
    "iceberg.exceptions.ServiceFailureException",
    "iceberg.exceptions.RESTException",
    "iceberg.exceptions.CommitStateUnknownException",
    "iceberg.exceptions.CommitFailedException",
    "iceberg.jdbc.UncheckedSQLException",
    "SdkClientException",
    "S3Exception"
  )

  /** Returns whether the server has made no slot, such as when others use all of its slots. */
  def hasNoSlot(error: Throwable): Boolean = condition(error).contains(SlotNotCreated)

  private def known(error: Throwable): Option[PgOutputException] =
    ErrorCauses.of(error).collectFirst { case known: PgOutputException => known }

  private def condition(error: Throwable): Option[String] = known(error).map(_.getCondition)

  /** Whether the error comes from this library, so that its text says everything. */
  def isKnown(error: Throwable): Boolean = error.isInstanceOf[Waiting] || known(error).nonEmpty

  /** Whether the stack trace of an error can say more than its text. It cannot if a store or the server is away. */
  def needsStack(error: Throwable): Boolean = !isKnown(error) && !isPassing(error)

  /**
   * The text of the most informative error among the causes. It is cut if it is long: PostgreSQL quotes a whole value
   * that it refuses, and Jackson would not read a state with such a text again.
   */
  def text(error: Throwable): String = {
    // What Spark says of a task has numbers and classes before the words of the store.
    val causes = ErrorCauses.of(error).toSeq
    val ofStore = if (error.isInstanceOf[SparkException]) causes.find(passes) else None
    val text = known(error).map(_.getMessage).getOrElse(
      (ofStore.iterator ++ causes).flatMap(found => Option(found.getMessage))
        .flatMap(_.linesIterator.map(_.trim).find(_.nonEmpty)).nextOption()
        .getOrElse(error.toString)
    )
    if (text.length <= MostText) text
    else {
      val isInPair = Character.isHighSurrogate(text.charAt(MostText - 1))
      s"${text.take(if (isInPair) MostText - 1 else MostText)}…"
    }
  }

  /** Whether the table has another mark than the one expected, or another process has taken over. */
  def isOtherMark(error: Throwable): Boolean =
    condition(error).contains(OtherJob) && !isPassing(error)

  /** Whether a table has changed in a way that its changes do not show. */
  def needsCopy(error: Throwable): Boolean =
    condition(error).exists(NeedCopy - OtherJob)
}
