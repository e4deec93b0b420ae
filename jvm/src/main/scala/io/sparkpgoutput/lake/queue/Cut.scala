package io.sparkpgoutput.lake.queue

import java.nio.ByteBuffer
import java.util.Arrays

import scala.collection.mutable
import scala.util.Using

import org.roaringbitmap.RoaringBitmap

import io.sparkpgoutput.changes.rows.{Relation, RelationDecoder}
import io.sparkpgoutput.changes.transactions.SchemaMessage
import io.sparkpgoutput.protocol._

/** The changes of a table that one commit takes: whole transactions, one after the other. */
trait CutMessages {

  /** The end LSN of the last commit, which becomes the mark of the table. */
  def end: Long

  /** How many changes there are. */
  def changes: Long

  /** The size of the messages. */
  def bytes: Long

  /**
   * Gives the messages in order: for each transaction a Begin message, an Origin message if it has one, its changes
   * and a Commit message. Type and Relation messages are before the first change that they define, and before the first
   * change of the cut in any case. It can be called several times.
   *
   * @param take
   *   takes the ordinal of a message in its transaction, and the message. A message that is not a change has the
   *   ordinal [[Cut.NoOrdinal]].
   */
  def foreach(take: (Long, Array[Byte]) => Unit): Unit
}

/** The greatest size of a cut of several transactions. */
final case class CutLimit(bytes: Long, changes: Long = Long.MaxValue) {
  def allows(bytes: Long, changes: Long): Boolean = bytes <= this.bytes && changes <= this.changes
}

/**
 * Whole transactions from the begin of a queue: what one commit of the table takes. It can be read several
 * times, until the queue removes it or is dropped.
 *
 * @param blocks the blocks that it is in
 * @param first where it begins in the first block
 * @param before the totals of the blocks before the last one, without those before `first`
 * @param last where it ends in the last block
 */
final class Cut private[queue] (
    queue: TableQueue,
    private[queue] val blocks: IndexedSeq[QueueBlock],
    private[queue] val first: Place,
    before: BlocksBefore,
    private[queue] val last: Place
) extends CutMessages {
  override def end: Long = last.end
  override val changes: Long = before.changes + last.changes
  override val bytes: Long = before.bytes + last.offset

  /** How many transactions it has. */
  val transactions: Long = before.commits + last.commits

  /** The time of its last commit, in microseconds since 1970. */
  def lastCommit: Long = last.time

  /** The distinct xids of its transactions, in ascending order. The first call reads the whole cut. */
  lazy val xids: Array[Long] = {
    // There can be millions, so none of them becomes an object.
    val found = new RoaringBitmap
    readEntries { entries =>
      if (entries.tag == MessageType.Tag.Begin)
        found.add(BeginMessage.xid(entries.message()).toInt)
    }
    found.toArray.map(Integer.toUnsignedLong)
  }

  /** The definitions of the changes. It reads the whole cut. */
  def relations: Set[Relation] = {
    val decoder = new RelationDecoder(TextEncoding.Utf8)
    val found = Set.newBuilder[Relation]
    foreach { (_, message) =>
      if (message(0) == MessageType.Tag.Relation)
        found += decoder.relation(SchemaMessage.outsideStream(message))
    }
    found.result()
  }

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
      Using.resource(queue.entries(blocks(index), from, to))(entries =>
        while (entries.next()) f(entries)
      )
    }
}

object Cut {

