package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema
import org.apache.spark.sql.types.StructType

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
  private val follower = OldState.schema("follower").dataType.asInstanceOf[StructType]
  private val transaction = follower("begun").dataType.asInstanceOf[StructType]

  private def row(schema: StructType, values: (String, Any)*): Row = {
    val byName = values.toMap
    new GenericRowWithSchema(schema.fieldNames.map(byName.getOrElse(_, null)), schema)
  }

  private def openSince(position: Long) = row(transaction, "firstPosition" -> position)

  private def state(last: Any, open: (String, Any)*): Row = {
    val none = Seq("streamed" -> Nil, "prepared" -> Nil, "greatestCommit" -> 0x1600000028L)
    row(
      OldState.schema,
      "lastPosition" -> last,
      "follower" -> row(follower, none ++ open: _*)
    )
  }

  test("the error names the first message that a new checkpoint needs, and the last commit") {
    val positions = Seq(
      state(last = 90L) -> 91,
      state(last = null) -> 0,
      state(90L, "begun" -> openSince(80)) -> 80,
      state(90L, "begun" -> openSince(80), "streamed" -> Seq(openSince(70), openSince(60))) -> 60,
      state(90L, "streamed" -> Seq(openSince(70)), "prepared" -> Seq(openSince(5))) -> 5
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
