package io.sparkpgoutput.changes.streaming

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.errors.Errors.raised

class StoredCommitsSuite extends AnyFunSuite {
  private val Remembered = 100000

  /** Commits with the LSNs 10, 20, ... and the xids 1, 2, ... */
  private class Commits(number: Int) {
    val xids = new KeptInMemory[Long, Long]
    val lsns = new KeptInMemory[Int, Long]
    var commits: StoredCommits = stored(seen = 0)

    for (xid <- 1 to number) assert(commits.accepts(xid * 10L, xid.toLong, position = 0))

    def stored(seen: Long): StoredCommits = new StoredCommits(after = 0, xids, lsns, seen)

    def isRepeat(lsn: Long, xid: Long): Boolean = commits.repeats(lsn, Some(xid))
  }

  test("all of a few commits are remembered") {
    val some = new Commits(3)
    assert(some.isRepeat(10, 1) && some.isRepeat(30, 3))
    assert(!some.isRepeat(10, 2) && !some.isRepeat(15, 1) && !some.isRepeat(5, 1))
    assert(some.commits.repeats(10, None))
    assert(!some.commits.accepts(20, 2, position = 0))
    raised("PGOUTPUT_COMMIT_WENT_BACK")(some.commits.accepts(20, 3, position = 0))
    raised("PGOUTPUT_COMMIT_WENT_BACK")(some.commits.accepts(5, 1, position = 0))
  }

  test("only the newest commits are remembered") {
    val some = new Commits(Remembered)
    assert(some.isRepeat(10, 1))
    assert(!some.isRepeat(5, 1), "nothing is older than the first")

    assert(some.commits.accepts(Remembered * 10L + 10, 7, position = 0))
    assert(some.xids.kept.size == Remembered && some.lsns.kept.size == Remembered)
    assert(some.isRepeat(10, 99), "what is older passes as a repeat, whatever it is")
    assert(some.isRepeat(20, 2) && !some.isRepeat(20, 3) && !some.isRepeat(25, 3))
  }

  test("the ring goes around several times, and continues in the next micro-batch") {
    val some = new Commits(0)
    val count = Remembered * 2 + 5
    for (xid <- 1 to count) {
      if (xid % 30000 == 0) {
        val before = some.commits
        some.commits = some.stored(before.count)
        some.commits.continueFrom(before.greatest)
      }
      assert(some.commits.accepts(xid * 10L, xid.toLong, position = 0))
    }
    assert(some.commits.count == count)
    assert(some.xids.kept.keys.min == (count - Remembered + 1) * 10L)
    assert(some.xids.kept.size == Remembered && some.lsns.kept.size == Remembered)
    val oldest = count - Remembered + 1
    assert(some.isRepeat(oldest * 10L, oldest.toLong) && !some.isRepeat(oldest * 10L, 1))
    assert(some.isRepeat(oldest * 10L - 10, 1), "older")
  }

  test("LSNs are compared unsigned") {
    val some = new Commits(0)
    val first = Long.MaxValue - Remembered / 2
    for (number <- 0 to Remembered) assert(some.commits.accepts(first + number, 1, position = 0))
    assert(some.isRepeat(first, 99) && some.isRepeat(first + 1, 1) && !some.isRepeat(first + 1, 2))
    assert(!some.isRepeat(first + Remembered + 1, 1))
  }
}
