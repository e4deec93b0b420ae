package io.sparkpgoutput.lake.queue

import java.io.{File, IOException}
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/**
 * Memory and disk that all queues of a job share. Above the memory, blocks of the queue that has most go to
 * files of a local folder: first those that are read last.
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
  private val usedMemory = new AtomicLong
  private val usedDisk = new AtomicLong
  private val queues = ConcurrentHashMap.newKeySet[TableQueue]()

  // Of the one that moves blocks to files.
  private var root: Path = null
  private var files = 0L
  private var isClosed = false

  /** Blocks did not get from memory to disk: the disk is used up, or cannot be written. */
  @volatile private var isStuck = false
  @volatile private var tried = 0L

  /** The bytes that queues have in memory. */
  def memoryUsed: Long = usedMemory.get

  /** The bytes that the files have. */
  def diskUsed: Long = usedDisk.get

  /**
   * Returns whether memory and disk are both used up, or the disk cannot be written: the caller drops a
   * queue or stops reading. From time to time it looks whether the disk can be written again.
   */
  def isFull: Boolean = isAboveMemory && {
    makeRoom()
    isAboveMemory && isStuck
  }

  private def isAboveMemory = usedMemory.get > memory

  /** Moves blocks to files until the memory is below its limit, if that can be done. */
  private[queue] def makeRoom(): Unit =
    if (isAboveMemory && !(isStuck && System.nanoTime() - tried < QueueSpace.RetryNanos))
      synchronized {
        val outcome = if (isClosed) QueueSpace.NoRoom else spill()
        isStuck = outcome == QueueSpace.NoRoom
        tried = System.nanoTime()
      }

  @tailrec private def spill(): QueueSpace.Outcome = {
    val outcome =
      if (!isAboveMemory || queues.isEmpty) QueueSpace.Nothing
      else queues.asScala.maxBy(_.memoryUsed).spill()
    if (outcome == QueueSpace.Spilled) spill() else outcome
  }

  /** Returns the path of a file that does not exist. Only the one that moves blocks asks for it. */
  private[queue] def newFile(oid: Long): Path = {
    if (root == null) {
      val made = folder.toPath
      Files.createDirectories(made)
      root = made
    }
    files += 1
    root.resolve(s"$oid-$files.queue")
  }

  private[queue] def add(queue: TableQueue): Unit = queues.add(queue): Unit
  private[queue] def remove(queue: TableQueue): Unit = queues.remove(queue): Unit

  private[queue] def addMemory(bytes: Long): Unit = usedMemory.addAndGet(bytes): Unit

  /** Takes bytes of the disk. Returns false if there are not so many. */
  private[queue] def takeDisk(bytes: Long): Boolean = {
    val isTaken = usedDisk.addAndGet(bytes) <= disk
    if (!isTaken) giveDisk(bytes)
    isTaken
  }

  private[queue] def giveDisk(bytes: Long): Unit = usedDisk.addAndGet(-bytes): Unit

  private[queue] def failed(error: IOException): Unit =
    if (!isStuck)
      logWarning(
        "Changes that wait for their tables stay in memory, since the local disk cannot be written.",
        error
      )

  /** Removes a file that no block needs any more. A file that cannot be removed goes on to count. */
  private[queue] def delete(file: SpillFile): Unit =
    try {
      Files.deleteIfExists(file.path)
      giveDisk(file.size)
    } catch {
      case error: IOException => logWarning(s"The file ${file.path} cannot be removed.", error)
    }

  /** Removes the folder. */
  override def close(): Unit = synchronized {
    isClosed = true
    if (root != null)
      try {
        val found = Files.list(root)
        try found.iterator.asScala.foreach(Files.deleteIfExists(_))
        finally found.close()
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

  sealed trait Outcome
  case object Spilled extends Outcome

  /** There is nothing to be moved to a file. */
  case object Nothing extends Outcome

  /** The disk is used up, or cannot be written. */
  case object NoRoom extends Outcome
}
