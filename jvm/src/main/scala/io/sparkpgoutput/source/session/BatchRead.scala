package io.sparkpgoutput.source.session

import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.slot.SourceIdentity

/**
 * The transactions of a batch, as a task reads them: those whose commit LSN is at or above `start` and
 * below `end`.
 *
 * @param identity what the checkpoint keeps of the slot and its server
 * @param confirmed
 *   the LSN below which all is committed in Spark; the server may forget it. 0 if that is not known.
 */
final case class BatchRead(
    settings: SessionSettings,
    identity: SourceIdentity,
    start: Long,
    end: Long,
    confirmed: Long,
    output: SlotOutput
)
