package io.sparkpgoutput.source.slot

/**
 * The walsender that has a slot in use.
 *
 * @param applyLsn
 *   `replay_lsn` of `pg_stat_replication`; None without the rights of `pg_read_all_stats`, or if the
 *   client has not sent one
 * @param waitEvent what the process waits for; None if it does not wait, or another role runs it
 */
final case class SlotHolder(
    pid: Int,
    applicationName: String,
    applyLsn: Option[Long],
    waitEvent: Option[String]
)
