package io.sparkpgoutput.changes.transactions

/** Where in the stream a message stands. */
object StreamPhase {

  /** At the beginning of what there is of the stream, perhaps in the midst of something. */
  final val Unknown = 0

  /** Between transactions. */
  final val Between = 1

  /** Between Begin and Commit. */
  final val InTransaction = 2

  /** Between Begin Prepare and Prepare. */
  final val InPrepare = 3

  /** Between Stream Start and Stream Stop. */
  final val InStream = 4
}
