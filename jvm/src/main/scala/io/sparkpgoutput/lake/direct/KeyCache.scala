package io.sparkpgoutput.lake.direct

import java.io.{File, IOException}
import java.lang.ref.Cleaner
import java.nio.channels.FileChannel
import java.nio.file.Files
import java.nio.file.StandardOpenOption.{CREATE_NEW, DELETE_ON_CLOSE, READ, WRITE}
import java.nio.{ByteBuffer, ByteOrder, LongBuffer}
import java.security.MessageDigest
import java.util.Arrays
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow

/**
 * The keys of data files, so that a lookup does not read them from the files again. A file never changes, so its keys
 * are right as long as it belongs to the table.
 *
 * {{{
 *   KeyCache, of the job:      TableKeys, of a table:   KeptKeys, of a data file:
 *   memory and disk        ──► what the columns are ──► a number of 64 bits, or 128 bits of a hash, for each key
 * }}}
 *
 * A file can have rows that no lookup finds, such as versions that have ended. The cache keeps only the keys of the
 * other rows.
 *
 * '''Why a row is deleted without a look at its key.''' A key of one number is kept as it is. Of any other key, the
 * first 128 bits of the SHA-256 of a secret number of the process and the values are kept. Nobody can make two keys for
 * which they are the same.
 *
 * The cache uses memory first, and then disk. If both are full, the cache removes the keys of tables without a lookup
 * for ten minutes, if that makes enough room. Otherwise, or if the room on disk is not free yet, the lookup reads the
 * files.
 *
 * @param memory the bytes of all keys in memory
 * @param disk the bytes of all keys in files
 * @param folder gives the folder of the files when the first is written
 * @param mostFiles the most files with keys. Each is a mapping of memory, and Linux allows a process 65,530 of them,
 *                  with those of its threads.
 */
