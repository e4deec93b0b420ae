package io.sparkpgoutput.changes.transactions

import io.sparkpgoutput.protocol.{StreamContext, TextEncoding}

/**
 * Collects, from messages in any order, the last Relation message of each table and the last Type
 * message of each type. It ignores other messages. Not thread-safe.
 */
final class LastSchemaMessages(encoding: TextEncoding) {
  private val decoder = new ControlMessageDecoder(encoding)
  private val known = new KnownRelations

  /**
   * Takes a message. The message may be part of a stream block. The decoder infers that from its
   * bytes.
   */
  def add(position: Long, message: Array[Byte]): Unit =
    if (SchemaMessage.is(message)) add(decoder.definition(position, message, StreamContext.UNKNOWN))

  def add(sent: SchemaMessage): Unit = known.addIfLast(sent)

  def all: Iterable[SchemaMessage] = known.relationMessages ++ known.typeMessages

  /** Returns the state before a stream if nothing but these messages is known of it. */
  def state: AssemblerState =
    AssemblerState(relations = known.relationMessages.toSeq, types = known.typeMessages.toSeq)
}
