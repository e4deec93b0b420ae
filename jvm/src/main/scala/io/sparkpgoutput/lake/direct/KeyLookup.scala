package io.sparkpgoutput.lake.direct

import java.util.Arrays
import java.util.concurrent.atomic.AtomicReferenceArray
import java.util.concurrent.{Callable, ExecutionException, Executors, ThreadFactory}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{SpecializedGetters, XXH64}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Where a row is. */
final case class RowPlace(file: DirectFile, position: Long)

/**
 * Finds rows of a table by their keys.
 *
 * @param columns the columns of the key
 * @param keys rows with the keys. No two of them have the same key.
 * @param places the places of the key's columns in these rows
 * @param mixed the last step of a hash. Keys with the same hash are compared, so any function is right.
 * @param most the most rows that are read
 */
final class KeyLookup(
    columns: IndexedSeq[KeyColumn],
    keys: IndexedSeq[InternalRow],
    places: IndexedSeq[Int],
    mixed: Long => Long = KeyColumn.mixed,
    most: Long = KeyLookup.MostRows
) {
  import KeyLookup._

  private val capacity = Integer.highestOneBit(math.max(16, keys.length)) * 4
  private val hashes = new Array[Long](capacity)

  /** One more than the number of the key in `keys`; 0 if there is none. */
  private val numbers = new Array[Int](capacity)

  keys.indices.foreach(add)

  private def add(number: Int): Unit = {
    val hash = hashOf(keys(number), places)
    val slot = slotFor(hash, keys(number), places)
    if (numbers(slot) != 0)
      throw new NotDirect("the changes have two keys that the target takes for the same")
    hashes(slot) = hash
    numbers(slot) = number + 1
  }

  /** Returns the slot of a key, or the empty slot where it would be. */
  private def slotFor(hash: Long, row: SpecializedGetters, at: IndexedSeq[Int]): Int = {
    var slot = slotOf(hash)
    while (numbers(slot) != 0 && !(hashes(slot) == hash && isSame(numbers(slot) - 1, row, at)))
      slot = (slot + 1) & (capacity - 1)
    slot
  }

  private def slotOf(hash: Long) = (hash ^ (hash >>> 32)).toInt & (capacity - 1)

  private def hashOf(row: SpecializedGetters, at: IndexedSeq[Int]): Long = {
    var hash = Seed
    var index = 0
    while (index < columns.length) {
      hash = columns(index).hash(row, at(index), hash)
      index += 1
    }
    mixed(hash)
  }

  private def isSame(number: Int, row: SpecializedGetters, at: IndexedSeq[Int]): Boolean = {
    val key = keys(number)
    var index = 0
    while (
      index < columns.length &&
      columns(index).isSame(key, places(index), row, at(index))
    ) index += 1
    index == columns.length
  }

  private def hasNull(row: SpecializedGetters, at: IndexedSeq[Int]) = {
    var index = 0
    while (index < at.length && !row.isNullAt(at(index))) index += 1
    index < at.length
  }

  /** Returns the number of a key; -1 if it is not one of the keys. */
  def number(row: SpecializedGetters, at: IndexedSeq[Int]): Int =
    numbers(slotFor(hashOf(row, at), row, at)) - 1

  /**
   * Returns the place of the row with each key; null if there is none.
   *
   * @param ordinals the places of the key's columns in the table
   * @param end the place of a column that is NULL in the rows that can be found; None if all rows can
   * @throws NotDirect if two rows have the same key
   */
  def find(
      table: DirectTable,
      ordinals: IndexedSeq[Int],
      end: Option[Int] = None
  ): IndexedSeq[RowPlace] = {
    val found = new AtomicReferenceArray[RowPlace](keys.length)
    if (keys.nonEmpty) {
      val among = columns.zip(places).map { case (column, at) => column.among(keys, at) }
      val candidates = table.files.filter(file =>
        ordinals.zip(among).forall { case (at, among) =>
          among.forall(isAmong => file.bounds(at).forall(isAmong.tupled))
        }
      )
      val names = (ordinals ++ end).map(columnName(table, _))
      table.keys.begin(names, table.files)
      val unknown = candidates.filter(table.keys.of(_).isEmpty)
      val rows = unknown.map(_.rows).sum
      if (rows > most) {
        table.keys.wanted = Some(WantedKeys(columns, names, unknown.map(_.path).toSet, most))
        throw new NotDirect(s"the files that can have the keys have $rows rows")
      }
      inThreads(candidates)(searchFile(table, _, ordinals, end, found))
    }
    keys.indices.map(found.get)
  }

  private def searchFile(
      table: DirectTable,
      file: DirectFile,
      ordinals: IndexedSeq[Int],
      end: Option[Int],
      found: AtomicReferenceArray[RowPlace]
  ): Unit = table.keys.of(file) match {
    case Some(kept) => searchKept(kept, file, found)
    case None =>
      val numbers = new KeyNumbers(columns)
      val ends = end.filterNot(file.hasOnlyNulls(_))
      val width = if (ends.isEmpty) numbers.width else FileKeys.width(numbers)
      table.keys.collecting(file.rows * width) { isKept =>
        // A lookup of no keys only keeps those of the file.
        if (isKept || keys.nonEmpty) {
          val collected = Option.when(isKept)(new FileKeys(file.rows.toInt, numbers))
          table.read(file, ordinals ++ ends)(
            searchRows(_, file, ordinals.indices, ends.nonEmpty, found, collected)
          )
          val names = (ordinals ++ end).map(columnName(table, _))
          collected.foreach(all => table.keys.keep(names, file, all.numbers, all.hasAll))
        }
      }
  }

  /**
   * Finds the keys among the rows of a file. A row of another writer can have a NULL in the key, which no key equals.
   *
   * @param haveEnd whether a column after the key is NULL in the rows that can be found
   * @param collected takes the keys of these rows
   */
  private def searchRows(
      rows: Iterator[InternalRow],
      file: DirectFile,
      at: IndexedSeq[Int],
      haveEnd: Boolean,
      found: AtomicReferenceArray[RowPlace],
      collected: Option[FileKeys]
  ): Unit = {
    val all = collected.orNull
    var position = 0L
    while (rows.hasNext) {
      val row = rows.next()
      if (position == file.rows)
        throw new NotDirect(s"the file ${file.path} has more than ${file.rows} rows")
      if (!hasNull(row, at) && !(haveEnd && !row.isNullAt(at.length))) {
        val number = this.number(row, at)
        if (number >= 0) put(found, number, file, position)
        if (all != null) all.add(row, at, position)
      }
      position += 1
    }
    if (position != file.rows)
      throw new NotDirect(s"the file ${file.path} has $position rows, and not ${file.rows}")
  }

  /** Finds the keys among those that were kept of a file. */
  private def searchKept(
      kept: KeptKeys,
      file: DirectFile,
      found: AtomicReferenceArray[RowPlace]
  ): Unit = {
    val wanted = numbered
    val width = wanted.width
    val numbers = kept.keys
    val rows = numbers.limit() / (if (kept.hasAll) width else width + 1)
    val part = new Array[Long](math.min(rows, PartRows) * width)
    var begin = 0
    while (begin < rows) {
      val count = math.min(rows - begin, PartRows)
      // To copy many numbers at once costs less than a call for each of them.
      numbers.get(begin * width, part, 0, count * width)
      var row = 0
      while (row < count) {
        val first = part(row * width)
        if (wanted.mayHave(first)) {
          val number = wanted.find(first, if (width == 1) 0 else part(row * width + 1))
          val at = begin + row
          if (number >= 0)
            put(found, number, file, if (kept.hasAll) at.toLong else numbers.get(rows * width + at))
        }
        row += 1
      }
      begin += count
    }
  }

  private def put(
      found: AtomicReferenceArray[RowPlace],
      number: Int,
      file: DirectFile,
      position: Long
  ): Unit =
    if (
      !file.isDeleted(position) &&
      !found.compareAndSet(number, null, RowPlace(file, position))
    ) throw new NotDirect("the target has two rows with the same key")

  private lazy val numbered = new NumberedKeys

  /** Finds keys by the numbers that a cache keeps of them. */
  final private class NumberedKeys {
    private val numbers = new KeyNumbers(columns)
    val width: Int = numbers.width
    private val wanted = new Array[Long](keys.length * width)
    private val slots = new Array[Int](capacity)

    /** The bits of the first numbers of all keys. If the keys are few, one bit of 32 is set, and a core has all in its cache. */
    private val bits = new Array[Long](math.min(capacity / 4, MostWords))
    private val shift = 1 + java.lang.Long.numberOfLeadingZeros(bits.length * 64L)

    private def bitOf(first: Long) = (first * Spread) >>> shift

    keys.indices.foreach { number =>
      numbers.put(keys(number), places, wanted, number * width)
      val bit = bitOf(wanted(number * width))
      bits((bit >>> 6).toInt) |= 1L << bit
      var slot = slotOf(wanted(number * width))
      while (slots(slot) != 0) slot = (slot + 1) & (capacity - 1)
      slots(slot) = number + 1
    }

    private def slotOf(first: Long) = KeyLookup.this.slotOf(XXH64.hashLong(first, Seed))

    /** Returns false for most numbers that are not the first one of a key. This takes a nanosecond. */
    def mayHave(first: Long): Boolean = {
      val bit = bitOf(first)
      (bits((bit >>> 6).toInt) & (1L << bit)) != 0
    }

    /** Returns the number of a key; -1 if it is not one of the keys. */
    def find(first: Long, second: Long): Int = {
      var slot = slotOf(first)
      while (slots(slot) != 0 && !isKey(slots(slot) - 1, first, second))
        slot = (slot + 1) & (capacity - 1)
      slots(slot) - 1
    }

    private def isKey(number: Int, first: Long, second: Long) =
      if (width == 1) wanted(number) == first
      else wanted(2 * number) == first && wanted(2 * number + 1) == second
  }
}