  /** The ordinal of a message that is not a change. */
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

private[queue] object CutSearch {

  /**
   * Finds where a cut can end. The counts of the blocks show in which block. The messages of this block are read
   * only if the cut does not end at the block's last commit.
   *
   * The caller has the lock of the queue. The result gives the cut. It may read a file, so it is called without the
   * lock.
   *
   * @param front where in the first block the queue begins
   */
  def of(
      queue: TableQueue,
      blocks: collection.IndexedSeq[QueueBlock],
      front: Place,
      upTo: Long,
      limit: CutLimit
  ): () => Option[Cut] = {
    var before = BlocksBefore(0, -front.offset.toLong, -front.changes, -front.commits.toLong)
    var counted = Option.empty[(BlocksBefore, Place)]
    var searched = Option.empty[(BlocksBefore, Place)]
    var goesOn = true
    while (goesOn && before.index < blocks.size) {
      val block = blocks(before.index)
      val after = before.and(block)
      val commits = block.commits - (if (before.index == 0) front.commits else 0)
      if (commits > 0) {
        val toLast = Some(before -> block.last)
        val canEnd = !Lsn.isBelow(upTo, block.last.end)
        goesOn = canEnd && before.allow(limit, block.last)
        // A block with one commit has no earlier end, so it is not read: its file can be lost.
        if (goesOn || canEnd && commits == 1 && counted.isEmpty) counted = toLast
        else if (commits > 1 && !Lsn.isBelow(upTo, block.firstEnd)) searched = toLast
      } else goesOn = counted.isEmpty || limit.allows(after.bytes, after.changes)
      if (goesOn) before = after
    }
    val needed = blocks.iterator.take(before.index + 1).toIndexedSeq
    val (byCounts, inBlock) = (counted, searched)

    def search(before: BlocksBefore, to: Int): Option[Place] = {
      val block = needed(before.index)
      val from = if (before.index == 0) front else Place.beginOfBlock(block.start)
      Using.resource(queue.entries(block, from.offset, to)) {
        Cut.search(_, from) { place =>
          val isFirst = byCounts.isEmpty && place.commits == from.commits + 1
          !Lsn.isBelow(upTo, place.end) && (isFirst || before.allow(limit, place))
        }
      }
    }
    () =>
      inBlock.flatMap { case (before, last) => search(before, last.offset).map(before -> _) }
        .orElse(byCounts).map { case (before, last) =>
          new Cut(queue, needed.take(before.index + 1), front, before, last)
        }
  }
}

/** The totals of all blocks before a block, without those of earlier cuts. */
final private[queue] case class BlocksBefore(
    index: Int,
    bytes: Long,
    changes: Long,
    commits: Long
) {
  def and(block: QueueBlock): BlocksBefore =
    BlocksBefore(index + 1, bytes + block.used, changes + block.changes, commits + block.commits)

  /** Whether a limit allows all up to a place of the next block. */
  def allow(limit: CutLimit, last: Place): Boolean =
    limit.allows(bytes + last.offset, changes + last.changes)
}

/**
 * The Commit message by which a queue ends a transaction: Int8 flags; Int64 LSN of the commit; Int64 end LSN;
 * Int64 time of the commit.
 */
private[queue] object CommitEntry {
  final private val Size = 1 + 1 + 8 + 8 + 8

  /** The Commit message that belongs to a Begin message. */
  def of(begin: Array[Byte], end: Long): Array[Byte] =
    ByteBuffer
      .allocate(Size)
      .put(MessageType.Tag.Commit.toByte)
      .put(0: Byte)
      .putLong(BeginMessage.lsn(begin))
      .putLong(end)
      .putLong(BeginMessage.timestamp(begin) - PostgresEpoch.Micros)
      .array

  def end(message: Array[Byte]): Long = BigEndian.int64(message, 1 + 1 + 8)

  /** In microseconds since 1970. */
  def timestamp(message: Array[Byte]): Long =
    BigEndian.int64(message, 1 + 1 + 8 + 8) + PostgresEpoch.Micros
}

/**
 * The definition of a table in force: its Type messages and its Relation message. Two are equal if all bytes
 * are.
 */
final class TableMessages(val relation: Array[Byte], val types: IndexedSeq[Array[Byte]]) {
  override def equals(other: Any): Boolean = other match {
    case that: TableMessages =>
      (this eq that) || Arrays.equals(relation, that.relation) &&
      types.corresponds(that.types)((one, another) => Arrays.equals(one, another))
    case _ => false
  }

  override def hashCode: Int =
    types.foldLeft(Arrays.hashCode(relation))((hash, next) => 31 * hash + Arrays.hashCode(next))
}
