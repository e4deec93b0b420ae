package io.sparkpgoutput.changes

import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.ConversionOptions

/** A message and its place. */
final case class Positioned(position: Long, bytes: Array[Byte])

object Positioned {
  def all(messages: Seq[Array[Byte]]): Seq[Positioned] =
    messages.zipWithIndex.map { case (bytes, position) => Positioned(position.toLong, bytes) }
}

/** The committed changes of a stream, and the transactions open at its end. */
final case class BatchRead(rows: Seq[UnsafeRow], open: Seq[OpenTransaction]) {

  /** What the user sees of the open transactions. */
  def openShown: Seq[String] = open.map { case OpenTransaction(transaction, state) =>
    import transaction._
    s"$xid $gid $state $firstPosition $changes"
  }
}

/** Reads a stream in parts as a batch does: in two passes, each part by itself. */
object BatchRead {
  val rules: FollowRules = FollowRules(after = 0, skipIncomplete = false, TextEncoding.Utf8)

  /** Rows with the table's columns and these fields. */
  def format(table: TableFormat = TableFormat.AsMap, fields: Seq[Int] = allFields): ChangeFormat =
    ChangeFormat(
      table,
      table.columns.indices,
      fields,
      ChangeFilter(),
      ConversionOptions(),
      failFast = true
    )

  def allFields: Seq[Int] = ChangeSchema.schema.indices

  def summary(part: Seq[Positioned], rules: FollowRules = BatchRead.rules): StreamSummary = {
    val summarizer = new StreamSummarizer(new ControlFields(rules.encoding))
    part.foreach(message => summarizer.message(message.position, message.bytes))
    summarizer.result()
  }

  def apply(
      parts: Seq[Seq[Positioned]],
      rules: FollowRules = BatchRead.rules,
      format: ChangeFormat = BatchRead.format(),
      start: FollowerState = FollowerState()
  ): BatchRead = {
    val fold = new StreamFold(start, rules)
    parts.foreach(part => fold.add(summary(part, rules)))
    val rows = parts.zip(fold.carried).flatMap { case (part, carried) =>
      val changes = new CommittedChanges(carried, rules, format)
      part.flatMap { message =>
        changes.message(message.position, message.bytes)
        Iterator.continually(changes).takeWhile(_.hasNext).map(_.next().copy()).toSeq
      }
    }
    BatchRead(rows, fold.state.openTransactions)
  }

  /** The same without parts: what the others are compared to. */
  def whole(
      messages: Seq[Positioned],
      rules: FollowRules = BatchRead.rules,
      format: ChangeFormat = BatchRead.format()
  ): BatchRead = apply(Seq(messages), rules, format)

  def text(rows: Seq[UnsafeRow], format: ChangeFormat): Seq[String] = {
    val converter = CatalystTypeConverters.createToScalaConverter(format.rowType)
    rows.map(row => converter(row).toString)
  }
}