object KeyLookup {

  /** Returns the identity of a column in data files, with its type. */
  private def columnName(table: DirectTable, at: Int) =
    s"${table.column(at)} ${table.schema(at).dataType.sql}"

  /**
   * Keeps the keys for which the last lookup would have read too many rows, one file after the other. It does nothing
   * if the cache has no room for so many of them that the next lookup reads few enough.
   */
  def keepWanted(table: DirectTable): Unit = table.keys.wanted.foreach { wanted =>
    val keys = table.keys
    val places =
      wanted.names.map(name => table.schema.indices.indexWhere(columnName(table, _) == name))
    val (ordinals, end) = places.toIndexedSeq.splitAt(wanted.columns.length)
    val width = new KeyNumbers(wanted.columns).width + end.length // at most
    val files = table.files.filter(file => wanted.files(file.path) && keys.of(file).isEmpty)
    var room = keys.cache.room
    val (chosen, left) = files.partition { file =>
      val takes = file.rows * width <= room
      if (takes) room -= file.rows * width
      takes
    }
    if (!places.contains(-1) && left.map(_.rows).sum <= wanted.most) {
      val none = new KeyLookup(wanted.columns, Vector.empty, Vector.empty)
      val found = new AtomicReferenceArray[RowPlace](0)
      chosen.withFilter(file => keys.cache.hasRoom(file.rows * width))
        .foreach(none.searchFile(table, _, ordinals, end.headOption, found))
    }
  }

