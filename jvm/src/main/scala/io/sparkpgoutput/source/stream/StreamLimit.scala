package io.sparkpgoutput.source.stream

import java.util.concurrent.ConcurrentHashMap

import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.ServerAddress

/**
 * The LSN up to which the stream of a slot may plan batches, and the LSNs at which its sessions begin
 * anew. The code that runs the stream sets them, in the same driver. Spark plans batches in a thread of
 * its own.
 */
final class StreamLimit {
  private var isOpen = true

  /** No batch may end above it; None lets no batch be planned. */
  private var limit = Option.empty[Long]

  /** Where sessions begin anew. */
  private var renewals = Set.empty[Long]

  /** The greatest end of a batch that was planned. */
  private var planned = Option.empty[Long]

  /** Lets no batch be planned from now on. A batch that was planned before runs to its end. */
  def hold(): Unit = set(open = false, None)

  /** Lets batches be planned up to an LSN, so that one of them ends there. */
  def endAt(lsn: Long): Unit = set(open = false, Some(lsn))

  /** Lets the stream go on. */
  def release(): Unit = set(open = true, None)

  /** Forgets where sessions begin anew, and the batches of the stream of before. */
  def forget(): Unit = synchronized {
    renewals = Set.empty
    planned = None
  }

  /** Lets the stream that begins next read with a new session from each of these LSNs on. */
  def renewAt(lsns: Iterable[Long]): Unit = synchronized(renewals ++= lsns)

  /**
   * Lets a batch end at an LSN, and a new session read from there on.
   *
   * @return false if a batch was planned that passes the LSN
   */
  def renewAt(lsn: Long): Boolean = synchronized {
    val isAhead = !planned.exists(Lsn.isBelow(lsn, _))
    if (isAhead) renewals += lsn
    isAhead
  }

  private def set(open: Boolean, lsn: Option[Long]): Unit = synchronized {
    isOpen = open
    limit = lsn
  }

  /**
   * Returns where the next batch ends.
   *
   * @param begin the start of the batch
   * @param end
   *   where it would end. What is called after this has seen [[hold]] comes after the question for it.
   */
  private[stream] def endOf(begin: Long, end: Long): Long = synchronized {
    val most = if (isOpen) end else limit.fold(begin)(limit => Lsn.max(begin, Lsn.min(end, limit)))
    val found = renewals.filter(Lsn.isBelow(begin, _)).foldLeft(most)(Lsn.min)
    planned = Some(planned.fold(found)(Lsn.max(_, found)))
    found
  }

  /** Returns the LSN at or above which the session of a batch must have begun. */
  private[stream] def renewedAt(begin: Long): Long = synchronized {
    renewals.filterNot(Lsn.isBelow(begin, _)).foldLeft(0L)(Lsn.max)
  }

  private[stream] def isHeld: Boolean = synchronized(!isOpen && limit.isEmpty)
}

object StreamLimit {
  private val limits = new ConcurrentHashMap[(String, String), StreamLimit]

  /** The limit of the streams of a slot. A slot can only be read by one stream at a time. */
  def of(address: ServerAddress, slot: String): StreamLimit =
    limits.computeIfAbsent((address.url, slot), _ => new StreamLimit)
}
