package io.sparkpgoutput.changes.batch

import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.Positioned
import io.sparkpgoutput.changes.rows.{ChangeFilter, ChangeFormat, ChangeSchema, TableFormat}
import io.sparkpgoutput.changes.transactions.{
  AssemblerOptions,
  AssemblerState,
  ControlMessageDecoder,
  OpenTransaction
}
import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.ConversionOptions
import io.sparkpgoutput.types.registry.TypeRegistry

/** The committed changes of a stream, and the transactions open at its end. */
final case class BatchChanges(rows: Seq[UnsafeRow], open: Seq[OpenTransaction]) {

  /** What the user sees of the open transactions. */
  def openShown: Seq[String] = open.map { case OpenTransaction(transaction, state) =>
    import transaction._
    s"$xid $gid $state $firstPosition $changes"
  }
}

/** Reads a stream in parts as a batch does: in two passes, each part by itself. */
object BatchChanges {
  val options: AssemblerOptions =
    AssemblerOptions(after = 0, skipIncomplete = false, TextEncoding.Utf8)

  /** A format whose rows have the table's columns and these fields. */
  def format(table: TableFormat = TableFormat.AsMap, fields: Seq[Int] = allFields): ChangeFormat =
    ChangeFormat(
      table,
      table.columns.indices,
      fields,
      ChangeFilter(),
      ConversionOptions(),
      TypeRegistry(),
      failFast = true
    )

  def allFields: Seq[Int] = ChangeSchema.schema.indices

  def summary(
      part: Seq[Positioned],
      options: AssemblerOptions = BatchChanges.options
  ): SegmentSummary = {
    val summarizer = new SegmentSummarizer(new ControlMessageDecoder(options.encoding), null)
    part.foreach(message => summarizer.message(message.position, message.bytes))
    summarizer.result()
  }

  def apply(
      parts: Seq[Seq[Positioned]],
      options: AssemblerOptions = BatchChanges.options,
      format: ChangeFormat = BatchChanges.format(),
      start: AssemblerState = AssemblerState()
  ): BatchChanges = {
    val segments = parts.map(summary(_, options))
    val stream = new AssembledStream(segments, EarlierRelations(start), options)
    val reads = stream.reads
    val rows = parts.zip(segments).flatMap { case (part, segment) =>
      val changes = new BatchChangeReader(reads(segment.key), options, format)
      part.flatMap { message =>
        changes.message(message.position, message.bytes).map(_.copy()).toSeq
      }
    }
    BatchChanges(rows, stream.state.openTransactions)
  }

  /** Reads a stream as one part. Tests compare other reads with it. */
  def whole(
      messages: Seq[Positioned],
      options: AssemblerOptions = BatchChanges.options,
      format: ChangeFormat = BatchChanges.format()
  ): BatchChanges = apply(Seq(messages), options, format)

  def text(rows: Seq[UnsafeRow], format: ChangeFormat): Seq[String] = {
    val converter = CatalystTypeConverters.createToScalaConverter(format.rowType)
    rows.map(row => converter(row).toString)
  }
}
