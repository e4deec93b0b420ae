package io.sparkpgoutput.changes.batch

/** Shows if messages that are read twice were the same. */
final case class Fingerprint(messages: Long, positions: Long, bytes: Long)
