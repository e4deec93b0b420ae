package io.sparkpgoutput.source.slot

import org.scalatest.funsuite.AnyFunSuite

import Slots.{failure, lsn}

class TimelineHistorySuite extends AnyFunSuite {

  private val content =
    """1	16/A0000000	no recovery target specified
      |
      |# a comment
      |2	16/B0000000	before 2026-11-22 06:00:00+00
      |  4  16/C0000000
      |""".stripMargin

  private def accepted(
      history: Map[Int, Long],
      kept: Seq[Int],
      start: String,
      end: Option[String] = None
  ) = {
    var timelines = Seq.empty[Int]
    val failed = failure {
      timelines = TimelineHistory(5, history).continued(kept, lsn(start), end.map(lsn))
    }
    failed.toLeft(timelines)
  }

  test("a history file has the LSN at which the server left each earlier timeline") {
    val switches =
      Map(1 -> lsn("16/A0000000"), 2 -> lsn("16/B0000000"), 4 -> lsn("16/C0000000"))
    assert(TimelineHistory.parse(content) == switches)
    assert(TimelineHistory.parse("").isEmpty)
  }

  test("a new timeline is accepted if nothing that was read is above the switch") {
    val history = TimelineHistory.parse(content)
    assert(accepted(history, Seq(4), "16/C0000000") == Right(Seq(4, 5)))
    assert(accepted(history, Seq(1, 2), "16/B0000000") == Right(Seq(1, 2, 5)))
    // There were several failovers, each after all that was read.
    assert(accepted(history, Seq(1), "16/90000000") == Right(Seq(1, 5)))
  }

  test("a batch goes on after a promotion only if both timelines have all of it") {
    val history = TimelineHistory.parse(content)
    assert(accepted(history, Seq(4), "16/B0000000", Some("16/C0000000")) == Right(Seq(4, 5)))
    val (condition, text) =
      accepted(history, Seq(4), "16/B0000000", Some("16/C0000001")).swap.toOption.get
    assert(condition == "PGOUTPUT_TIMELINE" && text.contains("Start the query again."), text)
  }

  test("a timeline that lacks what was read is an error") {
    val history = TimelineHistory.parse(content)
    Seq(Seq(4) -> "16/C0000001", Seq(1) -> "16/A0000001", Seq(3) -> "16/1").foreach {
      case (kept, start) =>
        val (condition, text) = accepted(history, kept, start).swap.toOption.get
        assert(condition == "PGOUTPUT_TIMELINE")
        assert(text.contains(s"The server is on timeline 5") && text.contains(start), text)
    }
  }
}
