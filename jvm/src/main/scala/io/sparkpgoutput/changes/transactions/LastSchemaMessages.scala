package io.sparkpgoutput.changes.transactions

import io.sparkpgoutput.protocol.{StreamContext, TextEncoding}

/**
 * Collects, from messages in any order, the last Relation message of each table and the last Type
 * message of each type. It ignores other messages. Not thread-safe.
 */
final class LastSchemaMessages(encoding: TextEncoding) {
  private val decoder = new ControlMessageDecoder(encoding)
  private val known = new KnownRelations

  /** Takes a message. It may stand in a stream block, which mostly its bytes tell. */
  def add(position: Long, message: Array[Byte]): Unit =
    if (SchemaMessage.is(message)) add(decoder.definition(position, message, StreamContext.UNKNOWN))

  def add(sent: SchemaMessage): Unit = known.addIfLast(sent)

  def all: Iterable[SchemaMessage] = known.relationMessages ++ known.typeMessages

  /** The state before a stream of which only these messages are known. */
  def state: AssemblerState =
    AssemblerState(relations = known.relationMessages.toSeq, types = known.typeMessages.toSeq)
}
