package io.sparkpgoutput.changes.transactions

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.errors.Errors.raised

class CommitHistorySuite extends AnyFunSuite {

  test("commits whose LSNs grow are new") {
    Seq(new RememberedCommits(0), new CommitHistory(0)).foreach { commits =>
      assert(commits.greatest == 0)
      Seq(1L, 2L, Long.MaxValue, Long.MinValue, -1L).foreach { lsn =>
        assert(commits.accepts(lsn, 7, 0))
        assert(commits.greatest == lsn)
      }
    }
  }

  test("a commit that repeats the LSN and the xid of another one is not new") {
    Seq(new RememberedCommits(0), new CommitHistory(0)).foreach { commits =>
      commits.accepts(100, 7, 0)
      commits.accepts(110, 8, 1)
      assert(!commits.accepts(100, 7, 2))
      assert(!commits.accepts(110, 8, 3))
      assert(commits.greatest == 110)
      assert(commits.accepts(120, 7, 4))
    }
  }

  test("a commit whose LSN neither grows nor repeats is an error") {
    val commits = new RememberedCommits(0)
    commits.accepts(100, 7, 0)
    commits.accepts(110, 8, 1)
    Seq(99L -> 7L, 100L -> 8L, 105L -> 7L, 110L -> 7L).foreach { case (lsn, xid) =>
      val error = raised("PGOUTPUT_COMMIT_WENT_BACK")(commits.accepts(lsn, xid, 5))
      assert(error.getMessage.contains("position 5: the commit"))
      assert(error.getMessage.contains(s"xid $xid has the LSN 0/${lsn.toHexString.toUpperCase}"))
    }
    assert(!commits.accepts(100, 7, 6)) // as before
  }

  test("a commit at or below `after` is neither new nor an error") {
    val commits = new RememberedCommits(after = 100)
    assert(!commits.accepts(90, 7, 0))
    assert(!commits.accepts(80, 8, 1))
    assert(!commits.accepts(100, 9, 2))
    assert(commits.accepts(101, 10, 3))
    assert(!commits.accepts(95, 11, 4))
    assert(!commits.isAfter(100) && commits.isAfter(101) && commits.isAfter(-1))
  }

  test("if the xid is not known, a repeated commit is recognized by its LSN alone") {
    val commits = new RememberedCommits(0)
    commits.accepts(100, 7, 0)
    commits.accepts(110, 8, 1)
    assert(commits.repeats(100, None))
    assert(commits.repeats(100, Some(7)))
    assert(!commits.repeats(100, Some(8)))
    assert(!commits.repeats(105, None))
  }

  test("any number of commits is remembered") {
    val commits = new RememberedCommits(0)
    val count = 20000
    (1 to count).foreach(i => commits.accepts(10L * i, i.toLong, i.toLong))
    (1 to count by 97).foreach { i =>
      assert(commits.repeats(10L * i, Some(i.toLong)))
      assert(!commits.repeats(10L * i, Some(i + 1L)))
      assert(!commits.repeats(10L * i + 1, None))
    }
  }

  test("a history continues from the greatest commit of another one") {
    val commits = new CommitHistory(0)
    commits.continueFrom(100)
    assert(!commits.accepts(100, 7, 0))
    assert(commits.accepts(101, 8, 1))
  }
}

class CommitListSuite extends PropertySuite {
  import CommitList.Entry

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

  test("a list returns its commits as often as asked") {
    forAll(entries) { all =>
      val added = list(all)
      assert(added.size == all.size)
      assert(added.iterator.toSeq == all)
      assert(added.iterator.toSeq == all)
      assert(CommitList.read(added.toBytes).toSeq == all)
    }
  }

  test("a list covers the LSNs from the first to the last, unsigned") {
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
    assert(added.toBytes.length < 6 * count)
  }
}
