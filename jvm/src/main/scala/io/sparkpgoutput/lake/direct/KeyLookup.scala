package io.sparkpgoutput.lake.direct

import java.util.Arrays
import java.util.concurrent.atomic.AtomicReferenceArray
import java.util.concurrent.{Callable, ExecutionException, Executors, ThreadFactory}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{SpecializedGetters, XXH64}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Where a row is. */
final case class RowPlace(file: DirectFile, position: Long)

/**
 * Finds rows of a version of a table by the numbers that [[KeyNumbers]] makes of their keys.
 *
 * @param ordinals the places of the key's columns in the table
 * @param end the place of a column that is NULL in the rows that can be found; None if all rows can
 * @param keys rows with the keys. No two of them have the same key.
 * @param places the places of the key's columns in these rows
 * @param mixed the hash of the first number of a key. Keys with the same hash are compared, so any function is right.
 * @param most the most rows that are read
 * @throws NotDirect if this class does not compare values of a column of the key
 */
final class KeyLookup(
    table: DirectTable,
    ordinals: IndexedSeq[Int],
    end: Option[Int],
    keys: IndexedSeq[InternalRow],
    places: IndexedSeq[Int],
    mixed: Long => Long = KeyLookup.mixed,
    most: Long = KeyLookup.MostRows
) {
  import KeyLookup._

  private val columns = ordinals.map { at =>
    val field = table.schema(at)
    KeyColumn.of(field.dataType).getOrElse(
      throw new NotDirect(
        s"the column ${field.name} of the key has the type ${field.dataType.sql}"
      )
    )
  }

  /** The identities of the key's columns in data files, and of `end`. */
  private val names = (ordinals ++ end).map(columnName(table, _))
  private val numbers = new KeyNumbers(columns)
  private val width = numbers.width
  private val wanted = new Array[Long](keys.length * width)
  private val capacity = Integer.highestOneBit(math.max(16, keys.length)) * 4

  /** One more than the index of the key in `keys`; 0 if there is none. */
  private val slots = new Array[Int](capacity)

  /**
   * The bits of the first numbers of all keys. If the keys are few, one bit of 32 is set, and a core has all in its
   * cache.
   */
  private val bits = new Array[Long](math.min(capacity / 4, MostWords))
  private val shift = 1 + java.lang.Long.numberOfLeadingZeros(bits.length * 64L)

  keys.indices.foreach { index =>
    numbers.put(keys(index), places, wanted, index * width)
    val first = wanted(index * width)
    val slot = slotFor(first, wanted(index * width + width - 1))
    if (slots(slot) != 0)
      throw new NotDirect("the changes have two keys that the target takes for the same")
    slots(slot) = index + 1
    bits((bitOf(first) >>> 6).toInt) |= 1L << bitOf(first)
  }

  private def bitOf(first: Long) = (first * Spread) >>> shift

  /** Returns the slot of a key, or the empty slot where it would be. */
  private def slotFor(first: Long, last: Long): Int = {
    val hash = mixed(first)
    var slot = (hash ^ (hash >>> 32)).toInt & (capacity - 1)
    while (slots(slot) != 0 && !isKey(slots(slot) - 1, first, last))
      slot = (slot + 1) & (capacity - 1)
    slot
  }

  private def isKey(index: Int, first: Long, last: Long) =
    wanted(index * width) == first && wanted(index * width + width - 1) == last

  /**
   * Returns the index in `keys` of the key with some numbers; -1 if there is none. For most numbers of other keys, the
   * bits say within a nanosecond that there is none.
   */
  private def indexOf(first: Long, last: Long): Int = {
    val bit = bitOf(first)
    if ((bits((bit >>> 6).toInt) & (1L << bit)) == 0) -1 else slots(slotFor(first, last)) - 1
  }

  /** Returns the index of the key of a row in `keys`; -1 if it is not one of them. One thread calls it. */
  def indexOf(row: InternalRow, at: IndexedSeq[Int]): Int = {
    val key = new Array[Long](width)
    numbers.put(row, at, key, 0)
    indexOf(key(0), key(width - 1))
  }

  private def hasNull(row: InternalRow, at: IndexedSeq[Int]) = {
    var column = 0
    while (column < at.length && !row.isNullAt(at(column))) column += 1
    column < at.length
  }

  private val placeOfKey = new AtomicReferenceArray[RowPlace](keys.length)

  /**
   * The place of the row with each key; null if there is none.
   *
   * @throws NotDirect if two rows have the same key
   */
  lazy val found: IndexedSeq[RowPlace] = {
    if (keys.nonEmpty) {
      val among = columns.zip(places).map { case (column, at) => column.among(keys, at) }
      val candidates = table.files.filter(file =>
        ordinals.zip(among).forall { case (at, among) =>
          among.forall(isAmong => file.bounds(at).forall(isAmong.tupled))
        }
      )
      table.keys.begin(names, table.files)
      val unknown = candidates.filter(table.keys.of(_).isEmpty)
      val read = unknown.map(_.rows).sum
      if (read > most) {
        val paths = unknown.map(_.path).toSet
        table.keys.wanted = Some(WantedKeys(names, ordinals.length, paths, most))
        throw new NotDirect(s"the files that can have the keys have $read rows")
      }
      // To find a few kept keys takes less time than to begin a thread.
      val isShort = unknown.length <= 1 && keys.length.toLong * candidates.length < ManyFinds
      val threads = if (isShort) 1 else Runtime.getRuntime.availableProcessors
      SideBySide(candidates, threads)(searchFile)
    }
    keys.indices.map(placeOfKey.get)
  }

  /**
   * Keeps the keys of a file that was just written, so that the next lookup does not read the file.
   *
   * @param rows all rows of the file in their order, in which the key is where it is in `keys`
   * @param endAt the place of the column `end` in them
   */
  def keep(file: DirectFile, rows: Iterator[InternalRow], endAt: Option[Int]): Unit = {
    val none = new KeyLookup(table, ordinals, end, Vector.empty, places)
    none.collecting(file, endAt)(collected =>
      none.searchRows(rows, file, places, endAt, collected)
    )
  }

  /** Finds the rows in a file. Several threads call it, each for other files. */
  private def searchFile(file: DirectFile): Unit = table.keys.of(file) match {
    case Some(kept) => searchKept(kept, file)
    case None =>
      val ends = end.filterNot(file.hasOnlyNulls(_))
      collecting(file, ends) { collected =>
        val endAt = ends.map(_ => ordinals.length)
        table.read(file, ordinals ++ ends)(
          searchRows(_, file, ordinals.indices, endAt, collected)
        )
      }
  }

  /**
   * Runs a search that collects the keys of a file, if there is room for them. A lookup of no keys does nothing else.
   *
   * @param end the place of a column that is NULL in the rows that can be found; None if all rows can
   */
  private def collecting(
      file: DirectFile,
      end: Option[Int]
  )(search: Option[FileKeys] => Unit): Unit = {
    // The numbers of the key, and half a number for its position, twice. If some rows have no key, there is a copy.
    val ofRow = (width + 1) * (if (end.isEmpty) 1 else 2)
    table.keys.cache.collecting(file.rows * ofRow) { isKept =>
      if (isKept || keys.nonEmpty) {
        val collected = Option.when(isKept)(new FileKeys(file.rows.toInt, width))
        search(collected)
        collected.foreach(table.keys.keep(names, file, _))
      }
    }
  }

  /**
   * Finds the keys among the rows of a file. A row of another writer can have a NULL in the key, which no key equals.
   *
   * @param at the places of the key's columns in the rows
   * @param endAt the place of a column that is NULL in the rows that can be found
   * @param collected takes the keys of these rows
   */
  private def searchRows(
      rows: Iterator[InternalRow],
      file: DirectFile,
      at: IndexedSeq[Int],
      endAt: Option[Int],
      collected: Option[FileKeys]
  ): Unit = {
    val end = endAt.getOrElse(-1)
    val all = collected.orNull
    val numbers = new KeyNumbers(columns)
    val key = new Array[Long](width)
    var position = 0L
    while (rows.hasNext) {
      val row = rows.next()
      if (position == file.rows)
        throw new NotDirect(s"the file ${file.path} has more than ${file.rows} rows")
      if (!hasNull(row, at) && (end < 0 || row.isNullAt(end))) {
        numbers.put(row, at, key, 0)
        val index = indexOf(key(0), key(width - 1))
        if (index >= 0) put(index, file, position)
        if (all != null) all.add(key, position.toInt)
      }
      position += 1
    }
    if (position != file.rows)
      throw new NotDirect(s"the file ${file.path} has $position rows, and not ${file.rows}")
  }

  /** Finds the keys among those that were kept of a file. */
  private def searchKept(kept: KeptKeys, file: DirectFile): Unit =
    if (keys.length < kept.count / FasterThanFind)
      keys.indices.foreach(index =>
        kept.find(wanted(index * width), wanted(index * width + width - 1))(at =>
          put(index, file, kept.position(at))
        )
      )
    else searchAll(kept, file)

  private def searchAll(kept: KeptKeys, file: DirectFile): Unit = {
    val part = new Array[Long](math.min(kept.count, PartRows) * width)
    var begin = 0
    while (begin < kept.count) {
      val count = math.min(kept.count - begin, PartRows)
      // To copy many numbers at once costs less than a call for each of them.
      kept.numbers.get(begin * width, part, 0, count * width)
      var key = 0
      while (key < count) {
        val index = indexOf(part(key * width), part(key * width + width - 1))
        if (index >= 0) put(index, file, kept.position(begin + key))
        key += 1
      }
      begin += count
    }
  }

  private def put(index: Int, file: DirectFile, position: Long): Unit =
    if (
      !file.isDeleted(position) &&
      !placeOfKey.compareAndSet(index, null, RowPlace(file, position))
    ) throw new NotDirect("the target has two rows with the same key")
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
    if (!places.contains(-1)) {
      val (ordinals, end) = places.toIndexedSeq.splitAt(wanted.ofKey)
      val none = new KeyLookup(table, ordinals, end.headOption, Vector.empty, Vector.empty)
      def size(file: DirectFile) = KeptKeys.size(file.rows, none.width)
      val files = table.files.filter(file => wanted.files(file.path) && keys.of(file).isEmpty)
      var room = keys.cache.room
      val (chosen, left) = files.partition { file =>
        val takes = size(file) <= room
        if (takes) room -= size(file)
        takes
      }
      if (left.map(_.rows).sum <= wanted.most)
        chosen.withFilter(file => keys.cache.hasRoom(size(file))).foreach(none.searchFile)
    }
  }

  /** In more rows than this, the executors of a cluster find keys faster than the driver does. */
  final private val MostRows = 50000000L

  /** The rows whose numbers are copied at once. */
  final private val PartRows = 1024

  /**
   * If a lookup has so many keys to find in all files, several threads find them. One thread would take some
   * milliseconds.
   */
  final private val ManyFinds = 50000L

  /**
   * In the time of one [[KeptKeys.find]], a lookup that reads all kept keys of a file looks at about so many of them.
   */
  final private val FasterThanFind = 16

  /** The greatest size of the bits of a lookup: 128 KiB. */
  final private val MostWords = 1 << 14

  /** A multiplication by this number (2^64 / golden ratio) spreads numbers that follow each other. */
  final private val Spread = 0x9e3779b97f4a7c15L

  /** Each process has another number, so that nobody can choose keys whose hashes are the same. */
  private[direct] val Seed = new java.security.SecureRandom().nextLong()

  /** Similar numbers have hashes that are far from each other. */
  def mixed(first: Long): Long = XXH64.hashLong(first, Seed)
}

