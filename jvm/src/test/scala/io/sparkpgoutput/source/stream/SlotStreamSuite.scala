package io.sparkpgoutput.source.stream

import java.time.Duration

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.errors.SourceException

class SlotOffsetSuite extends AnyFunSuite {
  test("the text of an offset stays the same in all versions") {
    assert(SlotOffset(0x16b374d848L).json == """{"lsn":"16/B374D848"}""")
  }

  test("an offset is read from its text, also with other spaces and lowercase digits") {
    Seq("""{"lsn":"16/B374D848"}""", """ {"lsn" : "16/b374d848"} """).foreach { json =>
      assert(SlotOffset.of(json) == SlotOffset(0x16b374d848L))
    }
  }

  test("an offset of another source is an error") {
    Seq("{}", "7", """{"lsn":7}""", """{"lsn":"16"}""", """{"lsn":"1/2","seq":3}""").foreach {
      json =>
        val error = intercept[SourceException](SlotOffset.of(json))
        assert(error.getMessage.contains(json))
    }
  }
}

class FlushedEndSuite extends AnyFunSuite {
  final private val Page = 8192

  test("a batch ends at the flush LSN if that is inside a page") {
    assert(new FlushedEnd().of(100, Page + 1L, Page) == Page + 1)
  }

  test("a batch ends at a page boundary only after the server has flushed more") {
    val end = new FlushedEnd
    assert(end.of(100, 2L * Page, Page) == 100)
    assert(end.of(100, 2L * Page, Page) == 100) // nothing was flushed since
    assert(end.of(100, 3L * Page, Page) == 2 * Page)
    // The next batch asks again, and does not use an old boundary.
    assert(end.of(2L * Page, 9L * Page, Page) == 2 * Page)
    assert(end.of(2L * Page, 10L * Page, Page) == 9 * Page)
    assert(end.of(9L * Page, 10L * Page + 8, Page) == 10 * Page + 8)
  }

  test("a batch that begins at a page boundary can end at a later one") {
    val end = new FlushedEnd
    assert((1L to 4).map(page => end.of(Page, page * Page, Page) / Page) == Seq(1, 1, 2, 2))
  }
}

class BatchPaceSuite extends AnyFunSuite {
  private val long = Duration.ofHours(1)

  test("the first batch is due at once") {
    assert(new BatchPace(long).isDue(hadRows = false))
  }

  test("the next batch is due after the interval, or soon after a batch with rows") {
    val pace = new BatchPace(long)
    assert(pace.isDue(hadRows = true))
    pace.asked(System.nanoTime(), isBehind = false)
    assert(!pace.isDue(hadRows = true)) // Spark asks again after 10 ms
    Thread.sleep(150)
    assert(!pace.isDue(hadRows = false))
    assert(pace.isDue(hadRows = true))
  }

  test("a batch with rows makes no interval longer") {
    val pace = new BatchPace(Duration.ZERO)
    pace.asked(System.nanoTime(), isBehind = false)
    assert(pace.isDue(hadRows = true))
  }

  test("after a batch that reaches the limit of bytes, the next one is due at once") {
    val pace = new BatchPace(long)
    pace.asked(System.nanoTime(), isBehind = true)
    assert(pace.isDue(hadRows = false))
    pace.asked(System.nanoTime(), isBehind = false)
    assert(!pace.isDue(hadRows = false))
  }

  test("a batch is due at each trigger that is as long as the interval") {
    val interval = Duration.ofHours(1)
    val pace = new BatchPace(interval)
    def asked(before: Duration) =
      pace.asked(System.nanoTime() - before.toNanos, isBehind = false)
    asked(interval.minusMillis(20)) // a trigger is not exactly on time
    assert(pace.isDue(hadRows = false))
    asked(interval.minusMillis(500))
    assert(!pace.isDue(hadRows = false))
  }

  test("a batch is due when the interval is over") {
    val pace = new BatchPace(Duration.ZERO)
    pace.asked(System.nanoTime(), isBehind = false)
    assert(pace.isDue(hadRows = false))
  }
}
