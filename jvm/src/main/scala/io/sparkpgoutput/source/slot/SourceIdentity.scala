package io.sparkpgoutput.source.slot

import org.apache.spark.sql.types.StructType

/**
 * The identity of a source, which its checkpoint keeps. A later start checks that it reads the same
 * history.
 *
 * @param id a UUID, by which the sessions of the source know each other
 * @param timelines the timelines that were accepted, in order; the last is the one that was read
 * @param publications the names of the publications, with their oids
 * @param firstLsn the start of the first batch
 */
final case class SourceIdentity(
    id: String,
    systemIdentifier: String,
    timelines: Seq[Int],
    database: String,
    slot: String,
    publications: Map[String, Long],
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
   * @param publications what [[SlotChecks.publications]] returns
   * @return a warning, if the publications are others than before
   */
  def check(server: Server, slot: String, publications: Map[String, Long]): Option[String] = {
    checkServer(server)
    if (slot != this.slot) throw SlotError.otherSlot(this, slot)
    checkPublications(publications)
    Option.when(publications != this.publications)(
      s"The query read the publications ${names(this.publications)} of the slot '$slot' before, and " +
        s"now reads ${names(publications)}. Changes of tables that only the new list has come from " +
        "now on; their earlier changes are not in the stream. PostgreSQL 18 leaves out a change that " +
        "is older than all publications of the new list that have its table. If there can be such " +
        "changes, stop the query, start it with the old list until it has read them, and then change " +
        "the list."
    )
  }

  private def names(publications: Map[String, Long]) = publications.keys.toSeq.sorted.mkString(", ")

  /**
   * Checks that no publication was dropped and made again, which only its oid shows. PostgreSQL 18
   * leaves out the changes in between without an error. Ask for the publications after the LSN up to
   * which the slot is read: then they were there all the time.
   */
  def checkPublications(now: Map[String, Long]): Unit = {
    val others = publications.collect { case (name, oid) if now.get(name).exists(_ != oid) => name }
    others.minOption.foreach(name => throw SlotError.publicationMadeAgain(slot, name))
  }

  /**
   * Tells if columns are those that the query started with. Their comments do not count: `varchar(9)`
   * can become `varchar(10)`.
   */
  def hasColumns(now: StructType): Boolean =
    now.map(column => column.name -> column.dataType) ==
      schema.map(column => column.name -> column.dataType)

  /** Checks that a server is the one that the checkpoint is of, or a copy of it. */
  private[slot] def checkServer(server: Server): Unit = {
    if (server.systemIdentifier != systemIdentifier) throw SlotError.otherServer(this, server)
    if (server.database != database) throw SlotError.otherDatabase(this, server)
  }
}
