package io.sparkpgoutput.source.stream

import java.time.Duration

/**
 * Says when the server is asked for the end of the next batch: at once after a batch with rows or at the
 * limit of bytes, else after an interval. The server writes WAL all the time, and each batch without
 * rows costs two files in the checkpoint.
 */
final class BatchPace(idleInterval: Duration) {
  private var lastQuestion: Option[Long] = None
  private var isBehind = false

  /** Tells if the interval is over. */
  def isDue(hadRows: Boolean): Boolean = hadRows || isBehind ||
    lastQuestion.forall(System.nanoTime() - _ >= idleInterval.toNanos)

  /**
   * The server was asked.
   *
   * @param isBehind true if the batch is at its limit, so that there is more
   */
  def asked(isBehind: Boolean): Unit = {
    lastQuestion = Some(System.nanoTime())
    this.isBehind = isBehind
  }
}
