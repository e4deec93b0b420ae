package io.sparkpgoutput.changes.transactions

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.StreamMessages
import io.sparkpgoutput.changes.rows.RelationDecoder
import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.errors.{
  CommitWentBackException,
  IncompleteTransactionException,
  MalformedMessageException,
  PgOutputException
}
import io.sparkpgoutput.protocol.{Fields, StreamContext, TextEncoding}

class TransactionAssemblerSuite extends AnyFunSuite {
  import StreamMessages._

  private def follow(
      messages: Seq[Array[Byte]],
      after: Long = 0,
      skipIncomplete: Boolean = false
  ): AssembledStream = {
    val followed = new AssembledStream(after, skipIncomplete)
    messages.zipWithIndex.foreach { case (message, position) =>
      followed.assembler.message(position.toLong, message)
    }
    followed
  }

  /** A test of what becomes of transactions: first the committed, then the open ones. */
  private def follows(name: String, after: Long = 0, skipIncomplete: Boolean = false)(
      messages: Array[Byte]*
  )(expected: String*): Unit = test(name) {
    val followed = follow(messages, after, skipIncomplete)
    assert(followed.committed ++ followed.open == expected)
  }

  private def fails[E <: PgOutputException: reflect.ClassTag](name: String, after: Long = 0)(
      messages: Array[Byte]*
  )(texts: String*): Unit = test(name) {
    val error = intercept[PgOutputException](follow(messages, after))
    assert(implicitly[reflect.ClassTag[E]].runtimeClass == error.getClass)
    texts.foreach(text => assert(error.getMessage.contains(text)))
  }

  /** The block of a stream with these inserts. */
  private def block(xid: Long, first: Boolean, values: String*): Seq[Array[Byte]] =
    streamStart(xid, first) +: values.map(insert(_, xid)) :+ streamStop

  private def plain(xid: Long, lsn: Long, values: String*): Seq[Array[Byte]] =
    begin(xid, lsn) +: values.map(insert(_)) :+ commit(lsn)

  private def prepared(xid: Long, gid: String, values: String*): Seq[Array[Byte]] =
    beginPrepare(xid, gid) +: values.map(insert(_)) :+ prepare(xid, gid)

  // Which changes come out.

  follows("changes from Begin to Commit")(plain(7, 100, "a", "b") ++ plain(8, 110, "c"): _*)(
    "7@100: a b",
    "8@110: c"
  )

  follows("the blocks of a streamed transaction, at its commit, among others")(
    block(7, true, "a") ++ block(8, true, "b") ++ plain(9, 100, "c") ++ block(7, false, "d") ++
      Seq(streamCommit(8, 110)) ++ block(7, false, "e") ++ Seq(streamCommit(7, 120)): _*
  )("9@100: c", "8@110: b", "7@120: a d e")

  follows("a streamed transaction without those of its subtransactions that were rolled back")(
    streamStart(7, first = true),
    insert("a", 7),
    insert("b", 71),
    insert("c", 72),
    streamStop,
    streamAbort(7, 71),
    streamStart(7),
    insert("d", 73),
    insert("e", 74),
    streamStop,
    streamAbort(7, 73),
    streamCommit(7, 100)
  )("7@100: a c e")

  follows("another transaction's subtransaction of the same xid is not rolled back")(
    block(7, true, "a") ++ block(8, true, "b") ++
      Seq(streamAbort(8, 7), streamCommit(7, 100), streamCommit(8, 110)): _*
  )("7@100: a", "8@110: b")

  follows("a streamed transaction that was rolled back as a whole")(
    block(7, true, "a") ++ Seq(streamAbort(7, 7)) ++ plain(8, 100, "b"): _*
  )("8@100: b")

  follows("empty stream blocks")(
    block(7, true) ++ block(7, false) ++ block(7, false, "a") ++ Seq(streamCommit(7, 100)): _*
  )("7@100: a")

  follows("a prepared transaction, at its decision")(
    prepared(7, "g", "a") ++ prepared(8, "h", "b") ++ plain(9, 100, "c") ++
      Seq(commitPrepared(8, "h", 110), rollbackPrepared(7, "g")): _*
  )("9@100: c", "8@110 h: b")

