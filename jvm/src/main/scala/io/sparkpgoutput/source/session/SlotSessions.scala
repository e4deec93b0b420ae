package io.sparkpgoutput.source.session

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.apache.spark.{TaskContext, TaskKilledException}

/**
 * The sessions of this executor, by the UUID of their source. A session stays open from batch to batch,
 * because a new one makes the server decode its WAL again from the slot's restart LSN.
 */
object SlotSessions {
  private val parked = mutable.Map.empty[String, KeptSession]
  private val busy = mutable.Set.empty[String]

  /**
   * Returns a session that stands at the start of a batch. A second attempt of a batch waits until the
   * first one ends, because a slot serves one session.
   */
  def take(read: BatchRead): KeptSession = {
    val id = read.settings.id
    val found = awaitTurn(id)
    try
      found.filter(_.continues(read)).getOrElse {
        found.foreach(_.close())
        SessionStart.start(read, if (found.exists(_.session.wasTerminated)) Patience else 0)
      }
    catch {
      case error: Throwable =>
        end(id)
        throw error
    }
  }

  private def awaitTurn(id: String): Option[KeptSession] = synchronized {
    while (busy.contains(id)) {
      wait(WaitMillis)
      if (Option(TaskContext.get()).exists(_.isInterrupted())) throw new TaskKilledException
    }
    busy += id
    parked.remove(id)
  }

  /** Keeps a session for the next batch. */
  def park(session: KeptSession): Unit = synchronized {
    session.session.park()
    parked.update(session.read.settings.id, session)
    end(session.read.settings.id)
  }

  /** Ends a session after a batch that failed. */
  def discard(session: KeptSession): Unit = {
    session.close()
    end(session.read.settings.id)
  }

  /** Ends the parked session of a source, if this executor has it. */
  def close(id: String): Unit = synchronized(parked.remove(id)).foreach(_.close())

  private def end(id: String): Unit = synchronized {
    busy -= id
    notifyAll()
  }

  final private val WaitMillis = 100L

  /** How long a source waits for its slot after somebody has ended its session. */
  private val Patience = TimeUnit.SECONDS.toNanos(60)
}
