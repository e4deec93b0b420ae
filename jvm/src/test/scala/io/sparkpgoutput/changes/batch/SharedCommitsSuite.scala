package io.sparkpgoutput.changes.batch

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.transactions.CommitList.Entry

class SharedCommitsSuite extends AnyFunSuite {
  private def exist(streams: Seq[Long]*): Boolean =
    SharedCommits.exist(streams.map(_.iterator.map(lsn => Entry(lsn, xid = 1, position = 0))))

  test("two of any number of streams share a commit") {
    assert(!exist())
    assert(!exist(Seq(1, 2)))
    assert(!exist(Seq(1, 4), Nil, Seq(2, 3), Seq(5)))
    assert(exist(Seq(1, 4), Seq(2, 3), Seq(4)))
    assert(exist(Seq(1), Seq(1)))
    assert(exist(Seq(1, 5, 9), Seq(2, 6), Seq(3, 9, 10)))
  }

  test("LSNs are compared unsigned") {
    assert(exist(Seq(1, Long.MaxValue, -2), Seq(Long.MinValue, -2)))
    assert(!exist(Seq(1, -3), Seq(-2)))
  }
}
