package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.Row
import org.apache.spark.sql.streaming._

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.changes.transactions.AssemblerOptions

/**
 * Returns the changes of committed transactions in the order of the commits, for each source. It
 * holds the changes of open transactions back in the state store. The result is a stream of
 * messages too: each transaction's changes, with the Relation messages that they refer to.
 *
 * The initial state of a source is its row of [[InitialState]].
 */
final class TransactionProcessor(options: AssemblerOptions, abandoned: Set[Long])
    extends StatefulProcessorWithInitialState[Row, Row, Row, Row] {
  @transient private var store: SourceStore = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    store = new SourceStore(getHandle)

  override def handleInitialState(source: Row, definitions: Row, timers: TimerValues): Unit =
    store.update(SourceState(assembler = InitialState.state(definitions, options.encoding)))

  /** Processes each row only when the next output is taken: a transaction may exceed the memory. */
  override def handleInputRows(
      source: Row,
      messages: Iterator[Row],
      timers: TimerValues
  ): Iterator[Row] = {
    lazy val batch = new SourceBatch(source.get(0), options, abandoned, store)
    Iterator.single(()).flatMap(_ => batch.begin()) ++
      messages.flatMap(row => batch.message(position(row), row.getAs[Array[Byte]](1))) ++
      Iterator.single(()).flatMap(_ => batch.end())
  }

  private def position(row: Row): Long =
    if (row.isNullAt(0)) throw ChangesError.nullPosition else row.getLong(0)
}
