package io.sparkpgoutput.changes.transactions

import scala.collection.mutable

import io.sparkpgoutput.protocol.{StreamContext, TextEncoding}

/**
 * Collects, from messages in any order, the last Relation message of each table and the last Type
 * message of each type. It ignores other messages. Not thread-safe.
 */
final class LastSchemaMessages(encoding: TextEncoding) {
  private val decoder = new ControlMessageDecoder(encoding)
  private val relations = mutable.LongMap.empty[SchemaMessage]
  private val types = mutable.LongMap.empty[SchemaMessage]

  /** Takes a message. It may stand in a stream block, which mostly its bytes tell. */
  def add(position: Long, message: Array[Byte]): Unit =
    if (SchemaMessage.is(message)) add(decoder.definition(position, message, StreamContext.UNKNOWN))

  def add(sent: SchemaMessage): Unit = {
    val known = if (sent.isType) types else relations
    if (!known.get(sent.oid).exists(_.position > sent.position)) known.update(sent.oid, sent)
  }

  def all: Iterable[SchemaMessage] = relations.values ++ types.values

  /** The state before a stream of which only these messages are known. */
  def state: AssemblerState =
    AssemblerState(relations = relations.values.toSeq, types = types.values.toSeq)
}
