package io.sparkpgoutput.changes.streaming

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

class TransactionBufferSuite extends AnyFunSuite {

  /** The buffers of several micro-batches, one after the other, over the same state. */
  private class Buffers {
    val chunks = new KeptInMemory[ChunkKey, Array[Byte]]
    var buffer: TransactionBuffer = start(Nil)

    def start(stored: Seq[(Long, Int)]): TransactionBuffer =
      new TransactionBuffer(chunks, mutable.LongMap.from(stored))

    def nextBatch(): Unit = buffer = start(buffer.storeAll())

    def changes(transaction: Long): Seq[(Long, Boolean, Long, Long, String)] =
      buffer.changes(transaction).map { change =>
        import change._
        (position, inStream, ordinal, xid, new String(message, "UTF-8"))
      }.toSeq
  }

  private def change(position: Long, text: String = "x") = BufferedChange(
    position,
    text.getBytes("UTF-8"),
    inStream = position % 2 == 0,
    ordinal = -position,
    xid = position << 32
  )

  private def asGiven(positions: Iterable[Long], text: String = "x") =
    positions.map(p => (p, p % 2 == 0, -p, p << 32, text)).toSeq

  test("the changes of each transaction come out in the order in which they went in") {
    val buffers = new Buffers
    for (position <- 1L to 10L) {
      buffers.buffer.add(position % 2, change(position))
      if (position % 3 == 0) buffers.nextBatch()
    }
    assert(buffers.changes(0) == asGiven(2L to 10L by 2L))
    assert(buffers.changes(1) == asGiven(1L to 9L by 2L))
    assert(buffers.changes(2).isEmpty)
  }

  test("empty messages and large ones come out as they went in") {
    val buffers = new Buffers
    val large = "y" * 1000000
    buffers.buffer.add(0, change(1, ""))
    buffers.buffer.add(0, change(2, large))
    buffers.buffer.add(0, change(3, ""))
    val expected = asGiven(Seq(1), "") ++ asGiven(Seq(2), large) ++ asGiven(Seq(3), "")
    assert(buffers.changes(0) == expected)
    buffers.nextBatch()
    assert(buffers.changes(0) == expected)
  }

  test("a large transaction goes to the state store in chunks before the micro-batch ends") {
    val buffers = new Buffers
    val text = "z" * 1000
    for (position <- 1L to 1000L) buffers.buffer.add(0, change(position, text))
    val sizes = buffers.chunks.kept.values.map(_.length)
    assert(sizes.size == 7 && sizes.forall(size => size >= 128 * 1024 && size < 130 * 1024))
    assert(buffers.changes(0) == asGiven(1L to 1000L, text))
    buffers.nextBatch()
    buffers.buffer.add(0, change(1001, text))
    assert(buffers.changes(0) == asGiven(1L to 1001L, text))
  }

  test("a transaction is removed with all its chunks, and no other") {
    val buffers = new Buffers
    for (position <- 1L to 400L) buffers.buffer.add(position % 2, change(position, "z" * 1000))
    buffers.nextBatch()
    buffers.buffer.add(0, change(401))
    buffers.buffer.remove(0)
    assert(buffers.changes(0).isEmpty && buffers.changes(1).length == 200)
    assert(buffers.chunks.keys().forall(_.firstPosition == 1))
    buffers.buffer.remove(1)
    assert(buffers.chunks.kept.isEmpty && buffers.buffer.storeAll().isEmpty)
    buffers.buffer.add(1, change(402))
    assert(buffers.changes(1) == asGiven(Seq(402)))
  }
}
