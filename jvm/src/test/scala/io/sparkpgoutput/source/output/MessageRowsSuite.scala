package io.sparkpgoutput.source.output

import org.apache.spark.sql.catalyst.InternalRow

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.Captures
import io.sparkpgoutput.changes.StreamMessages._
import io.sparkpgoutput.changes.batch.{BatchChanges, WholeTransactionReader}
import io.sparkpgoutput.changes.rows.ChangeSchema
import io.sparkpgoutput.errors.Errors.raised
import io.sparkpgoutput.protocol.MessageType

class MessageRowsSuite extends AnyFunSuite {
  private val all = MessageFields.schema.indices

  /** The rows of each batch. The server sends the messages of all batches in one session. */
  private def read(batches: Seq[Seq[Array[Byte]]]): Seq[Seq[InternalRow]] = {
    val rows = new MessageRows(all)
    batches.map { messages =>
      rows.startBatch()
      messages.flatMap(message => rows.message(message).toSeq)
    }
  }

  private def data(row: InternalRow) = row.getBinary(MessageFields.DATA)

  /** The types of the messages, each as one letter. */
  private def types(rows: Seq[InternalRow]): String =
    rows.map(row => MessageType.of(data(row)(0)).tag).mkString

  test("each batch has the Relation message before the first change of its table") {
    val one = Seq(begin(7, 100), relation(), insert("a"), insert("b"), commit(100))
    val two = Seq(begin(8, 110), insert("c"), commit(110), begin(9, 120), insert("d"), commit(120))
    val batches = read(Seq(one, two))
    assert(batches.map(types) == Seq("BRIIC", "BRICBIC"))
    val ordinals = batches(1).map(row => (row.getLong(MessageFields.LSN), row.getLong(1)))
    assert(
      ordinals == Seq(
        110L -> 0L,
        110L -> 1L,
        110L -> 2L,
        110L -> 3L,
        120L -> 0L,
        120L -> 1L,
        120L -> 2L
      )
    )
    assert(batches(1).map(_.getLong(MessageFields.XID)).distinct == Seq(8L, 9L))
  }

  test("a Relation message is left out if it is the same as the last one of its table") {
    val messages = Seq(
      begin(7, 100),
      relation(),
      insert("a"),
      relation(),
      insert("b"),
      relation(columns = Seq(Column("other"))),
      insert("c"),
      truncate(Seq(Table)),
      commit(100)
    )
    assert(read(Seq(messages)).map(types) == Seq("BRIIRITC"))
  }

  test("a Stream Abort outside of a stream is left out") {
    val messages = Seq(begin(7, 100), commit(100), streamAbort(9, 9))
    assert(read(Seq(messages)).map(types) == Seq("BC"))
  }

  test("a message that is too short is an error") {
    Seq(begin(7, 100).take(12), insert("a").take(3), Array.emptyByteArray).foreach { message =>
      raised("PGOUTPUT_MALFORMED_MESSAGE")(read(Seq(Seq(begin(6, 90), message))))
    }
  }

  /** A format without the position of the message, which depends on how the messages are split. */
  private val format = {
    val all = BatchChanges.format()
    all.copy(
      requiredFields = all.requiredFields.filterNot(_ == ChangeSchema.POSITION),
      failFast = false
    )
  }

  private val unstreamed = Captures.names.filter(name =>
    name.contains("stream_off") && !name.contains("2pc")
  )

  test("any batch of a capture can be read by itself, with the same rows") {
    assert(unstreamed.nonEmpty)
    unstreamed.foreach { name =>
      val transactions = Captures
        .messages(name)
        .map(_.bytes)
        .foldLeft(Vector(Vector.empty[Array[Byte]])) { (found, message) =>
          val last = found.init :+ (found.last :+ message)
          if (message.nonEmpty && message(0) == MessageType.Tag.Commit) last :+ Vector.empty
          else last
        }
      def changes(batches: Seq[Seq[Array[Byte]]]) = batches.flatMap { messages =>
        val reader = new WholeTransactionReader(format)
        messages.flatMap(message => reader.message(message).map(_.copy()).toSeq)
      }
      val whole = changes(Seq(transactions.flatten))
      val split = read(transactions.grouped(3).map(_.flatten).toSeq).map(_.map(data))
      assert(whole.nonEmpty)
      assert(changes(split) == whole, name)
    }
  }
}