  follows("a streamed and prepared transaction, at its decision")(
    block(7, true, "a") ++ Seq(streamAbort(7, 71)) ++ block(7, false, "b") ++
      Seq(streamPrepare(7, "g")) ++ plain(9, 100, "c") ++ Seq(commitPrepared(7, "g", 110)): _*
  )("9@100: c", "7@110 g: a b")

  follows("prepared transactions are known by xid and gid")(
    prepared(7, "g", "a") ++ Seq(rollbackPrepared(7, "g")) ++ prepared(8, "g", "b") ++
      Seq(rollbackPrepared(7, "g"), rollbackPrepared(8, "h"), commitPrepared(8, "g", 100)): _*
  )("8@100 g: b")

  follows("an empty transaction, prepared or not")(
    prepared(7, "g") ++ Seq(commitPrepared(7, "g", 100)) ++ plain(8, 110): _*
  )("7@100 g:", "8@110:")

  follows("logical messages and those of zero bytes are no changes, wherever they stand")(
    logicalMessage(transactional = false),
    begin(7, 100),
    Array.emptyByteArray,
    logicalMessage(transactional = true),
    insert("a"),
    commit(100),
    logicalMessage(transactional = false),
    streamStart(8, first = true),
    Array.emptyByteArray,
    logicalMessage(transactional = true, 8),
    insert("b", 8),
    streamStop,
    logicalMessage(transactional = false),
    streamCommit(8, 110)
  )("7@100: a", "8@110: b")

  // Seams.

  private val streaming = "5 streaming 0 1"
  private val isPrepared = "6 prepared 3 1"

  /** These two are open where the stream is cut off. */
  private val before = block(5, true, "s") ++ prepared(6, "p", "p")

  /** What may stand behind such a place, what is then committed, and which of the two stay open. */
  private val afterCut: Seq[(String, Seq[Array[Byte]], Seq[String])] = Seq(
    ("Begin", plain(9, 110, "z"), Seq("9@110: z", streaming, isPrepared)),
    (
      "Stream Start",
      block(9, true, "z") :+ streamCommit(9, 110),
      Seq("9@110: z", streaming, isPrepared)
    ),
    ("Stream Stop", Seq(streamStop), Seq(streaming, isPrepared)),
    ("Stream Commit", Seq(streamCommit(5, 110)), Seq("5@110: s", isPrepared)),
    ("Stream Abort", Seq(streamAbort(5, 5)), Seq(isPrepared)),
    (
      "Stream Prepare",
      Seq(streamPrepare(5, "s"), commitPrepared(5, "s", 110)),
      Seq("5@110 s: s", isPrepared)
    ),
    (
      "Begin Prepare",
      prepared(9, "h", "z") :+ commitPrepared(9, "h", 110),
      Seq("9@110 h: z", streaming, isPrepared)
    ),
    ("Commit Prepared", Seq(commitPrepared(6, "p", 110)), Seq("6@110 p: p", streaming)),
    ("Rollback Prepared", Seq(rollbackPrepared(6, "p")), Seq(streaming)),
    (
      "a non-transactional Message",
      Seq(logicalMessage(transactional = false)),
      Seq(streaming, isPrepared)
    )
  )

  afterCut.foreach { case (name, messages, outcome) =>
    follows(s"$name ends Begin..Commit that was cut off")(
      before ++ Seq(begin(7, 100), insert("a")) ++ messages: _*
    )(outcome: _*)

    follows(s"$name ends Begin Prepare..Prepare that was cut off")(
      before ++ Seq(beginPrepare(7, "g"), insert("a")) ++ messages: _*
    )(outcome: _*)

    follows(s"$name ends a stream block that was cut off, and its transaction stays open")(
      before ++ Seq(streamStart(7, first = true), insert("a", 7)) ++ messages: _*
    )(outcome :+ "7 streaming 6 1": _*)
  }

  test("a change behind what ends it is of no transaction") {
    for {
      first <- Seq(begin(7, 100), beginPrepare(7, "g"), streamStart(7, first = true))
      (name, messages, _) <- afterCut
    } {
      val cut = before ++ Seq(first) ++ messages
      val error = intercept[IncompleteTransactionException](follow(cut :+ insert("a", 7)))
      assert(error.getMessage.contains(s"position ${cut.size}: "), name)
    }
  }