  /**
   * Runs the work on each file in threads of its own, and waits for its end. The threads see the classes that the
   * caller sees, also those of JARs that a user gives to Spark.
   *
   * The common pool of the JVM must not do this. To read a file can take another thread that waits for the common pool:
   * Hadoop counts statistics in it when it closes a file (`EvaluatingStatisticsMap.entrySet`). If all threads of the
   * pool wait for such a thread, they wait for ever.
   */
  private def inThreads(files: Seq[DirectFile])(work: DirectFile => Unit): Unit =
    if (files.length <= 1) files.foreach(work)
    else {
      val count = math.min(files.length, Runtime.getRuntime.availableProcessors)
      val threads = Executors.newFixedThreadPool(count, Daemon)
      val tasks = files.map(file => (() => work(file)): Callable[Unit])
      try threads.invokeAll(tasks.asJava).forEach(_.get)
      catch { case failed: ExecutionException => throw failed.getCause }
      finally threads.shutdownNow(): Unit
    }

  private val Daemon: ThreadFactory = (task: Runnable) => {
    val thread = new Thread(task, "spark-pgoutput looks up keys")
    thread.setDaemon(true)
    thread
  }

  /** In more rows than this, the executors of a cluster find keys faster than the driver does. */
  final private val MostRows = 50000000L

