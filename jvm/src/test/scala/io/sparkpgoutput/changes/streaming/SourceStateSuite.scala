package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.catalyst.encoders.encoderFor

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.transactions.{
  AssemblerState,
  SchemaMessage,
  StreamPhase,
  Transaction
}
import io.sparkpgoutput.errors.Errors.raised

class SourceStateFormatSuite extends AnyFunSuite {
  import SourceStateFormat._

  private def sent(oid: Long, tag: Char) =
    SchemaMessage(oid, oid * 10, Array[Byte](tag.toByte, 1, -1), inStream = oid % 2 == 0)

  private val transaction = Transaction(
    xid = 4294967295L,
    firstPosition = -7,
    hasBeginning = true,
    commitLsn = Long.MinValue,
    commitTimestamp = -1,
    gid = "gid ä",
    origin = "o" * 70000,
    changes = 3,
    nextOrdinal = 9,
    aborted = Set(8L, 9L),
    relations = Seq(sent(1, 'R'), sent(2, 'R'))
  )

  private val full = SourceState(
    Some(Long.MaxValue),
    commits = 100001,
    chunks = Seq(-7L -> 3, 12L -> 1),
    AssemblerState(
      StreamPhase.InStream,
      Some(transaction.copy(gid = null, origin = null)),
      streamedXid = 5,
      streamed = Seq(transaction, transaction.copy(xid = 5, hasBeginning = false)),
      prepared = Seq(transaction),
      definitions = Seq(sent(3, 'R'), sent(4, 'Y')),
      greatestCommit = -1
    )
  )

  /** Returns a value with sequences for its arrays, because arrays compare by reference. */
  private def shown(value: Any): Any = value match {
    case bytes: Array[_]             => bytes.toSeq
    case SourceState(a, b, c, state) => (a, b, c, shown(state))
    case products: Iterable[_]       => products.map(shown)
    case product: Product if product.productArity > 0 =>
      (product.productPrefix, product.productIterator.map(shown).toSeq)
    case other => other
  }

  test("a state is read as it was written") {
    val phases = Seq(
      StreamPhase.Unknown,
      StreamPhase.Between,
      StreamPhase.InTransaction,
      StreamPhase.InPrepare
    )
    val states = Seq(SourceState(), full) ++
      phases.map(phase => full.copy(assembler = full.assembler.copy(phase = phase)))
    states.foreach(state => assert(shown(read(write(state))) == shown(state)))
  }

  test("a version that is not known is an error that says so") {
    val bytes = write(full)
    bytes(0) = 2
    val error = raised("PGOUTPUT_CHECKPOINT_VERSION")(read(bytes))
    assert(error.getMessage.contains("state of version 2"))
  }
}

class OldStateSuite extends AnyFunSuite {
  import OldState._

  private def openSince(position: Long) =
    Open(7, position, hasBeginning = true, 0, 0, null, null, 0, 0, Nil, Nil)

  private def state(
      last: Option[Long] = Some(90),
      begun: Option[Open] = None,
      streamed: Seq[Open] = Nil,
      prepared: Seq[Open] = Nil
  ) = State(last, 0, Nil, Follower(1, begun, 0, streamed, prepared, Nil, Nil, 0x1600000028L))

  test("the variable has the schema that version 0.1.0 gave it") {
    val definitions =
      "ARRAY<STRUCT<oid: BIGINT NOT NULL, position: BIGINT NOT NULL, message: BINARY, " +
        "inStream: BOOLEAN NOT NULL>>"
    val transaction =
      "STRUCT<xid: BIGINT NOT NULL, firstPosition: BIGINT NOT NULL, hasBeginning: BOOLEAN NOT NULL, " +
        "commitLsn: BIGINT NOT NULL, commitTimestamp: BIGINT NOT NULL, gid: STRING, origin: STRING, " +
        "changes: BIGINT NOT NULL, nextOrdinal: BIGINT NOT NULL, aborted: ARRAY<BIGINT>, " +
        s"relations: $definitions>"
    val follower = s"place: INT NOT NULL, begun: $transaction, streamedXid: BIGINT NOT NULL, " +
      s"streamed: ARRAY<$transaction>, prepared: ARRAY<$transaction>, " +
      s"relations: $definitions, types: $definitions, greatestCommit: BIGINT NOT NULL"
    val schema = Encoders.product[State].schema
    assert(
      schema.toDDL == "lastPosition BIGINT,commits BIGINT NOT NULL," +
        "chunks ARRAY<STRUCT<_1: BIGINT NOT NULL, _2: INT NOT NULL>>," +
        s"follower STRUCT<$follower>"
    )
    // In DDL, each element of an array can be NULL. Those of `aborted`, which three members have, cannot.
    assert(schema.json.split("\"containsNull\":false", -1).length - 1 == 3)
    assert(schema.json.split("\"long\",\"containsNull\":false", -1).length - 1 == 3)
  }

  test("a state variable reads the state as it was written") {
    val kept = state(begun = Some(openSince(80)), streamed = Seq(openSince(70).copy(gid = "g")))
      .copy(chunks = Seq(80L -> 1))
    val encoder = encoderFor(Encoders.product[State]).resolveAndBind()
    Seq(kept, state(last = None)).foreach { state =>
      assert(encoder.createDeserializer()(encoder.createSerializer()(state)) == state)
    }
  }

  test("the error names the first message that a new checkpoint needs, and the last commit") {
    val positions = Seq(
      state() -> 91,
      state(last = None) -> 0,
      state(begun = Some(openSince(80))) -> 80,
      state(begun = Some(openSince(80)), streamed = Seq(openSince(70), openSince(60))) -> 60,
      state(streamed = Seq(openSince(70)), prepared = Seq(openSince(5))) -> 5
    )
    for ((kept, next) <- positions) {
      val error = OldState.error(kept)
      assert(error.getCondition == "PGOUTPUT_OLD_CHECKPOINT")
      assert(
        error.getMessage.contains(s"Read the messages from position $next on, and name a view")
      )
      assert(error.getMessage.contains("set the option 'after' to '16/28'"))
    }
  }
}