  follows("Commit and Prepare of others end what was cut off", skipIncomplete = true)(
    begin(7, 100),
    insert("a"),
    commit(110), // another's
    beginPrepare(8, "g"),
    insert("b"),
    commit(120),
    prepare(8, "g"),
    beginPrepare(9, "h"),
    insert("c"),
    prepare(9, "i"),
    prepare(9, "h"),
    streamStart(10, first = true),
    prepare(9, "h"),
    streamStart(11, first = true),
    commit(130)
  )("10 streaming 11 0", "11 streaming 13 0")

  follows("a streamed transaction that was cut off goes on behind other transactions")(
    Seq(streamStart(7, first = true), insert("a", 7)) ++ plain(8, 100, "b") ++
      block(7, false, "c") ++ Seq(streamCommit(7, 110)): _*
  )("8@100: b", "7@110: a c")

  follows("a transaction that is streamed again from its first block replaces what it had")(
    Seq(streamStart(7, first = true), insert("a", 7), insert("b", 71), streamStop) ++
      Seq(streamAbort(7, 71), streamStart(7), insert("c", 7)) ++
      Seq(streamStart(7, first = true), insert("a", 7), insert("b", 71), streamStop) ++
      Seq(streamCommit(7, 100)): _*
  )("7@100: a b")

  follows("a streamed transaction that comes back from Begin to Commit, or to Prepare")(
    block(7, true, "a") ++ plain(7, 100, "b") ++ block(8, true, "c") ++ prepared(8, "g", "d") ++
      Seq(commitPrepared(8, "g", 110)): _*
  )("7@100: b", "8@110 g: d")

  follows("a prepared transaction that comes back from Begin to Commit")(
    prepared(7, "g", "a") ++ plain(7, 100, "b"): _*
  )("7@100: b")

  follows("a second Begin or Begin Prepare of an xid replaces the first")(
    Seq(begin(7, 100), insert("a")) ++ plain(7, 100, "b") ++
      Seq(beginPrepare(8, "g"), insert("c")) ++ prepared(8, "g", "d") ++
      Seq(commitPrepared(8, "g", 110)): _*
  )("7@100: b", "8@110 g: d")

  follows("a transaction that is prepared again replaces the first")(
    prepared(7, "g", "a") ++ prepared(7, "g", "b") ++ block(8, true, "c") ++
      Seq(streamPrepare(8, "h")) ++ block(8, true, "d") ++ Seq(streamPrepare(8, "h")) ++
      Seq(commitPrepared(8, "h", 100), commitPrepared(7, "g", 110)): _*
  )("8@100 h: d", "7@110 g: b")

  follows("a transaction that was cut off while it was prepared again is still the first")(
    prepared(7, "g", "a") ++ Seq(beginPrepare(7, "g"), insert("b")) ++
      Seq(commitPrepared(7, "g", 100)): _*
  )("7@100 g: a")

  follows("what commits a second time is left out")(
    plain(7, 100, "a") ++ plain(8, 110, "b") ++ plain(7, 100, "a") ++ plain(8, 110, "b") ++
      block(9, true, "c") ++ Seq(streamCommit(9, 120)) ++ block(9, true, "c") ++
      Seq(streamCommit(9, 120)) ++ prepared(10, "g", "d") ++ Seq(commitPrepared(10, "g", 130)) ++
      prepared(10, "g", "d") ++ Seq(commitPrepared(10, "g", 130)) ++ plain(11, 140, "e"): _*
  )("7@100: a", "8@110: b", "9@120: c", "10@130 g: d", "11@140: e")

  follows("Commit Prepared alone repeats one that was seen")(
    prepared(7, "g", "a") ++ Seq(commitPrepared(7, "g", 100), commitPrepared(7, "g", 100)): _*
  )("7@100 g: a")

  follows("Stream Commit and Commit alone repeat those that were seen")(
    block(7, true, "a") ++ Seq(streamCommit(7, 100), streamCommit(7, 100)) ++ plain(8, 110, "b") ++
      Seq(commit(110)): _*
  )("7@100: a", "8@110: b")

  follows("LSNs are unsigned", after = Long.MaxValue)(
    plain(6, Long.MaxValue, "a") ++ plain(7, Long.MinValue, "b") ++ plain(8, -1, "c") ++
      plain(7, Long.MinValue, "b"): _*
  )(s"7@${Long.MinValue}: b", "8@-1: c")

