package io.sparkpgoutput.lake.queue

import scala.collection.mutable

import io.sparkpgoutput.protocol.{BeginMessage, MessageType}

/** The changes of a table that one commit takes: whole transactions, one after the other. */
trait CutMessages {

  /** The end LSN of the last commit, which becomes the mark of the table. */
  def end: Long

  /** How many changes there are. */
  def changes: Long

  /** The size of the messages. */
  def bytes: Long

  /** Returns whether no message is on disk. */
  def isInMemory: Boolean

  /**
   * Gives the messages in order: the definition in force (Type messages and a Relation message), then for
   * each transaction Begin, Origin if there is one, changes, and definitions between them. It can be
   * called several times.
   *
   * @param take takes the position of a message in its transaction, and the message
   */
  def foreach(take: (Long, Array[Byte]) => Unit): Unit
}

/**
 * Whole transactions from the begin of a queue: what one commit of the table takes. It can be read several
 * times, until the queue removes it or is dropped.
 *
 * @param blocks the blocks that it is in
 * @param first where it begins in the first block
 * @param last where it ends in the last block
 * @param changes how many changes it has
 * @param bytes how many bytes its entries have
 * @param transactions how many transactions it has
 */
final class Cut private[queue] (
    queue: TableQueue,
    private[queue] val blocks: IndexedSeq[QueueBlock],
    private[queue] val first: Place,
    private[queue] val last: Place,
    val changes: Long,
    val bytes: Long,
    val transactions: Long
) extends CutMessages {

  /** The end LSN of its last commit. */
  def end: Long = last.end

  /** The time of its last commit, in microseconds since 1970. */
  def lastCommit: Long = last.time

  /** Returns whether all of it is in memory at the moment. */
  def isInMemory: Boolean = queue.isInMemory(blocks)

  /** The distinct xids of its transactions, in ascending order. The first call reads the whole cut. */
  lazy val xids: Array[Long] = {
    val found = Array.newBuilder[Long]
    readEntries { entries =>
      if (entries.tag == MessageType.Tag.Begin) found += BeginMessage.xid(entries.message())
    }
    found.result().distinct.sorted
  }

  /**
   * Calls a function with the ordinal and the message of each entry, in order: for each transaction a Begin
   * message, an Origin message if it has one, its changes and a Commit message. Type and Relation messages
   * are before the first change that they define, and before the first change of the cut in any case. What
   * is no change has the ordinal [[Cut.NoOrdinal]].
   */
  def foreach(take: (Long, Array[Byte]) => Unit): Unit = {
    // An earlier cut can have had the definition that is in force at the first change.
    var missing = first.definition
    readEntries { entries =>
      if (missing != null)
        if (entries.ordinal != Cut.NoOrdinal) {
          missing.types.foreach(take(Cut.NoOrdinal, _))
          take(Cut.NoOrdinal, missing.relation)
          missing = null
        } else if (Cut.isDefinition(entries.tag)) missing = null
      take(entries.ordinal, entries.message())
    }
  }

  private def readEntries(f: Entries => Unit): Unit =
    blocks.indices.foreach { index =>
      val from = if (index == 0) first.offset else 0
      val to = if (index == blocks.size - 1) last.offset else blocks(index).used
      val entries = queue.entries(blocks(index), from, to)
      try while (entries.next()) f(entries)
      finally entries.close()
    }
}

object Cut {

  /** The ordinal of a message that is no change. */
  final val NoOrdinal = -1L

  private[queue] def isDefinition(tag: Byte): Boolean =
    tag == MessageType.Tag.Type || tag == MessageType.Tag.Relation

  /**
   * Searches a block for the last commit that a cut can take.
   *
   * @param from where the search begins: a place at a transaction's end or at the block's begin
   * @param takes whether a cut can take what is up to a place
   */
  private[queue] def search(
      entries: Entries,
      from: Place
  )(takes: Place => Boolean): Option[Place] = {
    var found = Option.empty[Place]
    var offset = from.offset
    var changes = from.changes
    var commits = from.commits
    var definition = from.definition
    val types = mutable.ArrayBuffer.empty[Array[Byte]]
    var goesOn = true
    while (goesOn && entries.next()) {
      offset += QueueBlock.HeaderSize + entries.length
      entries.tag.toChar match {
        case MessageType.Tag.Type => types += entries.message()
        case MessageType.Tag.Relation =>
          definition = new TableMessages(entries.message(), types.toIndexedSeq)
          types.clear()
        case MessageType.Tag.Commit =>
          val commit = entries.message()
          commits += 1
          val place = Place(
            offset,
            CommitEntry.end(commit),
            CommitEntry.timestamp(commit),
            changes,
            commits,
            definition
          )
          goesOn = takes(place)
          if (goesOn) found = Some(place)
        case _ => if (entries.ordinal != NoOrdinal) changes += 1
      }
    }
    found
  }
}
