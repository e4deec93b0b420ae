package io.sparkpgoutput.lake.queue

import io.sparkpgoutput.protocol.Lsn

/**
 * Where a cut can end. The counts of the blocks say in which block; what that block has is read only if the
 * cut does not end at the block's last commit.
 *
 * @param blocks the blocks of the queue up to the last that matters
 * @param front where in the first block the queue begins
 * @param known the end of a cut, if the counts gave one
 * @param searched the block that may have a later end
 * @param searchedTo the offset at which the whole transactions of that block end
 */
final private[queue] class CutSearch(
    queue: TableQueue,
    blocks: IndexedSeq[QueueBlock],
    front: Place,
    known: Option[(BlocksBefore, Place)],
    searched: Option[BlocksBefore],
    searchedTo: Int,
    upTo: Long,
    maxBytes: Long
) {

  /** Returns the cut. It may read a file, so it is called without the lock of the queue. */
  def result(): Option[Cut] = {
    val found = searched.flatMap(before => search(before).map(before -> _)).orElse(known)
    found.map { case (before, last) =>
      new Cut(
        queue,
        blocks.take(before.index + 1),
        front,
        last,
        before.changes + last.changes,
        before.bytes + last.offset,
        before.commits + last.commits
      )
    }
  }

  private def search(before: BlocksBefore): Option[Place] = {
    val block = blocks(before.index)
    val from = if (before.index == 0) front else Place.beginOfBlock(block.start)
    val entries = queue.entries(block, from.offset, searchedTo)
    try
      Cut.search(entries, from) { place =>
        val isFirst = known.isEmpty && place.commits == from.commits + 1
        !Lsn.isBelow(upTo, place.end) && (isFirst || before.bytes + place.offset <= maxBytes)
      }
    finally entries.close()
  }
}

private[queue] object CutSearch {

  /** Begins a search. The caller has the lock of the queue. */
  def of(
      queue: TableQueue,
      blocks: collection.IndexedSeq[QueueBlock],
      front: Place,
      upTo: Long,
      maxBytes: Long
  ): CutSearch = {
    var before = BlocksBefore(0, -front.offset.toLong, -front.changes, -front.commits.toLong)
    var known = Option.empty[(BlocksBefore, Place)]
    var searched = Option.empty[BlocksBefore]
    var searchedTo = 0
    var goesOn = true
    while (goesOn && before.index < blocks.size) {
      val block = blocks(before.index)
      val commits = block.commits - (if (before.index == 0) front.commits else 0)
      if (commits > 0) {
        val isBelow = !Lsn.isBelow(upTo, block.last.end)
        goesOn = isBelow && before.bytes + block.last.offset <= maxBytes
        if (goesOn || isBelow && commits == 1 && known.isEmpty)
          known = Some(before -> block.last)
        else if (commits > 1 && !Lsn.isBelow(upTo, block.firstEnd)) {
          searched = Some(before)
          searchedTo = block.last.offset
        }
      } else goesOn = known.isEmpty || before.bytes + block.used <= maxBytes
      if (goesOn) before = before.and(block)
    }
    val needed = blocks.iterator.take(before.index + 1).toIndexedSeq
    new CutSearch(queue, needed, front, known, searched, searchedTo, upTo, maxBytes)
  }
}

/** What the blocks before one have, without what earlier cuts had. */
final private[queue] case class BlocksBefore(
    index: Int,
    bytes: Long,
    changes: Long,
    commits: Long
) {
  def and(block: QueueBlock): BlocksBefore =
    BlocksBefore(index + 1, bytes + block.used, changes + block.changes, commits + block.commits)
}
