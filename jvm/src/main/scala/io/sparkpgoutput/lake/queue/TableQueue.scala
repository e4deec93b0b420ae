package io.sparkpgoutput.lake.queue

import java.io.{FileNotFoundException, IOException, RandomAccessFile}
import java.nio.file.{Files, Path}

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.Using

import io.sparkpgoutput.lake.core.ChangeQueue
import io.sparkpgoutput.protocol.{BeginMessage, Lsn}

/**
 * The part of a slot's stream that concerns one table and is read, but not applied: whole transactions in order, as
 * messages of pgoutput. It is in memory and, if the queues need more memory than they may have, in files.
 *
 * One thread appends (`begin`, `add`, `commit`, `abandon`), one at a time takes (`cut`, `remove`), and any
 * thread may ask and drop. Nobody holds the lock of the queue while a file is read or written. For itself, the
 * queue needs about 100 bytes a block, no matter how many transactions it has.
 *
 * @param oid the oid of the table
 * @param from changes of transactions with a commit LSN below it are not taken
 */
final class TableQueue(val oid: Long, val from: Long, space: QueueSpace)
    extends ChangeQueue {
  private val blocks = mutable.ArrayDeque.empty[QueueBlock]

  /** Where in the first block the queue begins. */
  private var front = Place.beginOfBlock(null)

  /** The Begin message of the oldest transaction that is whole, null if there is none. */
  private var oldestBegin: Array[Byte] = null
  private var wholeTransactions = 0L
  private var allChanges = 0L
  private var allBytes = 0L
  private var memoryBytes = 0L
  private var isDropped = false

  /** The queue skips transactions with a commit LSN below this one, because it has them, or had them. */
  private var nextLsn = from

  /** The definition that was queued last. */
  private var lastDefinition: TableMessages = null

  /** The definition of the last change, to compare its bytes once only. */
  private var definitionOfChange: TableMessages = null

  /** The open transaction, null if there is none. */
  private var open: UncommittedTransaction = null

  /** Whether the queue skips the open transaction. */
  private var isSkipped = false

  /** The file to which blocks are being added, null if there is none. */
  private var file: SpillFile = null

  /** Files that no block needs any more. */
  private val unneededFiles = mutable.ArrayBuffer.empty[SpillFile]

  // The reader's side.

  /**
   * Begins a transaction of the table, before its first change. The queue skips a transaction that it has, or
   * had: a new session of the slot can send it again.
   *
   * @param begin its Begin message
   * @param origin its Origin message, null if it has none
   */
  def begin(begin: Array[Byte], origin: Array[Byte]): Unit = {
    require(BeginMessage.is(begin), "A transaction begins with a Begin message.")
    append {
      checkNot(open != null || isSkipped, "begins while another is open")
      isSkipped = Lsn.isBelow(BeginMessage.lsn(begin), nextLsn)
      if (!isSkipped) {
        val block = blockFor(sizeOf(begin))
        open = new UncommittedTransaction(begin, block, block.used, block.changes, lastDefinition)
        write(begin, Cut.NoOrdinal)
        if (origin != null) write(origin, Cut.NoOrdinal)
      }
    }
  }

  /**
   * Adds a change of the transaction that is open.
   *
   * @param message the Insert, Update, Delete or Truncate message
   * @param ordinal its position in the transaction, from 0
   * @param definition the definition of the table in force
   */
  def add(message: Array[Byte], ordinal: Long, definition: TableMessages): Unit = append {
    checkNot(open == null && !isSkipped, "has a change, and did not begin")
    if (!isSkipped) {
      if (definition ne definitionOfChange) {
        if (definition != lastDefinition) {
          // They are in one block, because a cut that ends in the block of the Relation looks for its types there.
          val messages = definition.types :+ definition.relation
          val block = blockFor(messages.map(sizeOf).sum)
          messages.foreach(write(_, Cut.NoOrdinal, block))
          lastDefinition = definition
        }
        definitionOfChange = definition
      }
      write(message, ordinal)
      blocks.last.changes += 1
      open.changes += 1
      allChanges += 1
    }
  }

  /**
   * Ends the transaction that is open: it is whole.
   *
   * @param end the end LSN of its commit record
   */
  def commit(end: Long): Unit = append {
    checkNot(open == null && !isSkipped, "has a commit, and did not begin")
    if (!isSkipped) {
      write(CommitEntry.of(open.begin, end), Cut.NoOrdinal)
      val block = blocks.last
      if (block.commits == 0) block.firstEnd = end
      block.commits += 1
      val time = BeginMessage.timestamp(open.begin)
      block.last = Place(block.used, end, time, block.changes, block.commits, lastDefinition)
      if (wholeTransactions == 0) oldestBegin = open.begin
      wholeTransactions += 1
      nextLsn = Lsn.max(nextLsn, end)
    }
    open = null
    isSkipped = false
  }

  /**
   * Forgets the changes of the transaction that is open, if one is: the session was lost. The next session
   * sends the transaction again from its Begin.
   */
  def abandon(): Unit = append {
    if (open != null) {
      while (blocks.last ne open.block) free(blocks.removeLast())
      allBytes -= open.bytes
      allChanges -= open.changes
      lastDefinition = open.queued
      definitionOfChange = null
      val block = open.block
      block.used = open.used
      block.changes = open.blockChanges
      if (block.used == 0 || (block eq blocks.head) && block.used == front.offset) {
        // An earlier cut has had all that is left of the block.
        if (block eq blocks.head) front = Place.beginOfBlock(front.definition)
        free(blocks.removeLast())
      }
      open = null
    }
    isSkipped = false
  }

  /** Runs a change of the queue, unless it was dropped, and then moves blocks to files if need be. */
  private def append(change: => Unit): Unit = {
    locked(if (!isDropped) change)
    space.makeRoom()
  }

  private def checkNot(isWrong: Boolean, what: String): Unit =
    if (isWrong) throw new IllegalStateException(s"A transaction of the table $oid $what.")

  private def write(message: Array[Byte], ordinal: Long): Unit =
    write(message, ordinal, blockFor(sizeOf(message)))

  private def write(message: Array[Byte], ordinal: Long, block: QueueBlock): Unit = {
    addMemory(block.append(message, ordinal).toLong)
    val size = sizeOf(message)
    open.bytes += size
    allBytes += size
  }

  /** Returns the bytes that a message needs in a block. */
  private def sizeOf(message: Array[Byte]): Int = {
    require(message.length > 0, "A message has a type.")
    Math.addExact(QueueBlock.HeaderSize, message.length)
  }

  /** Returns the block that gets the next messages, which have this size in it. */
  private def blockFor(size: Int): QueueBlock = {
    val hasRoom = blocks.lastOption.exists { block =>
      !block.isSealed && (block.used == 0 || block.used + size.toLong <= QueueBlock.Size)
    }
    if (!hasRoom) {
      val block = new QueueBlock(math.max(QueueBlock.FirstSize, size), lastDefinition)
      blocks.lastOption.foreach(_.isSealed = true)
      if (blocks.isEmpty) space.add(this)
      blocks += block
      addMemory(block.data.length.toLong)
    }
    blocks.last
  }

  private def addMemory(bytes: Long): Unit = {
    memoryBytes += bytes
    space.addMemory(bytes)
  }

  // What any thread can ask.

  /** The commit LSN of the oldest transaction, also of an open one; None if there is none. */
  def position: Option[Long] = synchronized {
    val oldest = if (wholeTransactions > 0) oldestBegin else if (open != null) open.begin else null
    Option(oldest).map(BeginMessage.lsn)
  }

  /** The commit time of the oldest transaction that is whole, in microseconds since 1970. */
  def oldest: Option[Long] = synchronized(Option(oldestBegin).map(BeginMessage.timestamp))

  /** How many changes it has, with those of the transaction that is open. */
  def changes: Long = synchronized(allChanges)

  /** How many bytes its entries have, with those of the transaction that is open. */
  def bytes: Long = synchronized(allBytes)

  /** The bytes that it has in memory. */
  def memoryUsed: Long = synchronized(memoryBytes)

  // The applier's side.

  /**
   * Returns the transactions from the oldest one on whose commits end at an LSN or below: as many as a limit
   * allows, but at least one. None if there is none. The queue keeps them.
   *
   * @throws QueueFileNotFoundException if a file of the queue is lost, and the changes in it
   * @throws java.io.IOException if a file cannot be read at the moment
   */
  def cut(upTo: Long, limit: CutLimit): Option[Cut] = {
    val search =
      synchronized(Option.when(wholeTransactions > 0)(CutSearch.of(
        this,
        blocks,
        front,
        upTo,
        limit
      )))
    search.flatMap(search => unlessDropped(search()))
  }

  /**
   * Removes a cut, after its commit, and frees its memory and files.
   *
   * @throws java.io.IOException as `cut`. Then the queue still has the cut.
   */
  @tailrec def remove(cut: Cut): Unit = {
    val following = locked {
      if (!isDropped && !beginsWith(cut))
        throw new IllegalStateException(
          s"The queue of the table $oid does not begin with this cut."
        )
      if (isDropped || wholeTransactions == cut.transactions) None
      else if (cut.last.offset < cut.blocks.last.used)
        Some((cut.blocks.last, cut.last.offset, cut.blocks.last.used))
      else Some((blocks(cut.blocks.size), 0, blocks(cut.blocks.size).used))
    }
    val begin = following.flatMap { case (block, offset, used) =>
      unlessDropped(Some(first(block, offset, used)))
    }
    val isRemoved = locked {
      // The reader may have committed the oldest transaction that is left in the meantime.
      val isKnown = begin.isDefined || wholeTransactions == cut.transactions
      if (!isDropped && isKnown) forget(cut, begin)
      isDropped || isKnown
    }
    if (!isRemoved) remove(cut)
  }

  private def beginsWith(cut: Cut) =
    blocks.headOption.exists(_ eq cut.blocks.head) && front == cut.first

  /** Returns the first message of a part of a block. */
  private def first(block: QueueBlock, from: Int, to: Int): Array[Byte] =
    Using.resource(entries(block, from, to)) { entries =>
      entries.next()
      entries.message()
    }

  /** Returns what is read, or None if the queue was dropped in the meantime. */
  private def unlessDropped[A](read: => Option[A]): Option[A] =
    try read
    catch {
      case _: IllegalStateException if synchronized(isDropped) => None
    }

  private def forget(cut: Cut, begin: Option[Array[Byte]]): Unit = {
    cut.blocks.init.foreach(_ => free(blocks.removeHead()))
    front = cut.last
    if (front.offset == blocks.head.used) {
      free(blocks.removeHead())
      front = Place.beginOfBlock(front.definition)
    }
    wholeTransactions -= cut.transactions
    allChanges -= cut.changes
    allBytes -= cut.bytes
    oldestBegin = begin.orNull
  }

  /**
   * Frees everything. The queue is not used any more: what the reader does later does nothing, and a cut
   * cannot be read.
   */
  def drop(): Unit = locked {
    blocks.foreach(free)
    blocks.clear()
    isDropped = true
    open = null
    oldestBegin = null
    wholeTransactions = 0
    allChanges = 0
    allBytes = 0
    space.remove(this)
  }

  /** Returns the entries of a part of a block. */
  private[queue] def entries(block: QueueBlock, from: Int, to: Int): Entries = {
    val (data, path, begin) = synchronized {
      if (block.isFreed) throw gone
      (block.data, Option(block.file).map(_.path), block.fileOffset)
    }
    if (data != null) new EntriesInMemory(data, from, to)
    else
      try new EntriesInFile(path.get, begin, from, to)
      catch {
        case _: FileNotFoundException if synchronized(block.isFreed) => throw gone
        case _: FileNotFoundException if Files.notExists(path.get) =>
          throw new QueueFileNotFoundException(path.get)
      }
  }

  private def gone =
    new IllegalStateException(s"The queue of the table $oid has dropped or removed what is read.")

  // Memory and files.

  /** Runs something with the lock, and then removes the files that nobody needs any more. */
  private def locked[A](f: => A): A = {
    var files = List.empty[SpillFile]
    val result = synchronized {
      val result = f
      files = unneededFiles.toList
      unneededFiles.clear()
      result
    }
    files.foreach(space.delete)
    result
  }

  private def free(block: QueueBlock): Unit = {
    block.isFreed = true
    if (block.data != null) {
      addMemory(-block.data.length.toLong)
      block.data = null
    }
    if (block.file != null) leave(block.file)
  }

  /** One block less needs a file. */
  private def leave(of: SpillFile): Unit = {
    of.blocks -= 1
    if (of.blocks == 0) {
      unneededFiles += of
      if (file eq of) file = null
    }
  }

  /** Moves the block that is read last to a file. Only one thread does so at a time, for all queues. */
  private[queue] def spill(): QueueSpace.Outcome =
    try {
      val path = space.newFile(oid)
      synchronized(choose(path)).fold(identity, write)
    } catch {
      case error: IOException =>
        space.failed(error)
        QueueSpace.NoRoom
    }

  private def choose(newFile: Path): Either[QueueSpace.Outcome, SpilledBlock] = {
    def inMemory = blocks.reverseIterator.filter(_.data != null)
    inMemory.find(_.isSealed).orElse(inMemory.nextOption()) match {
      case None                                              => Left(QueueSpace.NothingToSpill)
      case Some(block) if !space.takeDisk(block.used.toLong) => Left(QueueSpace.NoRoom)
      case Some(block) =>
        block.isSealed = true
        if (file == null || file.size >= TableQueue.FileSize) file = new SpillFile(newFile)
        file.blocks += 1
        Right(new SpilledBlock(block, block.data, block.used, file))
    }
  }

  private def write(spilled: SpilledBlock): QueueSpace.Outcome = {
    val file = spilled.file
    try spilled.write()
    catch {
      case error: IOException =>
        space.giveDisk(spilled.used.toLong)
        locked {
          leave(file)
          // The file can be lost. A new one in its place would have a gap where its other blocks were.
          if (this.file eq file) this.file = null
        }
        throw error
    }
    locked {
      val block = spilled.block
      if (block.isFreed) leave(file)
      else {
        addMemory(-block.data.length.toLong)
        block.data = null
        block.file = file
        block.fileOffset = file.size
      }
      file.size += spilled.used
    }
    QueueSpace.Spilled
  }
}

