package io.sparkpgoutput.source.session

import io.sparkpgoutput.source.output.SlotRows

/**
 * A session with what makes rows of its messages: the server describes each table once a session.
 *
 * @param position the end of the last batch, where the session stands
 */
final class KeptSession(
    val session: SlotSession,
    val rows: SlotRows,
    val read: BatchRead,
    var position: Long
) extends AutoCloseable {

  /** Tells if the session can go on with a batch. */
  def continues(next: BatchRead): Boolean =
    session.isOpen && position == next.start && read.settings == next.settings &&
      read.output.schema == next.output.schema

  override def close(): Unit = session.close()
}
