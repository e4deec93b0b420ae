package io.sparkpgoutput.changes.transactions

import scala.collection.mutable

import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.protocol.Fields.Fields
import io.sparkpgoutput.protocol.{Fields, TextEncoding}

/** The transactions of a stream as texts, which `tests/support/transactions.py` describes. */
final class TransactionTexts(
    after: Long = 0,
    skipIncomplete: Boolean = false,
    start: AssemblerState = AssemblerState()
) extends TransactionHandler {
  private val decoder = new MessageDecoder(TextEncoding.Utf8)
  private val values = mutable.HashMap.empty[Long, mutable.ArrayBuffer[(Any, String)]]
  private val lines = mutable.ArrayBuffer.empty[String]

  val assembler: TransactionAssembler = new TransactionAssembler(
    AssemblerOptions(after, skipIncomplete, TextEncoding.Utf8),
    start,
    new RememberedCommits(after),
    this
  )

  def committed: Seq[String] = lines.toSeq

  def open: Seq[String] = assembler.state.openTransactions.map { open =>
    val transaction = open.transaction
    s"${transaction.xid} ${open.state} ${transaction.firstPosition} ${transaction.changes}"
  }

  override def begin(transaction: Transaction): Unit = {
    val before = values.put(transaction.firstPosition, mutable.ArrayBuffer.empty)
    assert(before.isEmpty, "begun twice")
  }

  override def change(
      transaction: Transaction,
      position: Long,
      message: Array[Byte],
      context: Int
  ): Unit = {
    val fields = Fields.of(decoder.decode(message, context))
    val cells = fields("new").asInstanceOf[Fields]("text").asInstanceOf[Seq[String]]
    values(transaction.firstPosition) += fields.getOrElse("xid", 0L) -> cells.head
  }

  override def commit(transaction: Transaction, commit: Commit): Unit = {
    val left = values.remove(transaction.firstPosition).get.collect {
      case (xid: Long, value) if !commit.aborted(xid) => s" $value"
    }
    val gid = Option(commit.gid).map(id => s" $id").mkString
    lines += s"${transaction.xid}@${commit.lsn}$gid:${left.mkString}"
  }

  override def drop(transaction: Transaction): Unit = values.remove(transaction.firstPosition)
}