  fails[CommitWentBackException]("a commit that goes back and repeats none")(
    plain(7, 100) ++ plain(8, 120) ++ plain(9, 110): _*
  )("position 5", "another timeline or slot?", "xid 9", "0/6E")

  fails[CommitWentBackException]("a commit at the LSN of another")(
    plain(7, 100) ++ plain(8, 100): _*
  )("position 3", "xid 8")

  fails[CommitWentBackException]("a streamed commit that goes back")(
    plain(7, 100) ++ block(8, true) ++ Seq(streamCommit(8, 90)): _*
  )("position 4", "xid 8")

  fails[CommitWentBackException]("a prepared commit that goes back")(
    plain(7, 100) ++ prepared(8, "g") ++ Seq(commitPrepared(8, "g", 90)): _*
  )("position 4", "xid 8")

  follows("Prepare is not compared with commits")(
    plain(7, 100, "a") ++ prepared(8, "g", "b") ++ Seq(commitPrepared(8, "g", 110)): _*
  )("7@100: a", "8@110 g: b")

  // Relations.

  private def namesAt(messages: Array[Byte]*): Seq[String] = {
    val reader = new RelationDecoder(TextEncoding.Utf8)
    var found = Vector.empty[String]
    lazy val assembler: TransactionAssembler =
      AssemblerOptions(0, skipIncomplete = false, TextEncoding.Utf8).assembler(
        AssemblerState(),
        new RememberedCommits(0),
        new TransactionHandler {
          override def begin(transaction: Transaction): Unit = ()
          override def change(t: Transaction, position: Long, message: Array[Byte], c: Int): Unit =
            found :+= Option(assembler.relation(
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

  test("a relation is the one sent last") {
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

  test("one sent in a stream block holds for its transaction, and at its commit for all") {
    val names = namesAt(
      Seq(begin(6, 100), named("a"), change(), commit(100)) ++
        Seq(streamStart(7, first = true), change(7), named("b", 7), change(71), streamStop) ++
        Seq(streamStart(8, first = true), change(8), streamStop) ++
        Seq(begin(9, 110), change(), commit(110), streamStart(7), change(7), streamStop) ++
        Seq(streamCommit(7, 120), begin(10, 130), change(), commit(130)): _*
    )
    assert(names == Seq("a", "a", "b", "a", "a", "b", "b"))
  }

  test("one sent outside later than in the block holds behind the commit") {
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

  test("one sent in the block of a transaction that is rolled back or prepared does not hold") {
    Seq(streamAbort(7, 7), streamPrepare(7, "g")).foreach { end =>
      val names = namesAt(
        Seq(begin(6, 100), named("a"), commit(100), streamStart(7, first = true), named("b", 7)) ++
          Seq(streamStop, end, begin(8, 110), change()): _*
      )
      assert(names == Seq("a"))
    }
  }

  test("one sent by a subtransaction that is rolled back holds for the rest of the transaction") {
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

  test("those of a transaction that is cut off or repeated count") {
    val names = namesAt(
      Seq(begin(7, 100), named("a"), commit(100), begin(8, 110), named("b")) ++
        Seq(begin(8, 110), change(), commit(110), begin(7, 100), named("c"), commit(100)) ++
        Seq(begin(9, 120), change()): _*
    )
    assert(names == Seq("b", "c"))
  }

  // Reads that go on from one another.

  follows("open transactions, in the order of their first messages")(
    block(7, true, "a", "b") ++ prepared(8, "g", "c") ++ block(9, true) ++ block(7, false, "d") ++
      Seq(streamAbort(7, 71), begin(10, 100), insert("e")): _*
  )("7 streaming 0 3", "8 prepared 4 1", "9 streaming 7 0", "10 begun 13 1")

  follows("a transaction that is being prepared is begun")(beginPrepare(7, "g"), insert("a"))(
    "7 begun 0 1"
  )

  follows("commits at or below `after` are followed but not given out", after = 110)(
    plain(7, 100, "a") ++ plain(8, 110, "b") ++ block(9, true, "c") ++ Seq(streamCommit(9, 105)) ++
      prepared(10, "g", "d") ++ Seq(commitPrepared(10, "g", 104)) ++ plain(11, 120, "e"): _*
  )("11@120: e")

  follows("`after` is no commit seen", after = 110)(plain(7, 105) ++ plain(8, 112, "a"): _*)(
    "8@112: a"
  )

  fails[CommitWentBackException]("a commit above `after` that goes back", after = 105)(
    plain(7, 120) ++ plain(8, 110): _*
  )("xid 8")

  test("a state goes on where it was taken, and is not changed by what comes then") {
    val messages = block(7, true, "a") ++ prepared(8, "g", "b") ++ plain(9, 100, "c") ++
      Seq(streamStart(7), insert("d", 71))
    val rest = Seq(insert("e", 7), streamStop, streamAbort(7, 71), streamPrepare(7, "h"))
    def goOn(stream: AssembledStream): Unit = {
      rest.zipWithIndex.foreach { case (message, index) =>
        stream.assembler.message(messages.size.toLong + index, message)
      }
      assert(stream.open == Seq("7 prepared 0 3", "8 prepared 3 1"))
      assert(stream.assembler.state.greatestCommit == 100)
    }
    val followed = follow(messages)
    val state = followed.assembler.state
    goOn(followed)
    assert(state.openTransactions.map(_.state) == Seq("streaming", "prepared"))
    assert(state.openTransactions.map(_.transaction.changes) == Seq(2L, 1L))
    val again = new AssembledStream(start = state)
    state.openTransactions.foreach(open => again.begin(open.transaction)) // to collect its changes
    goOn(again)
  }

  // What has no beginning.

  follows("segments without the first are held back and pin nothing")(
    block(7, false, "a") ++ Seq(Array[Byte]('S', 0, 0, 0, 8, 0), Array[Byte]('I', 0)): _*
  )()

  follows("their commit, at or below `after`, is one of an earlier read", after = 100)(
    block(7, false, "a") ++ Seq(streamCommit(7, 100)) ++ Seq(commit(90)) ++
      Seq(commitPrepared(8, "g", 95)): _*
  )()

  follows("what is prepared or rolled back without its beginning")(
    block(7, false, "a") ++ Seq(streamPrepare(7, "g"), rollbackPrepared(7, "g")) ++
      block(8, false, "b") ++ Seq(streamAbort(8, 81), streamAbort(8, 8)) ++
      Seq(prepare(9, "h"), rollbackPrepared(9, "h"), streamAbort(10, 10), streamAbort(10, 101)): _*
  )()

  private val incomplete: Seq[(String, Seq[Array[Byte]], Seq[String])] = Seq(
    ("Commit", Seq(streamStop, commit(100)), Seq("position 1")),
    ("Stream Commit", Seq(streamCommit(7, 100)), Seq("position 0", "xid 7")),
    (
      "Stream Commit of segments without the first",
      block(7, false, "a") :+ streamCommit(7, 100),
      Seq("position 3", "xid 7")
    ),
    ("Commit Prepared", Seq(commitPrepared(7, "g", 100)), Seq("position 0", "xid 7", "gid 'g'")),
    (
      "Commit Prepared of segments without the first",
      block(7, false, "a") ++ Seq(streamPrepare(7, "g"), commitPrepared(7, "g", 100)),
      Seq("position 4", "xid 7", "gid 'g'")
    ),
    ("a change", Seq(insert("a")), Seq("position 0")),
    ("a change behind a commit", plain(7, 90) :+ insert("a"), Seq("position 2"))
  )
  incomplete.foreach { case (name, messages, texts) =>
    fails[IncompleteTransactionException](s"without a beginning: $name")(messages: _*)(texts: _*)
  }

  test("what has no beginning is left out, where that is asked for") {
    incomplete.foreach { case (name, messages, _) =>
      val followed = follow(messages ++ plain(8, 110, "b"), skipIncomplete = true)
      assert(followed.committed.filterNot(_ == "7@90:") == Seq("8@110: b"), name)
      assert(followed.open.isEmpty, name)
    }
  }

  // Malformed messages.

  test("a malformed message is an error with its position and the decoder's text") {
    Seq("42 00", "43 01", "52 00 00 40", "53 00", "ff").foreach { hex =>
      val error = intercept[MalformedMessageException](follow(plain(7, 100) :+ Fields.unhex(hex)))
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
