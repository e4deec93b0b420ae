package io.sparkpgoutput.source.stream

import java.time.Duration

/**
 * Decides when the server is asked for the end of the next batch. It is asked at once after a batch
 * that has rows or reaches the limit of bytes. Otherwise it is asked after an interval. The server
 * writes WAL all the time, and each batch without rows costs two files in the checkpoint.
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
