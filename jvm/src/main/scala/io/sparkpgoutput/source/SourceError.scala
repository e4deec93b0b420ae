package io.sparkpgoutput.source

import io.sparkpgoutput.errors.PgOutputException

/** A slot cannot be read, or not without a gap. */
final class SourceException(condition: String, sqlState: String, text: String)
    extends PgOutputException(condition, sqlState, text)

/** The errors of reading a slot. Each says what is lost, if anything, and what to do. */
object SourceError {

  def slotInUse(slot: String, pid: Int, applicationName: String): SourceException =
    new SourceException(
      "PGOUTPUT_SLOT_IN_USE",
      "55006",
      s"The slot '$slot' is in use by the process $pid of the server (application_name " +
        s"'$applicationName'). A slot serves one query. Stop the other reader, or give this query a " +
        "slot of its own."
    )
}
