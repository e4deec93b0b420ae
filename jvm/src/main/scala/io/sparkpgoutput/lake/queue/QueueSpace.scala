package io.sparkpgoutput.lake.queue

import java.io.{BufferedInputStream, DataInputStream, File, FileInputStream, IOException}
import java.nio.ByteBuffer
import java.nio.file.{Files, Path}
import java.util.Arrays
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

import io.sparkpgoutput.protocol.BigEndian

/**
 * Memory and disk that all queues of a job share. If the memory is used up, blocks of the queue with the most memory go
 * to files of a local folder. The newest blocks go first, because they are needed last.
 *
 * @param memory the bytes that queues may have in memory
 * @param disk the bytes that queues may have in files
 * @param folder
 *   gives the folder of the files when the first is written. Nobody else has files there: `close` removes
 *   it.
 */
final class QueueSpace(memory: Long, disk: Long, folder: => File)
    extends AutoCloseable
    with Logging {
  import QueueSpace._

  private val usedMemory = new AtomicLong
  private val usedDisk = new AtomicLong
  private val queues = ConcurrentHashMap.newKeySet[TableQueue]()

  // What the moves of blocks to files need. The lock of this object guards them.
  private var root: Path = null
  private var files = 0L
  private var isClosed = false

  /**
   * Whether blocks could not move from memory to disk, because the disk is used up or cannot be written. This ends when
   * blocks move to disk, when a file is removed, or when the memory has room again.
   */
  @volatile private var isStuck = false
  @volatile private var lastAttempt = 0L

  /** Since when blocks wait for a disk that cannot be written; None if none wait. */
  @volatile private var failingSince = Option.empty[Long]

  /** The bytes that queues have in memory. */
  def memoryUsed: Long = usedMemory.get

  /** The bytes that the files have. */
  def diskUsed: Long = usedDisk.get

  /**
   * Returns whether memory and disk are both used up, or the disk cannot be written. Then the reader stops reading,
   * and the core can drop a queue. From time to time it looks whether the disk can be written again.
   */
  def isFull: Boolean = {
    makeRoom()
    isAboveMemory && isStuck
  }

  /**
   * Returns whether no room was found the last time, no file was removed since, and the memory has been above its limit
   * all the time. A disk that cannot be written counts after some seconds, because another program can use it up for a
   * moment.
   */
  def isStillFull: Boolean = isAboveMemory && isStuck &&
    failingSince.forall(System.nanoTime() - _ > FailingNanos)

  private def isAboveMemory = usedMemory.get > memory

  /** Moves blocks to files until the memory is below its limit, if that can be done. */
  private[queue] def makeRoom(): Unit =
    if (isAboveMemory && !(isStuck && System.nanoTime() - lastAttempt < RetryNanos))
      synchronized {
        val outcome = if (isClosed) NoRoom else spill()
        isStuck = outcome == NoRoom
        if (!isStuck) failingSince = None
        lastAttempt = System.nanoTime()
      }
    else if (!isAboveMemory && (isStuck || failingSince.nonEmpty)) {
      // Nothing waits for the disk any more. An error much later is a new one.
      isStuck = false
      failingSince = None
    }

  @tailrec private def spill(): Outcome = {
    val outcome =
      if (!isAboveMemory) NothingToSpill
      else queues.asScala.maxByOption(_.memoryUsed).fold[Outcome](NothingToSpill)(_.spill())
    if (outcome == Spilled) spill() else outcome
  }

  /** Returns the path of a file that does not exist. Only the thread that moves blocks calls this. */
  private[queue] def newFile(oid: Long): Path = {
    if (root == null) root = folder.toPath
    // A program can remove a folder of /tmp that was empty for long.
    Files.createDirectories(root)
    files += 1
    root.resolve(s"$oid-$files.queue")
  }

  private[queue] def add(queue: TableQueue): Unit = queues.add(queue): Unit
  private[queue] def remove(queue: TableQueue): Unit = queues.remove(queue): Unit

  private[queue] def addMemory(bytes: Long): Unit = usedMemory.addAndGet(bytes): Unit

  /** Reserves bytes of the disk. Returns false if there is not enough room. */
  private[queue] def takeDisk(bytes: Long): Boolean = {
    val isTaken = usedDisk.addAndGet(bytes) <= disk
    if (!isTaken) giveDisk(bytes)
    isTaken
  }

  private[queue] def giveDisk(bytes: Long): Unit = usedDisk.addAndGet(-bytes): Unit

  private[queue] def failed(error: IOException): Unit =
    if (failingSince.isEmpty) {
      failingSince = Some(System.nanoTime())
      logWarning(
        "Changes that wait for their tables stay in memory, since the local disk cannot be written.",
        error
      )
    }

  /** Removes a file that no block needs any more. If a file cannot be removed, its bytes still count. */
  private[queue] def delete(file: SpillFile): Unit =
    try {
      Files.deleteIfExists(file.path)
      giveDisk(file.size)
      isStuck = false
    } catch {
      case error: IOException => logWarning(s"The file ${file.path} cannot be removed.", error)
    }

  /** Removes the folder. */
  override def close(): Unit = synchronized {
    isClosed = true
    if (root != null)
      try {
        Using.resource(Files.list(root))(_.iterator.asScala.foreach(Files.deleteIfExists(_)))
        Files.deleteIfExists(root)
        root = null
      } catch {
        case NonFatal(error) => logWarning(s"The folder $root cannot be removed.", error)
      }
  }
}