final class KeyCache(
    memory: Long,
    disk: Long,
    folder: => File,
    mostFiles: Long = KeyCache.MostFiles
) extends Logging {
  import KeyCache._

  private val tables = new ConcurrentHashMap[String, TableKeys]
  private lazy val root = folder.toPath
  private var usedMemory = 0L
  private val usedDisk = new AtomicLong
  private val usedFiles = new AtomicLong

  /** When the disk could not be written last. */
  @volatile private var failed = System.nanoTime() - KeyCache.PauseNanos

  /** The bytes that are reserved for keys that are being collected. */
  private var collected = 0L
  private val files = new AtomicLong

  /** Returns the keys of a table by its name, with what earlier lookups have kept. */
  def table(name: String): TableKeys = tables.computeIfAbsent(name, _ => new TableKeys(this))

  /** Forgets the keys of all tables but some. */
  def forgetOthers(names: Set[String]): Unit =
    tables.asScala.foreach { case (name, found) => if (!names(name)) found.clear() }

  /**
   * Runs work that collects the keys of a file in memory. Many threads do this, each for a file.
   *
   * @param work takes whether there is room for these keys now. If not, the lookup does not keep them.
   */
  private[direct] def collecting[T](numbers: Long)(work: Boolean => T): T = {
    val bytes = numbers * 8
    val takes = synchronized {
      val takes = numbers <= MostNumbers && bytes <= math.max(memory, disk) &&
        collected + bytes <= math.max(memory, Runtime.getRuntime.maxMemory / 8)
      if (takes) collected += bytes
      takes
    }
    try work(takes)
    finally if (takes) synchronized(collected -= bytes)
  }

  /** How many numbers have room, also in place of those of tables without a lookup for ten minutes. */
  private[direct] def room: Long = synchronized {
    (memory - usedMemory + disk - usedDisk.get) / 8 + idle.map(_.numbers).sum
  }

  /** Returns whether [[keep]] would keep so many numbers. */
  private[direct] def hasRoom(numbers: Long): Boolean = synchronized(find(numbers * 8).nonEmpty)

  /** Keeps keys; None if there is no room. */
  private[direct] def keep(keys: FileKeys): Option[KeptKeys] = {
    val bytes = KeptKeys.size(keys.count.toLong, keys.width) * 8
    val taken = synchronized {
      val found = find(bytes)
      found.foreach(isOnDisk =>
        if (isOnDisk) {
          usedDisk.addAndGet(bytes)
          usedFiles.incrementAndGet(): Unit
        } else usedMemory += bytes
      )
      found
    }
    // The lookups of other tables do not wait while a file is written.
    taken.flatMap { isOnDisk =>
      val numbers = keys.numbers
      val buffer = if (isOnDisk) written(numbers) else Some(LongBuffer.wrap(numbers))
      if (buffer.isEmpty) freeDisk(bytes).run()
      buffer.map(new KeptKeys(_, keys.count, keys.width, isOnDisk))
    }
  }

  /** Finds room for keys, and returns whether it is on disk; None if there is no room, also after [[makeRoom]]. */
  private def find(bytes: Long): Option[Boolean] = {
    def isInMemory = usedMemory + bytes <= memory
    def isOnDisk = mayWrite && usedDisk.get + bytes <= disk && usedFiles.get < mostFiles
    if (!isInMemory && !isOnDisk) makeRoom(bytes)
    if (isInMemory) Some(false) else Option.when(isOnDisk)(true)
  }

  /** Removes the keys of tables without a lookup for ten minutes from the memory or the disk, if that is enough. */
  private def makeRoom(bytes: Long): Unit = {
    def removable(onDisk: Boolean) = idle.map(_.numbers(onDisk)).sum * 8
    // On disk, the room of keys that were removed earlier becomes free soon.
    def kept = tables.values.asScala.map(_.numbers(onDisk = true)).sum * 8
    if (usedMemory - removable(onDisk = false) + bytes <= memory)
      idle.foreach(_.clear(onDisk = false))
    else if (
      mayWrite && (kept + bytes > disk || usedFiles.get >= mostFiles) &&
      kept - removable(onDisk = true) + bytes <= disk
    ) idle.foreach(_.clear(onDisk = true))
  }

  private def mayWrite = System.nanoTime() - failed >= PauseNanos

  private def idle = tables.values.asScala.filter(System.nanoTime() - _.used > IdleNanos)

  /** Closing the channel removes the name of the file. The file itself lasts as long as its keys are in use. */
  private def written(numbers: Array[Long]): Option[LongBuffer] =
    try {
      Files.createDirectories(root) // because a program can remove an empty folder of /tmp
      val path = root.resolve(s"${files.incrementAndGet()}.keys")
      val bytes = numbers.length * 8L
      val mapped = Using.resource(
        FileChannel.open(path, CREATE_NEW, READ, WRITE, DELETE_ON_CLOSE)
      ) { channel =>
        val part = ByteBuffer.allocate(PartBytes).order(ByteOrder.nativeOrder)
        numbers.grouped(PartBytes / 8).foreach { found =>
          part.clear()
          part.asLongBuffer.put(found)
          part.limit(found.length * 8)
          while (part.hasRemaining) channel.write(part): Unit
        }
        channel.map(FileChannel.MapMode.READ_ONLY, 0, bytes)
      }
      unmapped.register(mapped, freeDisk(bytes)): Unit
      Some(mapped.order(ByteOrder.nativeOrder).asLongBuffer)
    } catch {
      case problem: IOException =>
        failed = System.nanoTime()
        logWarning("For some minutes, no keys of data files are kept on the local disk.", problem)
        None
    }

  /**
   * Returns an action that counts the room of a file as free, for the time when the file is unmapped. The action must
   * not keep the cache in memory until then.
   */
  private def freeDisk(bytes: Long): Runnable = {
    val (disk, files) = (usedDisk, usedFiles)
    () => {
      disk.addAndGet(-bytes)
      files.decrementAndGet(): Unit
    }
  }

  /** The room of a file is free when the JVM has unmapped it, which it does after the last use of its keys. */
  private[direct] def release(kept: KeptKeys): Unit =
    if (!kept.isOnDisk) synchronized(usedMemory -= kept.numbers.limit() * 8L)
}

object KeyCache {

  /** A cache that keeps nothing. */
  def none: KeyCache = new KeyCache(0, 0, throw new IllegalStateException("There is no folder."))

  /** A file in memory has less than 2 GB. */
  final private val MostNumbers = 1L << 27
  final private val PartBytes = 1 << 16
  final private val MostFiles = 10000L

  private lazy val unmapped = Cleaner.create()

  private val IdleNanos = java.time.Duration.ofMinutes(10).toNanos

