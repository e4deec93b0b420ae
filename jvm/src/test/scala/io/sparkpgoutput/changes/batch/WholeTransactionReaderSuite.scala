package io.sparkpgoutput.changes.batch

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.StreamMessages._
import io.sparkpgoutput.changes.{Captures, Positioned}
import io.sparkpgoutput.errors.Errors.raised

class WholeTransactionReaderSuite extends AnyFunSuite {
  private val format = BatchChanges.format().copy(failFast = false)

  private def read(messages: Seq[Array[Byte]]): Seq[UnsafeRow] = {
    val reader = new WholeTransactionReader(format)
    val rows = messages.flatMap(message => reader.message(message).map(_.copy()).toSeq)
    rows
  }

  private val unstreamed = Captures.names.filter(name =>
    name.contains("stream_off") && !name.contains("2pc")
  )

  test("there are captures without streaming") {
    assert(unstreamed.nonEmpty)
  }

  unstreamed.foreach { name =>
    test(s"$name gives the rows of the batch reader") {
      val messages = Captures.messages(name)
      val expected = BatchChanges.whole(messages, format = format).rows
      assert(expected.nonEmpty)
      val found = read(messages.map(_.bytes))
      if (found != expected) {
        assert(BatchChanges.text(found, format) == BatchChanges.text(expected, format))
      }
    }
  }

  test("origins, logical messages, empty messages and a Stream Abort can be between changes") {
    val messages = Seq(
      logicalMessage(transactional = false),
      begin(7, 100),
      origin("far"),
      relation(),
      insert("a"),
      Array.emptyByteArray,
      logicalMessage(transactional = true),
      truncate(Seq(Table)),
      commit(100),
      streamAbort(9, 9),
      begin(8, 110),
      insert("b"),
      commit(110)
    )
    val expected = BatchChanges.whole(Positioned.all(messages), format = format)
    assert(BatchChanges.text(read(messages), format) == BatchChanges.text(expected.rows, format))
    assert(expected.rows.length == 3)
  }

  test("what is not a whole transaction is an error that names the message") {
    val (start, change) = (begin(7, 100), insert("a"))
    Seq(
      Seq(change),
      Seq(commit(100)),
      Seq(origin("far")),
      Seq(start, begin(8, 110)),
      Seq(start, commit(110)),
      Seq(streamStart(7, first = true)),
      Seq(beginPrepare(7, "gid"))
    ).foreach { messages =>
      val error = raised("PGOUTPUT_INCOMPLETE_TRANSACTION")(read(messages))
      assert(error.getMessage.contains(s"message ${messages.length - 1}: "))
    }
    raised("PGOUTPUT_COMMIT_WENT_BACK")(read(Seq(start, commit(100), begin(8, 90))))
    raised("PGOUTPUT_UNKNOWN_RELATION")(read(Seq(start, change)))
    raised("PGOUTPUT_MALFORMED_MESSAGE")(read(Seq(Array[Byte]('?'))))
  }
}
