package io.sparkpgoutput.lake.state

import io.sparkpgoutput.lake.table.TableMode

/**
 * A table that a job has made.
 *
 * @param mark None if its first copy has not ended
 * @param stopped why the table is stopped, if it is
 */
final case class MarkedTable(
    target: String,
    job: String,
    oid: Long,
    generation: Int,
    mark: Option[Long],
    stopped: Option[String] = None,
    mode: TableMode = TableMode.Mirror
)

/** A slot, among all servers. */
final case class SlotIdentity(systemIdentifier: String, database: String, slot: String) {
  override def toString: String = s"the slot '$slot' of the database '$database'"

  /** It is the same before and after `pg_upgrade`, but for the system identifier. */
  def onServer: String = s"$this at the server with the system identifier $systemIdentifier"
}
