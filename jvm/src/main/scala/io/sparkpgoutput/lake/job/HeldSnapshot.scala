package io.sparkpgoutput.lake.job

import java.time.Duration

import scala.annotation.tailrec

import io.sparkpgoutput.lake.copy.{CopyError, CopySource, SlotSnapshot}
import io.sparkpgoutput.lake.resync.Resyncs
import io.sparkpgoutput.lake.state.KeptState
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.slot.ServerStillWaits
import io.sparkpgoutput.source.stream.StreamLimit

/**
 * Snapshots of the server at whose LSN a micro-batch ends, so that the tables of the target have the same
 * transactions:
 *
 *   1. The stream is held, so that no micro-batch is planned.
 *   1. A temporary slot gives a snapshot with an LSN. It is at or above the end of each micro-batch that
 *      was planned before. If open transactions delay the snapshot, the stream goes on, and this begins
 *      again later.
 *   1. The stream goes on up to the LSN, so a micro-batch ends there.
 *   1. The caller notes what the tables have then, and the stream goes on.
 */
final private[job] class HeldSnapshot(
    source: CopySource,
    slot: String,
    state: KeptState,
    resyncs: Resyncs,
    log: JobLog
) {
  import HeldSnapshot._

  private val limit = StreamLimit.of(source.address, slot)

  /**
   * Makes a snapshot, and lets the stream go on up to its LSN.
   *
   * @param tell takes what delays it
   * @param made is called before the stream goes on
   */
  def make(tell: String => Unit)(made: => Unit): SlotSnapshot = make(tell, Pauses)(() => made)

  @tailrec
  private def make(tell: String => Unit, pauses: Seq[Duration])(made: () => Unit): SlotSnapshot = {
    limit.hold()
    val found =
      try {
        val snapshot =
          SlotSnapshot.make(source, "The server makes a snapshot to verify tables", MostHold)
        made()
        limit.endAt(snapshot.lsn)
        Right(snapshot)
      } catch { case waits: ServerStillWaits => Left(waits) }
    found match {
      case Right(snapshot) => snapshot
      case Left(waits) =>
        release()
        val pause = pauses.head
        val text =
          s"${waits.getMessage} The stream goes on, and the verification is tried again in " +
            s"${pause.toSeconds} s."
        log.warn(text)
        tell(text)
        Thread.sleep(pause.toMillis)
        make(tell, if (pauses.length > 1) pauses.tail else pauses)(made)
    }
  }

  /**
   * Waits until the stream has reached the LSN of a snapshot.
   *
   * @param ended says whether to give up
   * @param body runs while no micro-batch runs
   */
  @tailrec
  def reached[T](lsn: Long, ended: () => Boolean)(body: => T): T = {
    if (ended()) throw new InterruptedException
    val found = resyncs.exclusively {
      val end = state.job.end
      if (end.exists(Lsn.isBelow(lsn, _)))
        throw CopyError.olderSnapshot(state.tables.head.table.source.name)
      Option.when(end.contains(lsn))(body)
    }
    found match {
      case Some(result) => result
      case None =>
        Thread.sleep(MillisBetweenLooks)
        reached(lsn, ended)(body)
    }
  }

  /** Lets the stream go on without a limit. */
  def release(): Unit = limit.release()
}

private object HeldSnapshot {

  /** The longest time without a micro-batch, in which the stream is held. */
  private val MostHold = Duration.ofSeconds(30)

  /** The time that the stream goes on before it is held again. */
  private val Pauses = Seq(30, 60, 120, 300, 600).map(seconds => Duration.ofSeconds(seconds.toLong))
  final private val MillisBetweenLooks = 50L
}
