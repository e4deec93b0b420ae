package io.sparkpgoutput.source.session

/**
 * Messages that a session hands to a task at once.
 *
 * @param reached an LSN below which the server has sent all commits, in this chunk or before it
 */
final class MessageChunk(val messages: Array[Array[Byte]], val bytes: Long, val reached: Long)
