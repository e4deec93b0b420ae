package io.sparkpgoutput.changes.transactions

/**
 * The commit of a transaction. That of a prepared transaction is its COMMIT PREPARED.
 *
 * @param timestamp microseconds since 1970
 * @param aborted the xids of the subtransactions that were rolled back
 */
final case class Commit(lsn: Long, timestamp: Long, gid: String, aborted: Set[Long])
