package io.sparkpgoutput.changes.streaming

/** The key of a chunk in the state store: its transaction, and its number in the transaction. */
final case class ChunkKey(firstPosition: Long, number: Int)