private[queue] object QueueSpace {

  /** How long a disk that could not be written is left alone. */
  private val RetryNanos = 100L * 1000 * 1000

  /** The time after which a disk that cannot be written counts as full. */
  private val FailingNanos = 5L * 1000 * 1000 * 1000

  sealed trait Outcome
  case object Spilled extends Outcome

  /** There is nothing to be moved to a file. */
  case object NothingToSpill extends Outcome

  /** The disk is used up, or cannot be written. */
  case object NoRoom extends Outcome
}

/**
 * A part of a queue: entries one after the other, each an Int32 length of its message, an Int64 ordinal and
 * the message. The lock of the queue guards the fields. The bytes of whole transactions never change, so
 * they are read without it.
 *
 * @param start the definition in force at the block's begin, null if none is
 */
final private[queue] class QueueBlock(capacity: Int, val start: TableMessages) {

  /** The bytes while they are in memory, else null. */
  var data: Array[Byte] = new Array[Byte](capacity)

  /** The file that has the bytes while they are not in memory, and where in it they begin. */
  var file: SpillFile = null
  var fileOffset = 0L

  var used = 0
  var changes = 0L
  var commits = 0

  /** Whether nothing is appended any more. */
  var isSealed = false

  /** Whether the bytes are neither in memory nor in a file, because nobody needs them any more. */
  var isFreed = false

  /** The end LSN of the first commit that the block has an entry of. */
  var firstEnd = 0L

  /** The place after the last commit entry of the block, null if it has none. */
  var last: Place = null

  /** Appends an entry. Returns by how many bytes the block has grown in memory. */
  def append(message: Array[Byte], ordinal: Long): Int = {
    val needed = used + QueueBlock.HeaderSize + message.length
    val before = data.length
    if (needed > before)
      data = Arrays.copyOf(data, math.max(needed, math.min(2 * before, QueueBlock.Size)))
    ByteBuffer.wrap(data).putInt(used, message.length).putLong(used + 4, ordinal)
    System.arraycopy(message, 0, data, used + QueueBlock.HeaderSize, message.length)
    used = needed
    if (used >= QueueBlock.Size) isSealed = true
    data.length - before
  }
}

private[queue] object QueueBlock {
  final val FirstSize = 4 * 1024

  /**
   * A block is not larger, unless a single message is. In a heap of 1 or 2 GB, G1 does not move an array of half a MiB
   * or more, and one of 1 MiB takes 2 MiB, because of its header.
   */
  final val Size = 256 * 1024
  final val HeaderSize = 4 + 8
}

/**
 * A place after a commit entry, or the begin of a block.
 *
 * @param offset where in the block it is
 * @param end the end LSN of that commit
 * @param time the time of that commit, in microseconds since 1970
 * @param changes the changes of the block that are before it
 * @param commits the commit entries of the block that are before it
 * @param definition the definition in force here, null if none is
 */
final private[queue] case class Place(
    offset: Int,
    end: Long,
    time: Long,
    changes: Long,
    commits: Int,
    definition: TableMessages
)

private[queue] object Place {
  def beginOfBlock(definition: TableMessages): Place = Place(0, 0L, 0L, 0L, 0, definition)
}

/** A file with blocks of one queue. The lock of the queue guards the fields. */
final private[queue] class SpillFile(val path: Path) {
  var size = 0L

  /** How many blocks need the file. */
  var blocks = 0
}

/** Reads the entries of a part of a block. */
abstract private[queue] class Entries extends AutoCloseable {

  /** Goes to the next entry. Returns false if there is none. */
  def next(): Boolean
  def ordinal: Long

  /** The first byte of the message. */
  def tag: Byte

  /** The bytes of the message. */
  def length: Int

  /** A copy of the message. It can be taken once. */
  def message(): Array[Byte]
}

final private[queue] class EntriesInMemory(data: Array[Byte], from: Int, to: Int) extends Entries {
  private var entry = 0
  private var following = from

  override def next(): Boolean = {
    entry = following
    if (entry < to)
      following = entry + QueueBlock.HeaderSize + length
    entry < to
  }

  override def ordinal: Long = BigEndian.int64(data, entry + 4)
  override def tag: Byte = data(entry + QueueBlock.HeaderSize)
  override def length: Int = BigEndian.int32(data, entry)
  override def message(): Array[Byte] =
    Arrays.copyOfRange(data, entry + QueueBlock.HeaderSize, following)
  override def close(): Unit = ()
}

/** Reads a message directly into its own array: it can be as large as the heap allows. */
final private[queue] class EntriesInFile(path: Path, begin: Long, from: Int, to: Int)
    extends Entries {
  private val input = new FileInputStream(path.toFile)
  private val buffered = new DataInputStream(new BufferedInputStream(input, 64 * 1024))
  try input.getChannel.position(begin + from)
  catch {
    case error: Throwable =>
      input.close()
      throw error
  }

  /** The bytes of the entries that follow. */
  private var following = to - from
  private var size = 0
  private var unread = 0
  private var firstByte: Byte = 0
  private var messageOrdinal = 0L

  override def next(): Boolean = {
    buffered.skipNBytes(unread.toLong)
    unread = 0
    val hasEntry = following > 0
    if (hasEntry) {
      size = buffered.readInt()
      messageOrdinal = buffered.readLong()
      firstByte = buffered.readByte()
      unread = size - 1
      following -= QueueBlock.HeaderSize + size
    }
    hasEntry
  }

  override def ordinal: Long = messageOrdinal
  override def tag: Byte = firstByte
  override def length: Int = size

  override def message(): Array[Byte] = {
    val message = new Array[Byte](size)
    message(0) = firstByte
    buffered.readFully(message, 1, size - 1)
    unread = 0
    message
  }

  override def close(): Unit = buffered.close()
}
