package io.sparkpgoutput.changes.streaming

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.transactions.{
  AssemblerState,
  SchemaMessage,
  StreamPhase,
  Transaction
}
import io.sparkpgoutput.errors.CheckpointVersionException

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
      relations = Seq(sent(3, 'R')),
      types = Seq(sent(4, 'Y')),
      greatestCommit = -1
    )
  )

  /** Arrays compare by reference, so this compares their text. */
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
    val error = intercept[CheckpointVersionException](read(bytes))
    assert(error.getCondition == "PGOUTPUT_CHECKPOINT_VERSION")
    assert(error.getMessage.contains("state of version 2"))
  }
}
