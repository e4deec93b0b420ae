package io.sparkpgoutput.lake.route

import java.util.{Arrays, BitSet}

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

import io.sparkpgoutput.changes.rows.RowImage
import io.sparkpgoutput.protocol.{BeginMessage, BigEndian, EncodedTuple, StructSchema}

/** The columns of a change of a row, as the router gives it. */
object ChangeFields extends StructSchema {
  val HASH: Int = field(
    "hash",
    LongType,
    "A hash of the key. It puts the changes of a row together, and comparing it is mostly enough to sort them"
  )
  val KEY: Int = field("key", BinaryType, "The row, as KeyBytes has it")
  val LSN: Int = field("lsn", LongType, "The LSN of the commit")
  val ORDINAL: Int = field("ordinal", LongType, "The position of the message in the transaction")
  val KIND: Int = field("kind", IntegerType, "One of RowEffect")
  val TRANSACTION: Int = field(
    "transaction",
    BinaryType,
    "The beginning of the transaction, as TransactionStart has it; NULL if the target needs no time of it"
  )
  val WHOLE: Int = field(
    "whole",
    BooleanType,
    "True if the new row has a value for each column of the target, from the message alone"
  )
  val DEFINITION: Int =
    field("definition", IntegerType, "The number of the table's definition in the cut")
  val MESSAGE: Int = field("message", BinaryType, "The message")

  /** Puts the changes of each row together, in the order in which they were made. */
  val order: Seq[String] = Seq(HASH, KEY, LSN, ORDINAL).map(schema(_).name)
}

/** The effect of a change on the row with its key. */
object RowEffect {
  final val Insert = 1
  final val Update = 2
  final val Delete = 3

  /** An update gives the row another key. This is the change of the row with the old key. */
  final val MovedOut = 4

  /** An update gives the row another key. This is the change of the row with the new key. */
  final val MovedIn = 5

  /** All rows of the table go. Only a table that is kept has such a change. */
  final val Truncate = 6
}

/**
 * Rows of one table that follow each other, as bytes: an Int64 with the size of a row, and the row as
 * an UnsafeRow, and so on. Spark writes an array of bytes to disk much faster than rows.
 */
object ChangeChunk {
  final private val MaxSize = 1 << 20
  final private[route] val Head = 8

  /** The size of a buffer at first. */
  final private[route] val First = 1 << 16

  /** Puts rows into arrays. */
  def pack(rows: Iterator[InternalRow]): Iterator[Array[Byte]] =
    new Iterator[Array[Byte]] {
      private val ahead = rows.map(_.asInstanceOf[UnsafeRow]).buffered
      private val buffer = new ChunkBuffer(MaxSize)

      override def hasNext: Boolean = ahead.hasNext

      override def next(): Array[Byte] = {
        do buffer.add(ahead.next()) while (ahead.hasNext && buffer.fits(ahead.head))
        buffer.take()
      }
    }

  /** Reads the changes of arrays, each of which the next one overwrites. */
  def unpack(chunks: Iterator[Array[Byte]]): Iterator[ChangeView] = chunks.flatMap { chunk =>
    val view = new ChangeView
    placesIn(chunk).iterator.map(view.start(chunk, _))
  }

  /**
   * Returns the changes of arrays, each of which the next one overwrites. The changes of a row come together, in the
   * order of [[ChangeFields.order]].
   *
   * Rows with a single change come first, as the server has sent them. So the memory is read in order, and rows that
   * are neighbors at the server are neighbors in the files, too.
   */
  def grouped(chunks: IndexedSeq[Array[Byte]]): Iterator[ChangeView] = {
    val found = new mutable.ArrayBuilder.ofLong
    chunks.indices.foreach { chunk =>
      placesIn(chunks(chunk)).foreach(at => found += chunk.toLong << Integer.SIZE | at)
    }
    val places = found.result()
    def change(place: Int, view: ChangeView) =
      view.start(chunks((places(place) >>> Integer.SIZE).toInt), places(place).toInt)
    // To sort numbers takes a tenth of the time. Each one has the first bits of a hash, and then the place of a change.
    val first = -1L << (Integer.SIZE - Integer.numberOfLeadingZeros(places.length))
    val view = new ChangeView
    val numbers = new Array[Long](places.length)
    numbers.indices.foreach(place => numbers(place) = change(place, view).hash & first | place)
    Arrays.sort(numbers)
    def placeOf(number: Long) = (number & ~first).toInt
    // The changes of a row have the same hash.
    val ofGroups = new BitSet(places.length)
    var (begin, size) = (0, 0)
    while (begin < numbers.length) {
      var end = begin + 1
      while (end < numbers.length && ((numbers(end) ^ numbers(begin)) & first) == 0) end += 1
      if (end > begin + 1) {
        numbers.slice(begin, end).map(number => change(placeOf(number), new ChangeView) -> number)
          .sortWith((one, other) => ChangeView.order.compare(one._1, other._1) < 0)
          .map(_._2).copyToArray(numbers, size)
        (size until size + end - begin).foreach(at => ofGroups.set(placeOf(numbers(at))))
        size += end - begin
      }
      begin = end
    }
    val single = Iterator.iterate(ofGroups.nextClearBit(0))(at => ofGroups.nextClearBit(at + 1))
      .takeWhile(_ < places.length)
    (single ++ numbers.iterator.take(size).map(placeOf)).map(change(_, view))
  }

