package io.sparkpgoutput.source.slot

import java.time.{Duration, Instant}
import java.util.Locale

import org.apache.spark.sql.types.StringType

import io.sparkpgoutput.protocol.{Lsn, StructSchema}

/** The metrics of a slot, and the warnings about it for the log of a query. */
object SlotHealth {

  /** A slot is in danger if it has less than this part of max_slot_wal_keep_size left. */
  private val LeastSafePart = 0.1
  private val LongTransactionMinutes = 60L
  private val StandbyWait = "WaitForStandbyConfirmation"

  /**
   * A warning.
   *
   * @param cause what is wrong, without numbers that change all the time
   */
  final case class Warning(cause: String, text: String)

  /**
   * Returns the metrics of a slot for `lastProgress`.
   *
   * @param position the LSN up to which the query has read
   * @param end the LSN up to which it can read now
   * @param newest the time of the newest commit that it has read; None if it is not known
   */
  def metrics(
      state: SlotState,
      position: Long,
      end: Long,
      newest: Option[Instant]
  ): Map[String, String] = {
    import SlotMetrics._
    def age(time: Instant) = math.max(0.0, Duration.between(time, Instant.now).toMillis / 1e3)
    val secondsBehind = if (Lsn.isBelow(position, end)) newest.map(age) else Some(0.0)
    Seq(
      BYTES_BEHIND -> Some(math.max(0, state.flushLsn - position).toString),
      SECONDS_BEHIND -> secondsBehind.map("%.3f".formatLocal(Locale.ROOT, _)),
      CONFIRMED_FLUSH -> state.confirmedFlush.map(Lsn.format),
      RESTART -> state.restartLsn.map(Lsn.format),
      RETAINED_WAL -> state.retainedWal.map(_.toString),
      WAL_STATUS -> state.walStatus,
      SAFE_WAL_SIZE -> state.safeWalSize.map(_.toString)
    ).collect { case (ordinal, Some(value)) => schema(ordinal).name -> value }.toMap
  }

  /** Returns what is wrong with a slot. */
  def warnings(state: SlotState): Seq[Warning] =
    Seq(walStatus(state), safeWalSize(state), oldestTransaction(state), standby(state)).flatten

  private def walStatus(state: SlotState) =
    state.walStatus.filterNot(Set("reserved", "extended")).map { status =>
      val meaning =
        if (status == "lost")
          "the server has removed WAL that the slot needs, so nobody can read it any more. Begin again " +
            "with another slot. For a job of replicate, run spark-pgoutput resync --all with the --checkpoint " +
            "of the job."
        else
          "the server can remove WAL that the slot needs at its next checkpoint. Read faster, or set " +
            "max_slot_wal_keep_size to a greater value."
      Warning(
        s"wal_status $status",
        s"The slot '${state.name}' has the wal_status $status: $meaning"
      )
    }

  private def safeWalSize(state: SlotState) = for {
    safe <- state.safeWalSize
    limit <- state.maxSlotWalKeepSize
    if safe < limit * LeastSafePart
  } yield Warning(
    "safe_wal_size",
    s"The server invalidates the slot '${state.name}' after $safe more bytes of WAL: that is less than " +
      s"10 % of max_slot_wal_keep_size, $limit bytes. Read faster, or set it to a greater value."
  )

  private def oldestTransaction(state: SlotState) =
    state.oldestTransaction.filter(_.age.toMinutes >= LongTransactionMinutes).map { oldest =>
      Warning(
        s"open transaction of ${oldest.process}",
        s"A transaction of ${oldest.process} is open for ${oldest.age.toMinutes} minutes. The server " +
          s"keeps all WAL since its beginning for the slot '${state.name}'" +
          state.retainedWal.fold("")(bytes => s", $bytes bytes now") +
          ". End the transaction if nobody needs it."
      )
    }

  private def standby(state: SlotState) =
    state.holder.flatMap(_.waitEvent).filter(_ == StandbyWait).map { _ =>
      val slots = state.standbySlots.getOrElse("")
      Warning(
        s"standby slots $slots",
        s"The server holds back the changes of the slot '${state.name}' until the standbys of " +
          s"synchronized_standby_slots ($slots) have them. If a standby is gone, take its slot out of " +
          "that setting."
      )
    }
}

/** Remembers the warnings of a slot, so that each is logged once until it changes. */
final class SlotWarnings(log: String => Unit) {
  private var before = Set.empty[String]

  /** Logs what is wrong with a slot now and was not before. */
  def update(state: SlotState): Unit = synchronized {
    val now = SlotHealth.warnings(state)
    now.filterNot(warning => before(warning.cause)).foreach(warning => log(warning.text))
    before = now.map(_.cause).toSet
  }
}

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

  private def metric(name: String, comment: String) = field(name, StringType, comment)
}
