package io.sparkpgoutput.changes.batch

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.transactions.CommitList
import io.sparkpgoutput.changes.{Positioned, StreamMessages}
import io.sparkpgoutput.errors.Errors.raised
import io.sparkpgoutput.protocol.Fields

class SegmentSummarizerSuite extends AnyFunSuite {
  import StreamMessages._

  private def summary(messages: Seq[Array[Byte]]): SegmentSummary =
    BatchChanges.summary(Positioned.all(messages))

  /** The events as short texts. A message is its tag and its position. */
  private def events(messages: Seq[Array[Byte]]): Seq[String] = summary(messages).events.map {
    case SummaryEvent.MessageEvent(position, message) => s"${message(0).toChar}$position"
    case changes: SummaryEvent.ChangesEvent => s"${changes.number} from ${changes.position}"
    case SummaryEvent.TransactionsEvent(commits) =>
      CommitList.read(commits).map(commit => s"${commit.xid}@${commit.lsn}").mkString(" ")
  }

  private def plain(xid: Long, lsn: Long, changes: Int = 1): Seq[Array[Byte]] =
    Seq(begin(xid, lsn), relation()) ++ Seq.fill(changes)(insert("a")) :+ commit(lsn)

  test("whole transactions are one event, with the last of each definition") {
    assert(
      events(plain(7, 100) ++ Seq(pgType(70000, "", "int4")) ++ plain(8, 110) ++ plain(9, 120)) ==
        Seq("7@100", "R1", "Y4", "8@110 9@120", "R10")
    )
    def numberOf(transactions: Int) =
      events((1 to transactions).flatMap(i => plain(i.toLong, 10L * i, changes = 3))).size
    assert(numberOf(1000) == numberOf(2))
  }

  test("changes, and logical messages without new information, add no events") {
    def streamed(changes: Int) = streamStart(7, first = true) +:
      Seq.fill(changes)(Seq(insert("a", 7), logicalMessage(transactional = true, 7))).flatten :+
      streamStop
    def begun(changes: Int) = Seq(begin(7, 100)) ++
      Seq.fill(changes)(Seq(insert("a"), logicalMessage(transactional = true))).flatten
    def unknown(changes: Int) =
      Seq.fill(changes)(Seq(insert("a"), logicalMessage(transactional = true))).flatten
    def prepared(changes: Int) = beginPrepare(7, "g") +: unknown(changes)
    def between(messages: Int) =
      streamStop +: Seq.fill(messages)(logicalMessage(transactional = false))
    Seq[Int => Seq[Array[Byte]]](streamed, begun, unknown, prepared, between).foreach { part =>
      assert(events(part(1000)).size == events(part(2)).size)
    }
  }

  test("a summary has a change only before a message that shows the phase") {
    def kept(messages: Array[Byte]*) = summary(messages).events.collect {
      case changes: SummaryEvent.ChangesEvent => changes.first != null
    }
    assert(kept(insert("a"), relation(), insert("a")) == Seq(true, true))
    Seq(streamStart(7, first = true), streamStop, begin(7, 100), beginPrepare(7, "g")).foreach(
      message => assert(kept(message, insert("a")) == Seq(false))
    )
  }

  test("a transaction that is not whole has an event for each of its parts") {
    val streamed = Seq(streamStart(7, first = true), insert("a", 7), insert("b", 71), streamStop)
    assert(
      events(streamed ++ plain(8, 100) ++ Seq(streamAbort(7, 71), streamCommit(7, 110))) ==
        Seq("S0", "2 from 1", "E3", "8@100", "R5", "A8", "c9")
    )
    assert(
      events(Seq(begin(7, 100), origin("o"), relation(), insert("a"))) ==
        Seq("B0", "R2", "O1", "1 from 3")
    )
    assert(
      events(Seq(insert("a"), commit(90)) ++ plain(7, 100) :+ begin(8, 110)) ==
        Seq("1 from 0", "C1", "7@100", "R3", "B6")
    )
    assert(events(Seq(insert("a")) ++ plain(7, 100)) == Seq("1 from 0", "7@100", "R2"))
  }

  test("a transaction that was cut off, is repeated, or has another commit is not whole") {
    assert(
      events(Seq(begin(7, 100), insert("a")) ++ plain(7, 100)) ==
        Seq("B0", "1 from 1", "7@100", "R3")
    )
    assert(
      events(plain(7, 100) ++ plain(7, 100)) == Seq("7@100", "R1", "B4", "R5", "1 from 6", "C7")
    )
    assert(events(Seq(begin(7, 100), commit(110))) == Seq("B0", "C1"))
    assert(
      events(Seq(begin(7, 100), logicalMessage(transactional = false), commit(100))) ==
        Seq("B0", "M1", "C2")
    )
  }

  test("a logical message that shows a cut counts after each place where a cut can be") {
    val cut = Seq(beginPrepare(7, "g"), insert("a"), logicalMessage(transactional = false))
    assert(events(cut ++ cut) == Seq("b0", "1 from 1", "M2", "b3", "1 from 4", "M5"))
    assert(
      events(logicalMessage(transactional = false) +: cut) == Seq("M0", "b1", "1 from 2", "M3")
    )
  }

  test("a summary has the fingerprint of its messages") {
    val messages = Positioned.all(plain(7, 100)).map(m => m.copy(position = 10 + 3 * m.position))
    val found = BatchChanges.summary(messages)
    assert(found.first == 10)
    assert(found.last == 19)
    assert(found.fingerprint.messages == 4)
    assert(BatchChanges.summary(messages).fingerprint == found.fingerprint)
    val others = Seq(
      messages.dropRight(1),
      messages.updated(2, Positioned(16, insert("b"))),
      messages.updated(2, messages(2).copy(position = 17)),
      messages.updated(
        2,
        messages(1).copy(position = 16)
      ).updated(1, messages(2).copy(position = 13))
    )
    others.foreach { other =>
      assert(BatchChanges.summary(other).fingerprint != found.fingerprint)
    }
  }

  test("malformed messages are errors with their position") {
    Seq("42 00", "43 01", "52 00 00 00 01").foreach { hex =>
      val messages = Seq(begin(7, 100), Fields.unhex(hex))
      val error = raised("PGOUTPUT_MALFORMED_MESSAGE") {
        new AssembledStream(Seq(summary(messages)), EarlierRelations(), BatchChanges.options)
      }
      assert(error.getMessage.contains("position 1: "), hex)
    }
  }
}
