package io.sparkpgoutput.source.session

import io.sparkpgoutput.source.PublicationNames
import io.sparkpgoutput.source.connection.ServerAddress
import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.slot.SourceIdentity

/**
 * The settings of a session: what it reads, and for whom.
 *
 * @param id the UUID of the source, which its checkpoint keeps
 * @param run the UUID of this start of the query
 * @param binary true asks the server for binary values
 */
final case class SessionSettings(
    address: ServerAddress,
    id: String,
    run: String,
    slot: String,
    publications: Seq[String],
    binary: Boolean
) {

  /**
   * The `application_name`, by which others recognize whose session holds the slot. The server cuts it off
   * after 63 bytes, so it has only the beginning of the run's UUID.
   */
  def applicationName: String =
    s"${SessionSettings.ApplicationName}$id ${run.take(SessionSettings.RunLength)}"

  /** The options of pgoutput. Transactions come whole, because `streaming` is not given. */
  def pluginOptions: Seq[(String, String)] = Seq(
    "proto_version" -> "1",
    "publication_names" -> PublicationNames.format(publications)
  ) ++ Option.when(binary)("binary" -> "true")
}

object SessionSettings {
  final val ApplicationName = "spark-pgoutput "
  final private val RunLength = 8

  /** Returns whether a session belongs to the source with a UUID, to any start of it. */
  def isOfSource(id: String, applicationName: String): Boolean =
    s"$applicationName ".startsWith(s"$ApplicationName$id ")
}

/**
 * The transactions of a batch, as a task reads them: those whose commit LSN is at or above `start` and
 * below `end`.
 *
 * @param identity what the checkpoint keeps of the slot and its server
 * @param confirmed
 *   the LSN below which all is committed in Spark; the server may forget it. 0 if that is not known.
 */
final case class BatchRead(
    settings: SessionSettings,
    identity: SourceIdentity,
    start: Long,
    end: Long,
    confirmed: Long,
    output: SlotOutput
)