/**
 * Runs work on files and tables in threads of its own, and waits for its end. The threads see the classes that the
 * caller sees, also those of JARs that a user gives to Spark.
 *
 * The common pool of the JVM must not do this. To read a file can take another thread that waits for the common pool:
 * Hadoop counts statistics in it when it closes a file (`EvaluatingStatisticsMap.entrySet`). If all threads of the
 * pool wait for such a thread, they wait for ever.
 */
private[lake] object SideBySide {
  def apply[A, B](values: Seq[A], mostThreads: Int)(work: A => B): Seq[B] =
    if (values.length <= 1 || mostThreads <= 1) values.map(work)
    else {
      val threads = Executors.newFixedThreadPool(math.min(values.length, mostThreads), Daemon)
      val tasks = values.map(value => (() => work(value)): Callable[B])
      try threads.invokeAll(tasks.asJava).asScala.map(_.get).toSeq
      catch { case failed: ExecutionException => throw failed.getCause }
      finally threads.shutdownNow(): Unit
    }

  private val Daemon: ThreadFactory = (task: Runnable) => {
    val thread = new Thread(task, "spark-pgoutput looks at files")
    thread.setDaemon(true)
    thread
  }
}

/**
 * A column of a key. It says when two values are equal, as Spark's `=` does. For floating-point numbers, -0 equals 0
 * and NaN equals itself (`NormalizeFloatingNumbers`).
 */