  /** The rows whose numbers are copied at once. */
  final private val PartRows = 1024

  /** The greatest size of the bits of a lookup: 128 KiB. */
  final private val MostWords = 1 << 14

  /** The multiplication by this number of 2^64 / golden ratio spreads numbers that follow each other. */
  final private val Spread = 0x9e3779b97f4a7c15L

  /** Each process has another number, so that nobody can choose keys whose hashes are the same. */
  private[direct] val Seed = new java.security.SecureRandom().nextLong()
}

/**
 * A column of a key. It says when two values are equal, as Spark's `=` does. For floating-point numbers, -0 equals 0
 * and NaN equals itself (`NormalizeFloatingNumbers`).
 */
sealed abstract class KeyColumn {

  /** Returns a number for a value. Two values are equal if their numbers are equal. None if only [[bytes]] decide. */
  def number: Option[KeyColumn.NumberOf] = None

  /** Bytes of a value that are the same if, and only if, two values are equal. */
  def bytes(row: SpecializedGetters, at: Int): Array[Byte]

  /** Mixes the value into a hash. */
  def hash(row: SpecializedGetters, at: Int, seed: Long): Long

  def isSame(row: SpecializedGetters, at: Int, other: SpecializedGetters, otherAt: Int): Boolean

  /** Returns what says whether a value of some rows can be between two bounds; None if bounds say nothing. */
  def among(rows: IndexedSeq[InternalRow], at: Int): Option[(Any, Any) => Boolean] = None
}

object KeyColumn {

  /** Returns None for a type whose values this class does not compare. */
  def of(dataType: DataType): Option[KeyColumn] = dataType match {
    case ByteType               => Some(new NumberColumn(_.getByte(_).toLong, isOrdered = true))
    case ShortType              => Some(new NumberColumn(_.getShort(_).toLong, isOrdered = true))
    case IntegerType | DateType => Some(new NumberColumn(_.getInt(_).toLong, isOrdered = true))
    case LongType | TimestampType | TimestampNTZType =>
      Some(new NumberColumn(_.getLong(_), isOrdered = true))
    case BooleanType =>
      Some(new NumberColumn((row, at) => if (row.getBoolean(at)) 1 else 0, isOrdered = false))
    case FloatType =>
      Some(new NumberColumn(
        (row, at) => java.lang.Float.floatToIntBits(row.getFloat(at) + 0.0f).toLong,
        isOrdered = false
      ))
    case DoubleType =>
      Some(new NumberColumn(
        (row, at) => java.lang.Double.doubleToLongBits(row.getDouble(at) + 0.0),
        isOrdered = false
      ))
    case decimal: DecimalType => Some(new DecimalColumn(decimal))
    case StringType           => Some(TextColumn)
    case BinaryType           => Some(BinaryColumn)
    case _                    => None
  }

  /** The last step of a hash, without which similar keys would be next to each other. */
  def mixed(hash: Long): Long = {
    val product = (hash ^ (hash >>> 33)) * 0xff51afd7ed558ccdL
    product ^ (product >>> 33)
  }

  trait NumberOf { def apply(row: SpecializedGetters, at: Int): Long }

  /** @param of returns the number of a value. For floating-point values it adds 0, which turns -0 into 0. */
  final private class NumberColumn(of: NumberOf, isOrdered: Boolean) extends KeyColumn {
    override val number: Option[NumberOf] = Some(of)

