package io.sparkpgoutput.changes.streaming

/** Where a chunk of a transaction is found in the state store. */
final case class ChunkKey(firstPosition: Long, number: Int)
