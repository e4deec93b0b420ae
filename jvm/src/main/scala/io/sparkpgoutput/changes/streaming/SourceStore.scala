package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.streaming._
import org.apache.spark.sql.{Encoders, Row}

/** The state variables of a streaming query. Spark keeps a value of each for every source. */
final class SourceStore(handle: StatefulProcessorHandle) {
  private val state = handle.getValueState("state", Encoders.BINARY, TTLConfig.NONE)
  private val oldState: ValueState[Row] =
    handle.getValueState(OldState.Variable, Encoders.row(OldState.schema), TTLConfig.NONE)

  /** The changes of open transactions; see [[TransactionBuffer]]. */
  val chunks: MapState[ChunkKey, Array[Byte]] =
    handle.getMapState("chunks", Encoders.product[ChunkKey], Encoders.BINARY, TTLConfig.NONE)

  /** The last commits; see [[StoredCommits]]. */
  val xids: MapState[Long, Long] =
    handle.getMapState("xids", Encoders.scalaLong, Encoders.scalaLong, TTLConfig.NONE)
  val lsns: MapState[Int, Long] =
    handle.getMapState("lsns", Encoders.scalaInt, Encoders.scalaLong, TTLConfig.NONE)

  /** The state of the source at the end of the last micro-batch. */
  def get(): SourceState =
    if (state.exists()) SourceStateFormat.read(state.get())
    else if (oldState.exists()) throw OldState.error(oldState.get())
    else SourceState()

  def update(value: SourceState): Unit = state.update(SourceStateFormat.write(value))
}
