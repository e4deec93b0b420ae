package io.sparkpgoutput.source.slot

import java.nio.ByteBuffer
import java.nio.ByteOrder.LITTLE_ENDIAN

import org.scalatest.funsuite.AnyFunSuite

class WalRecordsSuite extends AnyFunSuite {
  final private val Start = 0x8000000L
  final private val PageSize = 256

  /** Returns the WAL that a server writes for records with these lengths and xids. */
  private def wal(records: Seq[(Int, Int)], previous: Long = 0): Array[Byte] = {
    val content = ByteBuffer.allocate(4096).order(LITTLE_ENDIAN)
    records.zipWithIndex.foreach { case ((length, xid), number) =>
      val at = content.position()
      content.putInt(length).putInt(xid).putLong(if (number == 0) previous else 1L)
      content.put((if (number == 0) 0x03 else 0x10).toByte).put(0.toByte)
      content.position((at + length + 7) / 8 * 8)
    }
    val bytes = content.array.take(content.position())
    val segment = ByteBuffer.allocate(8192).order(LITTLE_ENDIAN)
    bytes.foreach { byte =>
      if (segment.position() % PageSize == 0) {
        val page = segment.position()
        segment.putLong(page + 8, Start + page)
        segment.position(page + (if (page == 0) 40 else 24))
      }
      segment.put(byte)
    }
    segment.array.take(segment.position())
  }

  private def problem(records: Seq[(Int, Int)], previous: Long = 0): Option[String] =
    UpgradedSlot.problem(wal(records, previous), Start, PageSize)

  test("a slot is as pg_upgrade made it if all records before it belong to no transaction") {
    // The headers of some records are on two pages, and one record is on three.
    (1 to 40).foreach(length =>
      assert(
        problem(Seq(114 -> 0, (24 + length) -> 0, 600 -> 0, (30 + length) -> 0)).isEmpty,
        length
      )
    )
  }

  test("a transaction before the slot is found, wherever its record is") {
    val records = Seq(114 -> 0, 50 -> 0, 600 -> 0, 51 -> 0)
    (1 until records.length).foreach { number =>
      val changed = records.updated(number, records(number)._1 -> 777)
      assert(problem(changed).exists(_.startsWith("Transactions ran")), number)
    }
  }

  test("the WAL must begin with the upgrade") {
    assert(problem(Seq(114 -> 0, 50 -> 0), previous = 1).exists(_.contains("does not begin")))
  }

  test("bytes that are not exactly the records up to the slot cannot be read") {
    val bytes = wal(Seq(114 -> 0, 50 -> 0, 600 -> 0))
    // A file that the server uses again has pages of its earlier use.
    val used = ByteBuffer.wrap(bytes.clone).order(LITTLE_ENDIAN).putLong(PageSize + 8, Start - 8192)
    Seq(bytes.dropRight(8), bytes.dropRight(600), bytes ++ new Array[Byte](8), Array.empty[Byte])
      .appended(new Array[Byte](bytes.length)).appended(used.array).foreach { bytes =>
        val problem = UpgradedSlot.problem(bytes, Start, PageSize)
        assert(problem.exists(_.contains("cannot be read")), bytes.length)
      }
  }

  test("a record that ends with a page ends before the header of the next page") {
    def end(next: Long) = WalRecords.endBefore(next, PageSize, segmentSize = 1024)
    val page = Start + PageSize
    assert(Seq(page, page + 24, page + 32, page + 40).map(end) ==
      Seq(page, page, page + 32, page + 40))
    assert(Seq(Start, Start + 24, Start + 40).map(end) == Seq(Start, Start + 24, Start))
  }
}
