package io.sparkpgoutput.source.slot

import org.apache.spark.sql.types.StructType

/**
 * What a checkpoint keeps of its source, so that a later start reads the same history.
 *
 * @param id
 *   a UUID, by which the sessions of the source know each other
 * @param timelines
 *   the timelines that were accepted, in order; the last is the one that was read
 * @param firstLsn
 *   the start of the first batch
 */
final case class SourceIdentity(
    id: String,
    systemIdentifier: String,
    timelines: Seq[Int],
    database: String,
    slot: String,
    publications: Seq[String],
    firstLsn: Long,
    schema: StructType
) {

  /**
   * Checks that a start of the query has the same slot as the checkpoint.
   *
   * The list of publications can change: to publish another table by a publication of its own is an
   * ordinary operation, like ALTER PUBLICATION, which no reader can notice. A batch that runs again
   * after it, though, is read by the new list.
   *
   * @return
   *   a warning, if the publications are others than before
   */
  def check(server: Server, slot: String, publications: Seq[String]): Option[String] = {
    checkServer(server)
    if (slot != this.slot) throw SlotError.otherSlot(this, slot)
    Option.when(publications.toSet != this.publications.toSet)(
      s"The query read the publications ${this.publications.mkString(", ")} of the slot '$slot' " +
        s"before, and now reads ${publications.mkString(", ")}. Changes of tables that only the new " +
        "list has come from now on; their earlier changes are not in the stream."
    )
  }

  /** Checks that a server is the one that the checkpoint is of, or a copy of it. */
  private[slot] def checkServer(server: Server): Unit = {
    if (server.systemIdentifier != systemIdentifier) throw SlotError.otherServer(this, server)
    if (server.database != database) throw SlotError.otherDatabase(this, server)
  }
}
