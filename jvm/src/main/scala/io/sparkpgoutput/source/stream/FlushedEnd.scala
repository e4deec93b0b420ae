package io.sparkpgoutput.source.stream

import io.sparkpgoutput.protocol.Lsn

/**
 * Finds the end of the WAL that a batch can read. A flush LSN on a page boundary often lies inside
 * a record, which can stay unfinished for 10 seconds. So this does not take such an LSN until the
 * server has flushed more. If applications commit asynchronously all the time, the server flushes
 * whole pages only (`XLogBackgroundFlush`).
 */
final class FlushedEnd {
  private var boundary = 0L
  private var start = 0L

  /**
   * Returns the LSN up to which a batch can read, or its start if there is nothing yet.
   *
   * @param begin the start of the batch
   * @param flushed the server's flush LSN
   * @param pageSize the size of a page of WAL in bytes
   */
  def of(begin: Long, flushed: Long, pageSize: Int): Long =
    if (flushed % pageSize != 0) flushed
    else if (start == begin && Lsn.isBelow(begin, boundary) && Lsn.isBelow(boundary, flushed))
      boundary
    else {
      boundary = flushed
      start = begin
      begin
    }
}