  /** How long nothing is written to a disk that could not be written. */
  private val PauseNanos = java.time.Duration.ofMinutes(5).toNanos
}

/**
 * The keys of a data file. A search for a few keys does not look at all of them, because a hash of a key says which
 * bucket it is in.
 *
 * {{{
 *   the numbers of the keys,   the positions of their rows,   where the keys of each
 *   one bucket after another   32 bits for each               bucket begin, 32 bits for each
 * }}}
 *
 * @param count the number of the keys
 * @param width how many numbers a key has
 */
final private[direct] class KeptKeys(
    val numbers: LongBuffer,
    val count: Int,
    width: Int,
    val isOnDisk: Boolean
) {
  private val buckets = KeptKeys.buckets(count)

  private def int(index: Int) =
    (numbers.get(count * width + index / 2) >>> (index % 2 * 32)).toInt

  /** Returns the position of the row with a key. */
  def position(key: Int): Long = int(key).toLong

  /** Calls a function with the places of the keys with some numbers. A row that is deleted can have the same key. */
  def find(first: Long, last: Long)(found: Int => Unit): Unit = {
    val bucket = KeptKeys.bucket(first, buckets)
    var at = int(count + bucket)
    val end = int(count + bucket + 1)
    while (at < end) {
      if (numbers.get(at * width) == first && numbers.get(at * width + width - 1) == last) found(at)
      at += 1
    }
  }
}

private[direct] object KeptKeys {

  /** The number of keys that a bucket has on average. */
  final private val OfBucket = 8

  /** How many numbers the keys of a file take. */
  def size(count: Long, width: Int): Long = count * width + (count + buckets(count.toInt) + 2) / 2

  def buckets(count: Int): Int = Integer.highestOneBit(count / OfBucket | 1)

  def bucket(first: Long, buckets: Int): Int =
    (KeyLookup.mixed(first) >>> 32).toInt & (buckets - 1)
}

/**
 * Collects the keys of a data file.
 *
 * @param rows the number of its rows
 * @param width how many numbers a key has
 */
final private[direct] class FileKeys(rows: Int, val width: Int) {

  /** The keys, and room for what follows them in [[KeptKeys]]. */
  private val keys = new Array[Long](KeptKeys.size(rows.toLong, width).toInt)

  /** The positions of the rows with a key. */
  private val positions = new Array[Int](rows)
  private var added = 0

  def add(key: Array[Long], position: Int): Unit = {
    System.arraycopy(key, 0, keys, added * width, width)
    positions(added) = position
    added += 1
  }

  def count: Int = added

  /** The numbers that [[KeptKeys]] has. After this, no key is added. */
  lazy val numbers: Array[Long] = {
    val begins = sort()
    val found =
      if (count == rows) keys
      else Arrays.copyOf(keys, KeptKeys.size(count.toLong, width).toInt)
    def put(index: Int, number: Int): Unit =
      found(count * width + index / 2) |= (number & 0xffffffffL) << (index % 2 * 32)
    var key = 0
    while (key < count) {
      put(key, positions(key))
      key += 1
    }
    begins.indices.foreach(bucket => put(count + bucket, begins(bucket)))
    found
  }

  /**
   * Sorts the keys by their buckets, without a copy, because they can be many: each key changes places with the key at
   * the next free place of its bucket.
   *
   * @return where each bucket begins, and where the last one ends
   */
  private def sort(): Array[Int] = {
    val buckets = KeptKeys.buckets(count)
    def bucketOf(key: Int) = KeptKeys.bucket(keys(key * width), buckets)
    val begins = new Array[Int](buckets + 1)
    var key = 0
    while (key < count) {
      begins(bucketOf(key) + 1) += 1
      key += 1
    }
    (1 to buckets).foreach(bucket => begins(bucket) += begins(bucket - 1))
    val next = begins.clone()
    var bucket = 0
    while (bucket < buckets) {
      while (next(bucket) < begins(bucket + 1)) {
        val to = bucketOf(next(bucket))
        if (to != bucket) exchange(next(bucket), next(to))
        next(to) += 1
      }
      bucket += 1
    }
    begins
  }

  private def exchange(one: Int, other: Int): Unit = {
    val position = positions(one)
    positions(one) = positions(other)
    positions(other) = position
    var number = 0
    while (number < width) {
      val value = keys(one * width + number)
      keys(one * width + number) = keys(other * width + number)
      keys(other * width + number) = value
      number += 1
    }
  }
}

