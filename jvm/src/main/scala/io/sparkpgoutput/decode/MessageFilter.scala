package io.sparkpgoutput.decode

import java.util.Arrays

import io.sparkpgoutput.protocol.MessageType

/**
 * The messages that a query keeps. The decoder makes no row of the others, but it checks them too.
 *
 * @param types the names of the types that are kept; None for all
 * @param relationIds
 *   the tables whose messages are kept. Then messages without `relation_id` are dropped. None for all
 *   messages.
 */
final case class MessageFilter(types: Option[Set[String]], relationIds: Option[Set[Long]]) {
  private val keepsTag: Array[Boolean] = {
    val kept = MessageType.all.filter(message => types.forall(_.contains(message.name))).map(_.tag)
    Array.tabulate(256)(tag => kept.contains(tag.toChar))
  }
  private val sortedIds: Array[Long] = relationIds.map(_.toArray.sorted).orNull

  /** Returns whether to keep a message that has no `relation_id`. */
  def keeps(tag: Int): Boolean =
    sortedIds == null && keepsTag(tag)

  /** Returns whether to keep a message that has this `relation_id`. */
  def keeps(tag: Int, relationId: Long): Boolean =
    keepsTag(tag) &&
      (sortedIds == null || Arrays.binarySearch(sortedIds, relationId) >= 0)
}

object MessageFilter {
  val all: MessageFilter = MessageFilter(None, None)
}
