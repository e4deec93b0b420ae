package io.sparkpgoutput.changes.transactions

/** The part of the protocol that the next message of a stream stands in. */
sealed abstract class StreamPhase extends Serializable

object StreamPhase {

  /** The first messages are missing, so the stream may begin anywhere. */
  case object Unknown extends StreamPhase

  /** Between transactions. */
  case object Between extends StreamPhase

  /** Between Begin and Commit. */
  case object InTransaction extends StreamPhase

  /** Between Begin Prepare and Prepare. */
  case object InPrepare extends StreamPhase

  /** Between Stream Start and Stream Stop. */
  case object InStream extends StreamPhase
}