/**
 * The keys for which a lookup would have read too many rows.
 *
 * @param names the identities in data files of the key's columns, and of the column that says when a row has ended
 * @param ofKey how many of them belong to the key
 * @param files the paths of the files that can have the keys, and whose keys are not kept
 * @param most the most rows that a lookup reads
 */
final private[direct] case class WantedKeys(
    names: Seq[String],
    ofKey: Int,
    files: Set[String],
    most: Long
)

/** The keys of the data files of a table. One lookup at a time uses them, while one thread keeps more of them. */
final class TableKeys private[direct] (private[direct] val cache: KeyCache) {
  private val files = new ConcurrentHashMap[String, KeptKeys]
  private var columns = Seq.empty[String]

  @volatile private[direct] var used = System.nanoTime()

  /** The keys that the last lookup needed, and that were not kept. */
  @volatile private[direct] var wanted = Option.empty[WantedKeys]

  /** Whether the last lookup gave up because too few keys were kept. */
  def areWanted: Boolean = wanted.nonEmpty

  /**
   * Begins a lookup, and removes the keys of files that the table does not have any more.
   *
   * @param columns the identities of the key's columns in data files, with their types
   */
  private[direct] def begin(columns: Seq[String], live: Seq[DirectFile]): Unit = {
    used = System.nanoTime()
    wanted = None
    synchronized {
      if (columns != this.columns) {
        clear()
        this.columns = columns
      }
    }
    val paths = live.iterator.map(_.path).toSet
    files.keySet.asScala.filterNot(paths).foreach(forget)
  }

  private[direct] def of(file: DirectFile): Option[KeptKeys] = Option(files.get(file.path))

  /** The numbers that are kept. */
  private[direct] def numbers: Long = numbers(onDisk = false) + numbers(onDisk = true)

  private[direct] def numbers(onDisk: Boolean): Long =
    files.values.asScala.filter(_.isOnDisk == onDisk).map(_.numbers.limit().toLong).sum

  /** Keeps the keys of a file, unless another thread has kept them or a lookup has begun with other columns. */
  private[direct] def keep(
      columns: Seq[String],
      file: DirectFile,
      keys: FileKeys
  ): Unit = cache.keep(keys).foreach { kept =>
    synchronized {
      if (columns != this.columns || files.putIfAbsent(file.path, kept) != null) cache.release(kept)
    }
  }

  private[direct] def clear(): Unit = files.keySet.asScala.foreach(forget)

  private[direct] def clear(onDisk: Boolean): Unit = files.asScala
    .foreach { case (path, kept) => if (kept.isOnDisk == onDisk) forget(path) }

  private def forget(path: String): Unit = Option(files.remove(path)).foreach(cache.release)
}

/** What [[KeyLookup]] compares of a key, and [[KeyCache]] keeps. Not thread-safe. */
final private[direct] class KeyNumbers(columns: IndexedSeq[KeyColumn]) {
  private val single = Option.when(columns.length == 1)(columns.head).flatMap(_.number)
  private lazy val digest = MessageDigest.getInstance("SHA-256")
  private val bytes = ByteBuffer.allocate(32)

  /** How many numbers a key has. */
  val width: Int = if (single.nonEmpty) 1 else 2

  /** Puts the numbers of a key that has no NULL. */
  def put(row: InternalRow, at: IndexedSeq[Int], numbers: Array[Long], index: Int): Unit =
    single match {
      case Some(number) => numbers(index) = number(row, at.head)
      case None =>
        putNumber(KeyLookup.Seed)
        var column = 0
        while (column < columns.length) {
          columns(column).number match {
            case Some(number) => putNumber(number(row, at(column)))
            case None =>
              val value = columns(column).bytes(row, at(column))
              // With the length before each value, the keys ('a', 'bc') and ('ab', 'c') differ.
              putNumber(value.length.toLong)
              digest.update(value)
          }
          column += 1
        }
        digest.digest(bytes.array, 0, bytes.capacity): Unit
        numbers(index) = bytes.getLong(0)
        numbers(index + 1) = bytes.getLong(8)
    }

  private def putNumber(number: Long): Unit = {
    bytes.putLong(0, number)
    digest.update(bytes.array, 0, 8)
  }
}
