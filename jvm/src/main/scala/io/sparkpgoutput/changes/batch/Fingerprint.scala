package io.sparkpgoutput.changes.batch

/** By which it is seen whether messages that are read twice were the same. */
final case class Fingerprint(messages: Long, positions: Long, bytes: Long)
