package io.sparkpgoutput.source.stream

import org.scalatest.funsuite.AnyFunSuite

class FlushedEndSuite extends AnyFunSuite {
  final private val Page = 8192

  test("an end inside a page is read up to") {
    assert(new FlushedEnd().of(100, Page + 1L, Page) == Page + 1)
  }

  test("a page boundary is read up to when the server has flushed more") {
    val end = new FlushedEnd
    assert(end.of(100, 2L * Page, Page) == 100)
    assert(end.of(100, 2L * Page, Page) == 100) // nothing was flushed since
    assert(end.of(100, 3L * Page, Page) == 2 * Page)
    // The next batch looks anew, and does not take a boundary from long ago.
    assert(end.of(2L * Page, 9L * Page, Page) == 2 * Page)
    assert(end.of(2L * Page, 10L * Page, Page) == 9 * Page)
    assert(end.of(9L * Page, 10L * Page + 8, Page) == 10 * Page + 8)
  }

  test("a batch that begins on a page boundary gets the next one") {
    val end = new FlushedEnd
    assert((1L to 4).map(page => end.of(Page, page * Page, Page) / Page) == Seq(1, 1, 2, 2))
  }
}