private object TableQueue {

  /** A file of this size gets no more blocks: 20 GB are not 20,000 files. */
  final val FileSize = 16L * 1024 * 1024
}

/**
 * The transaction that is open, and what its queue goes back to if it is abandoned.
 *
 * @param block the block that has its Begin message
 * @param used how many bytes the block had before
 * @param blockChanges how many changes the block had before
 * @param queued the definition that was queued last before the transaction
 */
final private class UncommittedTransaction(
    val begin: Array[Byte],
    val block: QueueBlock,
    val used: Int,
    val blockChanges: Long,
    val queued: TableMessages
) {
  var changes = 0L
  var bytes = 0L
}

/**
 * A file with changes that were not applied is not there any more, for example because a program removes old
 * files of `/tmp`. Only a new copy of the table gets what the changes have done.
 */
final class QueueFileNotFoundException(val path: Path)
    extends FileNotFoundException(s"The file $path of a queue is lost.")

/** A block that goes to the end of a file. It is sealed, so nobody changes the bytes. */
final private class SpilledBlock(
    val block: QueueBlock,
    data: Array[Byte],
    val used: Int,
    val file: SpillFile
) {
  def write(): Unit = {
    if (file.size > 0 && Files.notExists(file.path))
      throw new QueueFileNotFoundException(file.path)
    Using.resource(new RandomAccessFile(file.path.toFile, "rw")) { output =>
      output.seek(file.size)
      try output.write(data, 0, used)
      catch {
        case error: IOException =>
          // This removes the written part of the block, so that the disk has its room again.
          try output.setLength(file.size)
          catch { case another: IOException => error.addSuppressed(another) }
          throw error
      }
    }
  }
}
