package io.sparkpgoutput.lake.follow

import io.sparkpgoutput.lake.options.ReplicateOptions
import io.sparkpgoutput.lake.state.{KeptState, TableState}
import io.sparkpgoutput.lake.table.{
  MirroredTable,
  MirroredTables,
  PublishedTables,
  ReplicaIdentity,
  ServerReadiness,
  SourceTable,
  TableChange,
  TableEvidence,
  TableMode
}
import io.sparkpgoutput.lake.target.{Target, TargetNames, TargetTypes}
import io.sparkpgoutput.lake.{LakeError, LakeException}
import io.sparkpgoutput.source.connection.{ServerClient, ServerConnection}
import io.sparkpgoutput.source.slot.Server

/** The published tables by the server's catalog, with their names and types in the target. */
final class SourceCatalog(
    client: ServerClient,
    server: Server,
    options: ReplicateOptions,
    target: Target
) {
  private val timeline = new ServerTimeline(client, target)

  /**
   * Checks that the server has all that the tables have. After a failover it can lack changes.
   *
   * @throws io.sparkpgoutput.source.SourceException if it can lack some
   */
  def checkTimeline(state: KeptState): Unit = timeline.check(state)

  /**
   * Reads all tables.
   *
   * @param known
   *   the tables that keep their names and modes in the target. The options give the names and
   *   modes of the other tables.
   * @param kept
   *   the modes of other tables, by their oids, in place of the modes that the options give
   */
  def read(
      known: Seq[MirroredTable],
      kept: Map[Long, TableMode] = Map.empty
  ): Seq[MirroredTable] = client.query { connection =>
    val sources = published(connection)
    options.modes.keys.find(name => !sources.exists(source => TargetNames.isOf(name, source.name)))
      .foreach(name => throw LakeError.noTable(s"mode.$name"))
    val names = targetNames(sources, known)
    val modes = kept ++ known.map(table => table.source.oid -> table.mode)
    MirroredTables.of(connection, sources, names, options.types).map { table =>
      inTarget(table, modes.getOrElse(table.source.oid, options.modeOf(table.source.name)))
    }
  }

  /** Reads all tables as the server knows them. */
  def sources(): Seq[SourceTable] = client.query(published(_))

  /** An ALTER TABLE that commits meanwhile is seen as a whole, or not at all. */
  private def published(connection: ServerConnection) = connection.inSnapshot(
    PublishedTables.read(connection, options.publications, server.majorVersion)
  )

  /**
   * Reads the tables again, for a job that has begun.
   *
   * @param known
   *   the tables that keep their names and modes in the target. The options give the names and modes
   *   of the other tables.
   * @return each table, and how it is in the target or why it cannot be there
   */
  def again(
      known: Seq[MirroredTable]
  ): Seq[(SourceTable, Either[LakeException, MirroredTable])] =
    client.query { connection =>
      val sources = published(connection)
      val names = sources.map(source => source.oid -> newName(source)).toMap ++
        known.map(table => table.source.oid -> Right(table.target))
      val modes = known.map(table => table.source.oid -> table.mode).toMap
      val found = MirroredTables.each(
        connection,
        sources,
        names.view.mapValues(_.getOrElse("")).toMap,
        options.types
      )
      sources.zip(found).map { case (source, table) =>
        source -> (
          try
            names(source.oid).flatMap { _ =>
              val mode = modes.getOrElse(source.oid, options.modeOf(source.name))
              table.map(inTarget(_, mode))
            }
          catch { case error: LakeException => Left(error) }
        )
      }
    }

  /**
   * Reads one table again.
   *
   * @param known how it is in the target; None if it is not there
   * @return None if it is not published
   * @throws LakeException if it cannot be in the target
   */
  def again(oid: Long, known: Option[MirroredTable]): Option[MirroredTable] =
    again(known.toSeq).collectFirst {
      case (source, table) if source.oid == oid => table.fold(error => throw error, identity)
    }

  /**
   * Reads the published table that has the name of one that is not published, and its name in the target.
   *
   * @return None if there is none, or if the target cannot have it
   */
  def madeAgain(dropped: MirroredTable): Option[MirroredTable] = again(Nil)
    .collectFirst {
      case (source, Right(table))
          if source.name == dropped.source.name && source.oid != dropped.source.oid => table
    }
    .filter(_.target.equalsIgnoreCase(dropped.target))

  private def newName(source: SourceTable): Either[LakeException, String] =
    try Right(targetNames(Seq(source), Nil)(source.oid))
    catch { case error: LakeException => Left(error) }

  private def targetNames(
      sources: Seq[SourceTable],
      known: Seq[MirroredTable]
  ): Map[Long, String] = {
    val targets = known.map(table => table.source.oid -> table.target).toMap
    val names = TargetNames.of(
      sources.map(_.name),
      options.tableName,
      options.names,
      target.nameProblem(_),
      sources.flatMap(source => targets.get(source.oid).map(source.name -> _)).toMap
    )
    sources.map(source => source.oid -> names(source.name)).toMap
  }

  /** The table with the types that the target has. Rows without a key are found by all columns. */
  private def inTarget(found: MirroredTable, mode: TableMode): MirroredTable = {
    val table = found.copy(mode = mode)
    val columns = table.schema.fieldNames.toSeq
    val others = mode.columns.fieldNames.toSeq
    TargetNames.checkColumns(table.source.name, columns, others, target.columnProblem)
    val isFoundByAll = table.source.key.isEmpty && table.source.identity == ReplicaIdentity.Full
    val key = if (isFoundByAll && !table.isHistory) columns else table.targetKey
    val name = table.source.name.toString
    table.copy(schema = TargetTypes.of(target.format, name, table.schema, key))
  }

  /**
   * Checks that the role can copy a table, and that the publications send all of its changes.
   *
   * @throws LakeException that names everything that is missing
   */
  def checkReady(table: SourceTable): Unit =
    client.query(ServerReadiness.check(_, Seq(table), options.publications))

  /** Checks that tables of the target have the modes that the options give them. */
  def checkModes(tables: Seq[TableState]): Unit =
    tables.filter(_.generation > 0).map(_.table).foreach { table =>
      val wanted = options.modeOf(table.source.name)
      if (wanted.name != table.mode.name)
        throw LakeError.otherMode(table.source.name.toString, table.mode.name, wanted.name)
    }

  /** Looks for what changes in the catalog do not tell: see [[TableEvidence]]. */
  def reason(kept: SourceTable, changes: Seq[TableChange]): Option[String] =
    if (changes.isEmpty) None else client.query(TableEvidence.reason(_, kept, changes))
}
