package io.sparkpgoutput.changes.streaming

import java.nio.ByteBuffer

import scala.collection.mutable

import org.apache.spark.sql.streaming.MapState

/**
 * The changes of open transactions in the order in which they were sent. The state store has them in
 * chunks. While a micro-batch runs, the last chunk of each transaction is here.
 *
 * @param chunks the chunks in the state store
 * @param stored the number of stored chunks of each transaction, by its first position
 */
final class TransactionBuffer(
    chunks: MapState[ChunkKey, Array[Byte]],
    stored: mutable.LongMap[Int]
) {

  /** The number of bytes at which a chunk goes to the state store. */
  final private val ChunkSize = 128 * 1024
  private val last = mutable.LongMap.empty[mutable.ArrayBuffer[BufferedChange]]
  private val lastSizes = mutable.LongMap.empty[Int].withDefaultValue(0)

  def add(transaction: Long, change: BufferedChange): Unit = {
    last.getOrElseUpdate(transaction, mutable.ArrayBuffer.empty) += change
    val size = lastSizes(transaction) + change.size
    lastSizes.update(transaction, size)
    if (size >= ChunkSize) store(transaction)
  }

  /** Returns all changes of a transaction. Remove the transaction when you have taken them. */
  def changes(transaction: Long): Iterator[BufferedChange] =
    Iterator.range(0, stored.getOrElse(transaction, 0)).flatMap { number =>
      val chunk = ByteBuffer.wrap(chunks.getValue(ChunkKey(transaction, number)))
      SourceStateFormat.checkVersion(chunk.get())
      Iterator.continually(chunk).takeWhile(_.hasRemaining).map(BufferedChange.read)
    } ++ last.getOrElse(transaction, Nil)

  def remove(transaction: Long): Unit = {
    stored.remove(transaction).foreach { number =>
      (0 until number).foreach(index => chunks.removeKey(ChunkKey(transaction, index)))
    }
    last.remove(transaction)
    lastSizes.remove(transaction)
  }

  /** Stores the last chunks at the end of a micro-batch. Returns the numbers of stored chunks. */
  def storeAll(): Seq[(Long, Int)] = {
    last.keys.toSeq.foreach(store)
    stored.toSeq
  }

  private def store(transaction: Long): Unit = last.remove(transaction).foreach { changes =>
    val chunk = ByteBuffer.allocate(1 + lastSizes(transaction)).put(SourceStateFormat.Version)
    changes.foreach(_.write(chunk))
    val number = stored.getOrElse(transaction, 0)
    chunks.updateValue(ChunkKey(transaction, number), chunk.array)
    stored.update(transaction, number + 1)
    lastSizes.remove(transaction)
  }
}

/**
 * A message of an open transaction: a change, or a Relation message that later changes need.
 *
 * @param ordinal the ordinal of the first row of a change
 * @param xid the xid of the subtransaction, if a change is in a stream block
 */
final case class BufferedChange(
    position: Long,
    message: Array[Byte],
    inStream: Boolean,
    ordinal: Long,
    xid: Long
) {

  /** The number of bytes that [[write]] writes. */
  def size: Int = BufferedChange.HeadSize + message.length

  def write(out: ByteBuffer): Unit = {
    out.put((if (inStream) 1 else 0).toByte).putLong(position).putLong(ordinal).putLong(xid)
    out.putInt(message.length).put(message)
  }
}

object BufferedChange {

  /** The bytes of inStream, position, ordinal, xid and the length of the message. */
  final private val HeadSize = 1 + 3 * 8 + 4

  def read(in: ByteBuffer): BufferedChange = {
    val inStream = in.get() != 0
    val position = in.getLong()
    val ordinal = in.getLong()
    val xid = in.getLong()
    val message = new Array[Byte](in.getInt())
    in.get(message)
    BufferedChange(position, message, inStream, ordinal, xid)
  }
}

/** The key of a chunk in the state store: its transaction, and its number in the transaction. */
final case class ChunkKey(firstPosition: Long, number: Int)
