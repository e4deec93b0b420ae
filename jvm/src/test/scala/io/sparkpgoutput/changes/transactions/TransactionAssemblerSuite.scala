package io.sparkpgoutput.changes.transactions

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.changes.rows.RelationDecoder
import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.errors.Errors.raised
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.{Fields, StreamContext, TextEncoding}

/** Runs the scenarios of `tests/support/transactions.py`, which describes their format. */
class TransactionAssemblerSuite extends AnyFunSuite {
  import StreamMessages._

  private def assembled(
      messages: Seq[Array[Byte]],
      after: Long = 0,
      skipIncomplete: Boolean = false
  ): TransactionTexts = {
    val stream = new TransactionTexts(after, skipIncomplete)
    messages.zipWithIndex.foreach { case (message, position) =>
      stream.assembler.message(position.toLong, message)
    }
    stream
  }

  private val mapper = new ObjectMapper
  Files.readAllLines(Path.of("tests/data/transactions.jsonl")).asScala.foreach { line =>
    val scenario = mapper.readTree(line)
    test(scenario.path("name").textValue)(run(scenario))
  }

  private def run(scenario: JsonNode): Unit = {
    def texts(member: String) = scenario.path(member).elements.asScala.map(_.textValue).toSeq
    def stream() = assembled(
      texts("messages").map(Fields.unhex),
      scenario.path("after").asLong(0),
      scenario.path("incomplete").asText("error") == "skip"
    )
    if (scenario.has("error")) {
      val error = intercept[PgOutputException](stream())
      assert(error.getCondition == scenario.path("error").textValue)
      assert(error.getMessage.contains(s"position ${scenario.path("position").asLong}: "))
    } else {
      val found = stream()
      assert(found.committed == texts("committed"))
      assert(found.open == texts("open"))
    }
  }

  /** The block of a stream with these inserts. */
  private def block(xid: Long, first: Boolean, values: String*): Seq[Array[Byte]] =
    streamStart(xid, first) +: values.map(insert(_, xid)) :+ streamStop

  private def plain(xid: Long, lsn: Long, values: String*): Seq[Array[Byte]] =
    begin(xid, lsn) +: values.map(insert(_)) :+ commit(lsn)

  private def prepared(xid: Long, gid: String, values: String*): Seq[Array[Byte]] =
    beginPrepare(xid, gid) +: values.map(insert(_)) :+ prepare(xid, gid)

  private def namesAt(messages: Array[Byte]*): Seq[String] = {
    val reader = new RelationDecoder(TextEncoding.Utf8)
    var found = Vector.empty[String]
    lazy val assembler: TransactionAssembler =
      new TransactionAssembler(
        AssemblerOptions(0, skipIncomplete = false, TextEncoding.Utf8),
        AssemblerState(),
        new RememberedCommits(0),
        new TransactionHandler {
          override def begin(transaction: Transaction): Unit = ()
          override def change(t: Transaction, position: Long, message: Array[Byte], c: Int): Unit =
            found :+= Option(assembler.known.relation(
              t,
              Table
            )).fold("none")(reader.relation(_).name.name)
          override def commit(transaction: Transaction, commit: Commit): Unit = ()
          override def drop(transaction: Transaction): Unit = ()
        }
      )
    messages.zipWithIndex.foreach { case (message, position) =>
      assembler.message(position.toLong, message)
    }
    found
  }

  private def named(name: String, xid: Long = 0) = relation(name = name, xid = xid)
  private def change(xid: Long = 0) = insert("x", xid)

  test("the Relation message that was sent last is valid") {
    val names = namesAt(
      begin(7, 100),
      change(),
      named("a"),
      change(),
      named("b"),
      change(),
      commit(100),
      begin(8, 110),
      change()
    )
    assert(names == Seq("none", "a", "b", "b"))
  }

  test("a Relation message in a stream block is valid for all transactions after the commit") {
    val names = namesAt(
      Seq(begin(6, 100), named("a"), change(), commit(100)) ++
        Seq(streamStart(7, first = true), change(7), named("b", 7), change(71), streamStop) ++
        Seq(streamStart(8, first = true), change(8), streamStop) ++
        Seq(begin(9, 110), change(), commit(110), streamStart(7), change(7), streamStop) ++
        Seq(streamCommit(7, 120), begin(10, 130), change(), commit(130)): _*
    )
    assert(names == Seq("a", "a", "b", "a", "a", "b", "b"))
  }

