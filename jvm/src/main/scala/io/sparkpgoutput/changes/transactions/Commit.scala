package io.sparkpgoutput.changes.transactions

/**
 * The commit of a transaction. For a prepared transaction, it is the COMMIT PREPARED.
 *
 * @param timestamp microseconds since 1970
 * @param aborted the xids of the subtransactions that were rolled back
 */
final case class Commit(lsn: Long, timestamp: Long, gid: String, aborted: Set[Long])
