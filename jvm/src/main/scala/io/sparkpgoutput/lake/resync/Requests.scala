package io.sparkpgoutput.lake.resync

import io.sparkpgoutput.lake.follow.SourceCatalog
import io.sparkpgoutput.lake.state.{KeptState, ResyncAllRequest, ResyncRequest, VerifyRequest}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.table.MirroredTable

/**
 * What users ask of a job that runs. The requests are rows of its state.
 *
 * @param isBeingApplied
 *   tells if the table with an oid is copied already, and its waiting changes are being applied. Another
 *   copy of it begins after that.
 * @param resync copies a table, for a reason
 * @param verify takes the requests to verify tables
 */
final private[lake] class Requests(
    catalog: SourceCatalog,
    state: KeptState,
    log: JobLog,
    isBeingApplied: Long => Boolean,
    resync: (MirroredTable, String) => Unit,
    verify: Seq[VerifyRequest] => Unit
) {

  /**
   * Takes what was asked.
   *
   * @throws StartOver.Requested if the job is to begin anew
   */
  def take(): Unit = {
    val all = state.requests()
    if (all.exists(_.isInstanceOf[ResyncAllRequest])) throw new StartOver.Requested
    verify(all.collect { case request: VerifyRequest => request })
    // A request can name several tables. It is taken as a whole, with its last table.
    val asked = all.collect { case request: ResyncRequest => request }
      .groupBy(_.id).values.toSeq
      .filterNot(_.exists(oids(_).exists(isBeingApplied)))
    if (asked.nonEmpty) {
      val known = state.tables.filter(_.generation > 0).map(_.table)
      val published = catalog.again(known)
      for (tables <- asked; request <- tables) {
        // The commit that begins the last copy takes the request away.
        if (request == tables.last) state.take(request.id)
        val oids = this.oids(request)
        // A table that was dropped and made again has another oid.
        val found = published.find { case (source, _) => oids.contains(source.oid) }
          .orElse(published.find { case (source, _) => source.name.toString == request.table })
        found.map(_._2) match {
          case Some(Right(table)) =>
            try resync(table, "A resync was requested.")
            catch { case problem: Throwable => state.leave(request.id); throw problem }
          case Some(Left(error)) =>
            log.warn(s"The table ${request.table} cannot be copied. ${error.getMessage}")
          case None => log.warn(s"The table ${request.table} is not published.")
        }
      }
      state.save()
    }
  }

  /** The tables of this name: the job also knows those that the server has dropped. */
  private def oids(request: ResyncRequest) =
    state.tables.filter(_.table.source.name.toString == request.table).map(_.oid)
}
