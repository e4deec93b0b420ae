package io.sparkpgoutput.lake.state

/**
 * What a user asks of a job: to copy a table again.
 *
 * @param id
 *   a negative number, which the tables of one command share
 * @param table
 *   the name of the table at the server, as the state has it
 */
final case class ResyncRequest(id: Long, table: String)
