package io.sparkpgoutput.source.slot

import org.apache.spark.sql.types.StringType

import io.sparkpgoutput.protocol.StructSchema

/** The metrics of a slot in `lastProgress`. Each is a text. A metric without a value is left out. */
object SlotMetrics extends StructSchema {
  val BYTES_BEHIND: Int = metric(
    "bytesBehindLatest",
    "The bytes of WAL between the position of the stream and the end of the server's WAL"
  )
  val SECONDS_BEHIND: Int = metric(
    "secondsBehindLatest",
    "The age of the last transaction that was read, or 0 if the stream has reached the end of the WAL. " +
      "It is absent if the stream is behind and has not read a transaction yet"
  )
  val CONFIRMED_FLUSH: Int =
    metric("confirmedFlushLsn", "The position up to which the slot is confirmed")
  val RESTART: Int = metric("restartLsn", "The oldest WAL that the server keeps for the slot")
  val RETAINED_WAL: Int =
    metric("retainedWalBytes", "The bytes of WAL that the server keeps for the slot")
  val WAL_STATUS: Int = metric(
    "walStatus",
    "One of reserved, extended, unreserved and lost, as in pg_replication_slots"
  )
  val SAFE_WAL_SIZE: Int = metric(
    "safeWalSize",
    "The bytes of WAL that the server can still write before it gives up the slot, if there is a limit"
  )

  /** Returns the metrics by their names. */
  def of(values: (Int, Option[String])*): Map[String, String] = values.collect {
    case (ordinal, Some(value)) => schema(ordinal).name -> value
  }.toMap

  private def metric(name: String, comment: String) = field(name, StringType, comment)
}
