package io.sparkpgoutput.source.session

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.TaskContext

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.source.output.SlotRows

/**
 * The sessions of this executor, by the UUID of their source. A session stays open from batch to batch,
 * because a new one makes the server decode its WAL again from the slot's restart LSN.
 */
object SlotSessions {
  private val parked = mutable.Map.empty[String, KeptSession]

  /** The attempts of tasks that read, by the UUID of their source. */
  private val busy = mutable.Map.empty[String, Long]

  /**
   * The walsenders of the last sessions that began here, with the UUIDs of their sources. An executor has one session
   * of a source at a time. So when it begins another one, all earlier ones are closed or lost, also if the server still
   * shows one as reading. It does so until `wal_sender_timeout` if it has not heard of the end of a connection.
   */
  private val walsenders = mutable.LinkedHashSet.empty[(String, Int)]

  /** The last starts of queries that have ended in this process. */
  private val endedRuns = mutable.LinkedHashSet.empty[String]

  /**
   * Returns a session whose position is the start of a batch. A second attempt of a batch waits until the
   * first one ends, because a slot serves one session.
   */
  def take(read: BatchRead): KeptSession = {
    val id = read.settings.id
    val found = awaitTurn(read.settings)
    try
      found.filter(_.continues(read)).getOrElse {
        found.foreach(_.close())
        SessionStart.start(read, if (found.exists(_.session.wasLost)) Patience else 0)
      }
    catch {
      case error: Throwable =>
        free(id)
        throw error
    }
  }

  private def awaitTurn(settings: SessionSettings): Option[KeptSession] = synchronized {
    val attempt = Option(TaskContext.get()).fold(0L)(_.taskAttemptId())
    while (busy.contains(settings.id)) {
      // A task that reads the batch twice at a time would wait for itself.
      if (busy(settings.id) == attempt) throw new SourceException(
        "PGOUTPUT_SLOT_IN_USE.READ_TWICE",
        "slot" -> s"slot ${settings.slot}"
      )
      wait(WaitMillis)
      KilledTask.check()
    }
    busy.update(settings.id, attempt)
    parked.remove(settings.id)
  }

  /** Returns another session at the start of a batch, in place of one that was lost. */
  def startAgain(lost: KeptSession, read: BatchRead): KeptSession = {
    lost.close()
    KilledTask.check()
    SessionStart.start(read, Patience)
  }

  /** A session of a source begins. */
  private[session] def begins(id: String, pid: Int): Unit = synchronized {
    walsenders += id -> pid
    if (walsenders.size > MostWalsenders) walsenders -= walsenders.head
  }

  /** Returns whether a process of the server was a session of this executor, if another one is about to begin. */
  private[session] def isOver(id: String, pid: Int): Boolean = synchronized(walsenders(id -> pid))

  /** Keeps a session for the next batch, unless the query has ended or the session knows too many tables. */
  def park(session: KeptSession): Unit = synchronized {
    if (endedRuns(session.read.settings.run) || session.session.knowsTooMuch) discard(session)
    else {
      session.session.park()
      // Sessions of other sources can have ended by themselves.
      parked.filterInPlace((_, kept) => kept.session.isOpen)
      parked.update(session.read.settings.id, session)
      free(session.read.settings.id)
    }
  }

  /** Ends a session after a batch that failed, or that no other one follows. */
  def discard(session: KeptSession): Unit = {
    session.close()
    free(session.read.settings.id)
  }

  /** Ends a session if it is parked. */
  def close(session: KeptSession): Unit = synchronized {
    val id = session.read.settings.id
    if (parked.get(id).contains(session)) close(id)
  }

  /**
   * Ends the parked session of a query that ends, if this executor has it. Spark can have begun a batch when it stops
   * the query, and cancels the job of this batch only after the source has ended. So a task can be done after this. On
   * another executor, the session of such a task ends when it was not used for [[SlotSession]]'s longest time.
   */
  def end(settings: SessionSettings): Unit = {
    synchronized {
      endedRuns += settings.run
      if (endedRuns.size > MostRuns) endedRuns -= endedRuns.head
    }
    close(settings.id)
  }

  private def close(id: String): Unit = synchronized(parked.remove(id)).foreach(_.close())

  private def free(id: String): Unit = synchronized {
    busy -= id
    notifyAll()
  }

  final private val WaitMillis = 100L
  final private val MostRuns = 1000
  final private val MostWalsenders = 1000

  /** The time in nanoseconds that a source waits for its slot after its session was lost. */
  private val Patience = TimeUnit.SECONDS.toNanos(60)
}

/**
 * A session, and what makes rows of its messages. The server sends a Relation message for each table once a
 * session, so the two stay together.
 *
 * @param read the batch at whose start the session began, with the timelines that the session reads
 * @param position the end of the last batch, where the session continues
 */
final class KeptSession(
    val session: SlotSession,
    val rows: SlotRows,
    val read: BatchRead,
    var position: Long
) extends AutoCloseable {

  /**
   * Returns whether the session can continue with a batch. A batch of other timelines was planned on another server,
   * whose changes the session would not have.
   */
  def continues(next: BatchRead): Boolean =
    session.isOpen && position == next.start && read.settings == next.settings &&
      read.identity.timelines == next.identity.timelines && read.output.schema == next.output.schema

  override def close(): Unit = session.close()
}
