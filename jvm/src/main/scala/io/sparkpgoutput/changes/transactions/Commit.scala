package io.sparkpgoutput.changes.transactions

/**
 * The commit of a transaction: of a prepared one that of COMMIT PREPARED.
 *
 * @param timestamp
 *   microseconds since 1970
 * @param aborted
 *   the subtransactions that are no part of it
 */
final case class Commit(
    lsn: Long,
    timestamp: Long,
    gid: String,
    aborted: Set[Long]
)