    override def bytes(row: SpecializedGetters, at: Int): Array[Byte] =
      throw new IllegalStateException("The number shows whether two values are equal.")

    override def hash(row: SpecializedGetters, at: Int, seed: Long): Long =
      XXH64.hashLong(of(row, at), seed)

    override def isSame(row: SpecializedGetters, at: Int, other: SpecializedGetters, otherAt: Int)
        : Boolean = of(row, at) == of(other, otherAt)

    override def among(rows: IndexedSeq[InternalRow], at: Int): Option[(Any, Any) => Boolean] =
      Option.when(isOrdered) {
        val sorted = Array.tabulate(rows.length)(number => of(rows(number), at))
        Arrays.sort(sorted)
        (least: Any, most: Any) =>
          val found = Arrays.binarySearch(sorted, numberOf(least))
          val first = if (found < 0) -found - 1 else found
          first < sorted.length && sorted(first) <= numberOf(most)
      }

    private def numberOf(bound: Any) = bound.asInstanceOf[Number].longValue
  }

  private object TextColumn extends KeyColumn {
    override def bytes(row: SpecializedGetters, at: Int): Array[Byte] =
      row.getUTF8String(at).getBytes

    override def hash(row: SpecializedGetters, at: Int, seed: Long): Long = {
      val text = row.getUTF8String(at)
      XXH64.hashUnsafeBytes(text.getBaseObject, text.getBaseOffset, text.numBytes, seed)
    }

    override def isSame(row: SpecializedGetters, at: Int, other: SpecializedGetters, otherAt: Int)
        : Boolean = row.getUTF8String(at).binaryEquals(other.getUTF8String(otherAt))

    override def among(rows: IndexedSeq[InternalRow], at: Int): Option[(Any, Any) => Boolean] =
      between(rows.map(_.getUTF8String(at)))(_.asInstanceOf[UTF8String])(byBytes)

    private val byBytes: Ordering[UTF8String] = Ordering.fromLessThan(_.binaryCompare(_) < 0)
  }

  private object BinaryColumn extends KeyColumn {
    override def bytes(row: SpecializedGetters, at: Int): Array[Byte] = row.getBinary(at)

    override def hash(row: SpecializedGetters, at: Int, seed: Long): Long =
      hashed(row.getBinary(at), seed)

    override def isSame(row: SpecializedGetters, at: Int, other: SpecializedGetters, otherAt: Int)
        : Boolean = Arrays.equals(row.getBinary(at), other.getBinary(otherAt))
  }

  /** All values of a column have the same scale. */
  final private class DecimalColumn(decimal: DecimalType) extends KeyColumn {
    private def value(row: SpecializedGetters, at: Int) =
      row.getDecimal(at, decimal.precision, decimal.scale)

    override def bytes(row: SpecializedGetters, at: Int): Array[Byte] =
      value(row, at).toJavaBigDecimal.unscaledValue.toByteArray

    override def hash(row: SpecializedGetters, at: Int, seed: Long): Long = {
      val found = value(row, at)
      if (decimal.precision <= Decimal.MAX_LONG_DIGITS) XXH64.hashLong(found.toUnscaledLong, seed)
      else hashed(bytes(row, at), seed)
    }

    override def isSame(row: SpecializedGetters, at: Int, other: SpecializedGetters, otherAt: Int)
        : Boolean = value(row, at).compare(value(other, otherAt)) == 0

    override def among(rows: IndexedSeq[InternalRow], at: Int): Option[(Any, Any) => Boolean] =
      between(rows.map(value(_, at)))(_.asInstanceOf[Decimal])
  }

  private def hashed(bytes: Array[Byte], seed: Long) =
    XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length, seed)

  private def between[T: Ordering](
      values: IndexedSeq[T]
  )(bound: Any => T): Option[(Any, Any) => Boolean] = {
    val sorted = values.sorted
    Some { (least, most) =>
      val first = sorted.search(bound(least)).insertionPoint
      sorted.lift(first).exists(Ordering[T].lteq(_, bound(most)))
    }
  }
}