  /** Reads the rows of arrays, each of which the next one overwrites. */
  def rows(chunks: Iterator[Array[Byte]]): Iterator[InternalRow] = unpack(chunks).map(_.row)

  /** The places of the rows of an array, each with its size before it. */
  private def placesIn(chunk: Array[Byte]): Array[Int] = {
    val found = new mutable.ArrayBuilder.ofInt
    var at = 0
    while (at < chunk.length) {
      found += at
      at += Head + sizeAt(chunk, at)
    }
    found.result()
  }

  private[route] def sizeAt(chunk: Array[Byte], at: Int): Int =
    Platform.getLong(chunk, Platform.BYTE_ARRAY_OFFSET.toLong + at).toInt
}

/**
 * Packs rows of [[ChangeFields]] into arrays of [[ChangeChunk]], in order. Not thread-safe.
 *
 * @param most the size of an array in bytes. A larger row has an array of its own.
 * @param put takes an array that is full, or the last one
 */
final class ChangePacker(most: Int, put: Array[Byte] => Unit) {
  import ChangePacker._
  private val buffer = new ChunkBuffer(most)

  def add(row: InternalRow): Unit = {
    val packed = Projections.get.apply(row)
    if (!buffer.fits(packed)) flush()
    buffer.add(packed)
    // A projection keeps the memory of its largest row.
    if (packed.getSizeInBytes > most) Projections.remove()
  }

  /** Puts the rows that are in no array yet into one. */
  def flush(): Unit = if (!buffer.isEmpty) put(buffer.take())
}

private object ChangePacker {

  /** A projection for each thread, because Spark writes code for each new one, which takes long for a small commit. */
  private val Projections =
    ThreadLocal.withInitial(() => UnsafeProjection.create(ChangeFields.schema))
}

/**
 * The rows of the next array of [[ChangeChunk]].
 *
 * @param most the size of an array in bytes, unless it has only one row
 */
final private class ChunkBuffer(most: Int) {
  import ChangeChunk.{First, Head}

  private var bytes = new Array[Byte](math.min(most, First))
  private var size = 0

  def isEmpty: Boolean = size == 0

  def fits(row: UnsafeRow): Boolean =
    isEmpty || size + Head.toLong + row.getSizeInBytes <= most

  def add(row: UnsafeRow): Unit = {
    val end = Math.addExact(size, Math.addExact(Head, row.getSizeInBytes))
    if (end > bytes.length)
      bytes = Arrays.copyOf(bytes, math.max(end, math.min(most, 2 * bytes.length)))
    val offset = Platform.BYTE_ARRAY_OFFSET.toLong + size
    Platform.putLong(bytes, offset, row.getSizeInBytes.toLong)
    row.writeToMemory(bytes, offset + Head)
    size = end
  }

  /** Returns the rows as an array, and forgets them. */
  def take(): Array[Byte] = {
    val taken = Arrays.copyOf(bytes, size)
    size = 0
    if (bytes.length > most) bytes = new Array[Byte](most)
    taken
  }
}

/** A row of [[ChangeFields]] in an array of bytes, whose key and message are not copied. */
final class ChangeView {
  private[route] val row = new UnsafeRow(ChangeFields.schema.length)

  /** The bytes that have the row, its key from `keyFrom` up to `keyTo`, and its message. */
  var bytes: Array[Byte] = _
  var keyFrom = 0
  var keyTo = 0
  var messageFrom = 0
  var messageTo = 0

  /** Starts with the row at a place of an array of [[ChangeChunk]]. */
  def start(chunk: Array[Byte], place: Int): this.type = {
    bytes = chunk
    val from = place + ChangeChunk.Head
    row.pointTo(chunk, Platform.BYTE_ARRAY_OFFSET.toLong + from, ChangeChunk.sizeAt(chunk, place))
    // A field of variable length is its offset in the row and its size, in 32 bits each (UnsafeRow).
    val key = row.getLong(ChangeFields.KEY)
    keyFrom = from + (key >>> 32).toInt
    keyTo = keyFrom + key.toInt
    val message = row.getLong(ChangeFields.MESSAGE)
    messageFrom = from + (message >>> 32).toInt
    messageTo = messageFrom + message.toInt
    this
  }

