package io.sparkpgoutput.changes.transactions

import scala.collection.mutable

/** The relations and types that are known at a position of a stream. */
final class KnownRelations {
  private val relations = mutable.LongMap.empty[SchemaMessage]
  private val types = mutable.LongMap.empty[SchemaMessage]

  /** The last Relation message of each table. */
  def relationMessages: Iterable[SchemaMessage] = relations.values

  /** The last Type message of each type. */
  def typeMessages: Iterable[SchemaMessage] = types.values

  /** The Relation message for a change of the transaction; null if there is none. */
  def relation(transaction: Transaction, oid: Long): SchemaMessage = {
    val own = transaction.relation(oid)
    if (own == null) relations.getOrNull(oid) else own
  }

  /** Takes the next Relation or Type message. */
  def add(sent: SchemaMessage): Unit = of(sent).update(sent.oid, sent)

  /** Takes a Relation or Type message, unless a later one of its table or type is known. */
  def addIfLast(sent: SchemaMessage): Unit =
    if (!of(sent).get(sent.oid).exists(_.position > sent.position)) add(sent)

  def clearRelations(): Unit = relations.clear()

  private def of(sent: SchemaMessage) = if (sent.isType) types else relations
}