  test("a later Relation message outside of the block stays valid after the commit") {
    val names = namesAt(
      Seq(streamStart(7, first = true), named("a", 7), streamStop) ++
        Seq(
          begin(8, 100),
          named("b"),
          commit(100),
          streamCommit(7, 110),
          begin(9, 120),
          change()
        ): _*
    )
    assert(names == Seq("b"))
  }

  test("a rolled back or prepared transaction leaves the Relation messages of its blocks") {
    Seq(streamAbort(7, 7), streamPrepare(7, "g")).foreach { end =>
      val names = namesAt(
        Seq(begin(6, 100), named("a"), commit(100), streamStart(7, first = true), named("b", 7)) ++
          Seq(streamStop, end, begin(8, 110), change()): _*
      )
      assert(names == Seq("a"))
    }
  }

  test("a Relation message of a rolled back subtransaction is valid for the transaction") {
    val names = namesAt(
      Seq(
        streamStart(7, first = true),
        named("a", 71),
        change(71),
        streamStop,
        streamAbort(7, 71)
      ) ++
        Seq(
          streamStart(7),
          change(7),
          streamStop,
          streamCommit(7, 100),
          begin(8, 110),
          change()
        ): _*
    )
    assert(names == Seq("a", "a", "a"))
  }

  test("the Relation messages of a cut off or repeated transaction are valid") {
    val names = namesAt(
      Seq(begin(7, 100), named("a"), commit(100), begin(8, 110), named("b")) ++
        Seq(begin(8, 110), change(), commit(110), begin(7, 100), named("c"), commit(100)) ++
        Seq(begin(9, 120), change()): _*
    )
    assert(names == Seq("b", "c"))
  }

  test("a state continues where it was taken, and later messages do not change it") {
    val messages = block(7, true, "a") ++ prepared(8, "g", "b") ++ plain(9, 100, "c") ++
      Seq(streamStart(7), insert("d", 71))
    val rest = Seq(insert("e", 7), streamStop, streamAbort(7, 71), streamPrepare(7, "h"))
    def goOn(stream: TransactionTexts): Unit = {
      rest.zipWithIndex.foreach { case (message, index) =>
        stream.assembler.message(messages.size.toLong + index, message)
      }
      assert(stream.open == Seq("7 prepared 0 3", "8 prepared 3 1"))
      assert(stream.assembler.state.greatestCommit == 100)
    }
    val stream = assembled(messages)
    val state = stream.assembler.state
    goOn(stream)
    assert(state.openTransactions.map(_.state) == Seq("streaming", "prepared"))
    assert(state.openTransactions.map(_.transaction.changes) == Seq(2L, 1L))
    val again = new TransactionTexts(start = state)
    state.openTransactions.foreach(open => again.begin(open.transaction)) // to collect its changes
    goOn(again)
  }

  test("a malformed message is an error with its position and the decoder's text") {
    Seq("42 00", "43 01", "52 00 00 40", "53 00", "ff").foreach { hex =>
      val error =
        raised("PGOUTPUT_MALFORMED_MESSAGE")(assembled(plain(7, 100) :+ Fields.unhex(hex)))
      assert(error.getMessage.contains("position 2: "), hex)
      val decoder = new MessageDecoder(TextEncoding.Utf8)
      val text = decoder.errorOrNull(Fields.unhex(hex), StreamContext.OUTSIDE).toString
      assert(error.getMessage.contains(text), hex)
    }
  }

  test("a Truncate takes as many ordinals as it names tables, or more") {
    Seq(Seq(1L), Seq(1L, 2L), Seq(1L, 2L, 3L, 4L, 5L, 6L, 7L)).foreach { oids =>
      assert(TransactionAssembler.ordinals(truncate(oids)) >= oids.size)
      assert(TransactionAssembler.ordinals(truncate(oids, xid = 7)) >= oids.size)
    }
    assert(TransactionAssembler.ordinals(update(Seq("a"), key = Seq("b"))) == 2)
  }
}