  def hash: Long = row.getLong(ChangeFields.HASH)
  def lsn: Long = row.getLong(ChangeFields.LSN)
  def ordinal: Long = row.getLong(ChangeFields.ORDINAL)
  def kind: Int = row.getInt(ChangeFields.KIND)
  def isWhole: Boolean = row.getBoolean(ChangeFields.WHOLE)
  def definition: Int = row.getInt(ChangeFields.DEFINITION)

  def hasKey(other: Array[Byte], from: Int, to: Int): Boolean =
    Arrays.equals(bytes, keyFrom, keyTo, other, from, to)

  def compareKey(other: ChangeView): Int =
    Arrays.compareUnsigned(bytes, keyFrom, keyTo, other.bytes, other.keyFrom, other.keyTo)

  /** The message, copied. */
  def message: Array[Byte] = Arrays.copyOfRange(bytes, messageFrom, messageTo)

  /** Returns whether an Update or Delete message has the old row or its key. */
  def hasOld: Boolean = bytes(messageFrom + ChangeTuples.Head) != 'N'

  /** The beginning of the transaction, copied; null if the table does not have it. */
  def transaction: Array[Byte] = row.getBinary(ChangeFields.TRANSACTION)

  /** The time of the commit, in microseconds since 1970, if the table has the beginning of the transaction. */
  def time: Long = BeginMessage.timestamp(transaction)

  def position: MessagePosition = MessagePosition(lsn, ordinal)

  /** Returns whether a row comes, so that the change has no old one. */
  def begins: Boolean = kind == RowEffect.Insert || kind == RowEffect.MovedIn

  def isAfter(position: MessagePosition): Boolean =
    lsn > position.lsn || lsn == position.lsn && ordinal > position.ordinal
}

object ChangeView {

  /** The order that [[ChangeFields.order]] says. */
  val order: java.util.Comparator[ChangeView] = (one, other) => {
    val hashes = java.lang.Long.compare(one.hash, other.hash)
    if (hashes != 0) hashes
    else {
      val keys = one.compareKey(other)
      if (keys != 0) keys
      else if (one.lsn != other.lsn) java.lang.Long.compare(one.lsn, other.lsn)
      else java.lang.Long.compare(one.ordinal, other.ordinal)
    }
  }
}

/**
 * The tuples of an Insert, Update or Delete message that was checked before: a byte for the message,
 * Int32 oid of the table, and tuples with a byte before each: K for an old key, O for an old row, N
 * for the new row.
 */
final class ChangeTuples {
  private val old = new EncodedTuple
  private val sent = new EncodedTuple
  private var bytes: Array[Byte] = _
  private var oldAt = 0
  private var newAt = 0
  private var oldIsKey = false

  def start(message: Array[Byte], from: Int): Unit = {
    bytes = message
    val first = from + ChangeTuples.Head
    val hasOld = message(first) != 'N'
    oldIsKey = message(first) == 'K'
    oldAt = if (hasOld) first + 1 else 0
    newAt = if (hasOld) 0 else first + 1
  }

  /** Starts with the old row, which may have the columns of the replica identity only. */
  def readOld(isIdentity: Array[Boolean], image: RowImage): Unit = {
    begin(old, oldAt)
    image.start(isIdentity, old, oldIsKey, null, false)
  }

  /** Starts with the new row. Unchanged TOASTed values come from the old row, if the message has it. */
  def readNew(isIdentity: Array[Boolean], image: RowImage): Unit = {
    if (oldAt > 0) {
      if (newAt == 0) newAt = endOf(oldAt) + 1
      begin(old, oldAt)
    }
    begin(sent, newAt)
    image.start(isIdentity, sent, false, if (oldAt > 0) old else null, oldIsKey)
  }

  private def begin(tuple: EncodedTuple, at: Int): Unit =
    tuple.start(bytes, at + EncodedTuple.TupleHead, BigEndian.int16(bytes, at) & 0xffff)

  private def endOf(tuple: Int): Int = {
    var left = BigEndian.int16(bytes, tuple) & 0xffff
    var at = tuple + EncodedTuple.TupleHead
    while (left > 0) {
      at = EncodedTuple.cellEnd(bytes, at, bytes.length)
      left -= 1
    }
    at
  }
}

private object ChangeTuples {
  final val Head = 1 + 4
}