sealed abstract class KeyColumn {

  /** Returns a number for a value. Two values are equal if their numbers are equal. None if only [[bytes]] decide. */
  def number: Option[KeyColumn.NumberOf] = None

  /** Bytes of a value that are the same if, and only if, two values are equal. */
  def bytes(row: SpecializedGetters, at: Int): Array[Byte] =
    throw new IllegalStateException("The number shows whether two values are equal.")

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

  trait NumberOf { def apply(row: SpecializedGetters, at: Int): Long }

  /** @param of returns the number of a value. For floating-point values it adds 0, which turns -0 into 0. */
  final private class NumberColumn(of: NumberOf, isOrdered: Boolean) extends KeyColumn {
    override val number: Option[NumberOf] = Some(of)

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

    override def among(rows: IndexedSeq[InternalRow], at: Int): Option[(Any, Any) => Boolean] =
      between(rows.map(_.getUTF8String(at)))(_.asInstanceOf[UTF8String])(byBytes)

    private val byBytes: Ordering[UTF8String] = Ordering.fromLessThan(_.binaryCompare(_) < 0)
  }

  private object BinaryColumn extends KeyColumn {
    override def bytes(row: SpecializedGetters, at: Int): Array[Byte] = row.getBinary(at)
  }

  /** All values of a column have the same scale. */
  final private class DecimalColumn(decimal: DecimalType) extends KeyColumn {
    private def value(row: SpecializedGetters, at: Int) =
      row.getDecimal(at, decimal.precision, decimal.scale)

    override def bytes(row: SpecializedGetters, at: Int): Array[Byte] =
      value(row, at).toJavaBigDecimal.unscaledValue.toByteArray

    override def among(rows: IndexedSeq[InternalRow], at: Int): Option[(Any, Any) => Boolean] =
      between(rows.map(value(_, at)))(_.asInstanceOf[Decimal])
  }

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
