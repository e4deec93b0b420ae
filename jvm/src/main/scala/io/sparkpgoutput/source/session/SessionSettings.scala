package io.sparkpgoutput.source.session

import io.sparkpgoutput.source.PublicationNames
import io.sparkpgoutput.source.connection.ServerAddress

/**
 * The settings of a session: what it reads, and for whom.
 *
 * @param id the UUID of the source, which its checkpoint keeps
 * @param run the UUID of this start of the query
 * @param renewedAt the session began at or above this LSN
 * @param binary true asks the server for binary values
 */
final case class SessionSettings(
    address: ServerAddress,
    id: String,
    run: String,
    renewedAt: Long,
    slot: String,
    publications: Seq[String],
    binary: Boolean
) {

  /** What `pg_stat_activity` shows. It tells others whose session holds the slot. */
  def applicationName: String = SessionSettings.ApplicationName + id

  /** The options of pgoutput. Transactions come whole, because `streaming` is not given. */
  def pluginOptions: Seq[(String, String)] = Seq(
    "proto_version" -> "1",
    "publication_names" -> PublicationNames.format(publications)
  ) ++ Option.when(binary)("binary" -> "true")
}

object SessionSettings {
  final val ApplicationName = "spark-pgoutput "
}
