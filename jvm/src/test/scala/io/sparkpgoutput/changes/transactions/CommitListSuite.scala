package io.sparkpgoutput.changes.transactions

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.changes.transactions.CommitList.Entry

class CommitListSuite extends PropertySuite {
  private val numbers = Gen.frequency(
    8 -> Gen.choose(0L, 1000L),
    1 -> Gen.choose(0L, 0xffffffffL),
    1 -> Gen.chooseNum(Long.MinValue, Long.MaxValue, 0L, -1L, 127L, 128L)
  )
  private val entries: Gen[Seq[Entry]] = Gen
    .listOf(Gen.zip(numbers, numbers, numbers).map { case (lsn, xid, position) =>
      Entry(lsn, xid, position)
    })
    .map(_.sortWith((a, b) => java.lang.Long.compareUnsigned(a.lsn, b.lsn) < 0))

  private def list(entries: Iterable[Entry]) = {
    val list = new CommitList
    entries.foreach(entry => list.add(entry.lsn, entry.xid, entry.position))
    list
  }

  test("a list gives what was added to it, as often as asked") {
    forAll(entries) { all =>
      val added = list(all)
      assert(added.size == all.size)
      assert(added.iterator.toSeq == all)
      assert(added.iterator.toSeq == all)
    }
  }

  test("it covers the LSNs from the first to the last, unsigned") {
    forAll(entries, numbers) { (all, lsn) =>
      def unsigned(value: Long) = BigInt(java.lang.Long.toUnsignedString(value))
      val expected = all.nonEmpty &&
        unsigned(all.head.lsn) <= unsigned(lsn) && unsigned(lsn) <= unsigned(all.last.lsn)
      assert(list(all).covers(lsn) == expected)
      all.foreach(entry => assert(list(all).covers(entry.lsn)))
    }
  }

  test("commits as a server makes them take a few bytes each") {
    val count = 100000
    val added = list((1 to count).map(i => Entry(0x16b374d848L + 600L * i, 700L + i, 5L * i)))
    val bytes = new java.io.ByteArrayOutputStream
    new java.io.ObjectOutputStream(bytes).writeObject(added)
    assert(bytes.size < 6 * count)
  }
}
