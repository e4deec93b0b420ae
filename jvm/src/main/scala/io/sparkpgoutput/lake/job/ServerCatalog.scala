package io.sparkpgoutput.lake.job

import java.io.IOException
import java.util.concurrent.TimeUnit

import scala.collection.concurrent.TrieMap

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog._
import io.sparkpgoutput.lake.core.{CatalogEntry, JobState, TableState}
import io.sparkpgoutput.lake.queue.SlotReader
import io.sparkpgoutput.lake.target.{TableEvolution, Target, TargetNames, TargetShapes, TargetTypes}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.{ServerClient, ServerConnection, SqlState}
import io.sparkpgoutput.source.slot.{Server, SlotChecks}

/**
 * The published tables by the server's catalog, with their names and types in the target.
 *
 * A cut of changes is planned by a catalog that is at least as new as its changes: each transaction of the
 * cut must be visible in the snapshot in which the catalog was read. This is not always so at once: a commit
 * that waits for a synchronous standby is in the WAL, and so in the stream, before other sessions see it
 * (`SyncRepWaitForLSN` in `syncrep.c`). And a standby can be behind.
 *
 * To read the catalog of a table takes several queries. So each cut asks only for a fingerprint of what
 * belongs to the table, in one query, and the catalog is read again if it has changed.
 *
 * @param histories the histories that the target had at the start of the job, by their names as keys
 */
final class ServerCatalog(
    client: ServerClient,
    server: Server,
    options: ReplicateOptions,
    target: Target,
    histories: Map[String, TableMode.History] = Map.empty
) {
  import ServerCatalog._

  /** The fingerprint of each table when its definition in the state was read. */
  private val fingerprints = TrieMap.empty[Long, String]

  /** Each table at the last time when all were read, with its fingerprint. */
  private val latest = TrieMap.empty[Long, (String, Either[LakeException, MirroredTable])]

  /** The name of each table at the last look at it. */
  private val names = TrieMap.empty[Long, TableName]

  def nameOf(oid: Long): Option[TableName] = names.get(oid)

  /**
   * Reads all published tables. For a table that the options exclude, it only reports that the table exists.
   *
   * @param state
   *   what the job knows about the tables. They keep their modes, and also their names if no other table has
   *   them.
   */
  def all(state: JobState): Seq[CatalogEntry] = client.query { connection =>
    connection.inSnapshot {
      checkRecovery(connection)
      val prints = fingerprint(connection, None)
      val (excluded, sources) = published(connection).partition(isExcluded)
      val tables = mirrored(connection, sources, state)
      note(prints, tables)
      val oids = (sources ++ excluded).map(_.oid).toSet ++ state.tables.keySet
      Seq(fingerprints, latest, names).foreach(_.filterInPlace((oid, _) => oids(oid)))
      // Only a table that is to be copied needs the rights that a copy needs.
      val copied = tables.collect {
        case (source, _, table)
            if !source.isLocked && state.tables.get(source.oid).forall(_.wantsCopy) =>
          table.fold(_ => source, _.source)
      }
      val readiness = ServerReadiness.of(connection, copied, options.publications)
      tables.map { case (source, natural, table) =>
        val problem = table.left.toOption.map(_.getMessage)
          .orElse(readiness.tables.get(source.oid).filter(_.nonEmpty).map(missing =>
            TableError.notReady(missing).getMessage
          ))
        CatalogEntry(
          table.getOrElse(MirroredTable.none(options.hiding.unchecked(source))),
          natural,
          problem,
          prints.byOid.getOrElse(source.oid, ""),
          natural.fold(modeOf(source))(keepingColumns(modeOf(source), _)),
          options.names.keys.exists(TargetNames.isOf(_, source.name))
        )
      } ++ excluded.map(source => CatalogEntry(MirroredTable.none(source), None, None, ""))
    }
  }

  /** An ALTER TABLE of a table with a row filter delays no other table. */
  private def published(connection: ServerConnection) =
    PublishedTables.read(connection, options.publications, waitsForLocks = false)

  private def isExcluded(source: SourceTable) = options.excludes(source.name)

  /**
   * Looks at a table for a cut. `Left` says why the catalog is older than the cut, so that the job asks again.
   *
   * @param xids the transactions of the cut
   */
  def look(table: TableState, state: JobState, xids: Array[Long]): Either[String, Look] =
    client.query { connection =>
      val print = fingerprint(connection, Some(Seq(table.oid)))
      if (print.inRecovery) checkRecovery(connection)
      if (!xids.forall(print.snapshot.sees)) Left(NotVisible)
      else print.byOid.get(table.oid) match {
        case None                                                   => Right(Look.Gone)
        case Some(now) if fingerprints.get(table.oid).contains(now) => Right(Look.Same)
        case Some(now) if latest.get(table.oid).exists(_._1 == now) => Right(changed(table.oid))
        case _ => read(connection, table, state, xids)
      }
    }

  private def changed(oid: Long): Look = latest(oid) match {
    case (_, Left(error))            => throw error
    case (fingerprint, Right(table)) => Look.Changed(table, fingerprint)
  }

  private def note(prints: CatalogFingerprint, tables: Seq[Mirrored]): Unit = tables.foreach {
    case (source, _, table) =>
      names.put(source.oid, source.name)
      prints.byOid.get(source.oid).filterNot(_ => source.isLocked)
        .foreach(print => latest.put(source.oid, print -> table))
  }

  private def read(
      connection: ServerConnection,
      table: TableState,
      state: JobState,
      xids: Array[Long]
  ): Either[String, Look] = connection.inSnapshot {
    val prints = fingerprint(connection, None)
    val sources = published(connection).filterNot(isExcluded)
    note(prints, mirrored(connection, sources, state))
    if (!xids.forall(prints.snapshot.sees)) Left("the catalog of the server is behind")
    else sources.find(_.oid == table.oid).filter(_ => prints.byOid.contains(table.oid)) match {
      case None => Right(Look.Gone)
      case Some(source) if source.isLocked =>
        throw new Waiting(
          s"The changes of ${table.name} wait for another session, which has locked the table."
        )
      case _ => Right(changed(table.oid))
    }
  }

  /** Notes that the definition of a table in the state belongs to a fingerprint. */
  def follows(oid: Long, fingerprint: String): Unit = fingerprints.put(oid, fingerprint): Unit

  /** Lets the next cut of a table read the catalog. */
  def forget(oid: Long): Unit = fingerprints.remove(oid): Unit

  /**
   * Reads one published table.
   *
   * @throws LakeException if it is not published, cannot be in the target, or cannot be copied
   */
  def forCopy(table: TableState, state: JobState): MirroredTable = client.query { connection =>
    connection.inSnapshot {
      checkRecovery(connection)
      val source = PublishedTables
        .readOne(connection, options.publications, table.oid)
        .filterNot(isExcluded)
        .getOrElse(
          throw new LakeException("PGOUTPUT_TABLE_CHANGED.NOT_PUBLISHED", "table" -> table.name)
        )
      val (_, _, mirroredOrError) = mirrored(connection, Seq(source), state).head
      val now = mirroredOrError.fold(error => throw error, identity)
      val missing = ServerReadiness.of(connection, Seq(now.source), options.publications)
        .tables.getOrElse(source.oid, Nil)
      if (missing.nonEmpty) throw TableError.notReady(missing)
      now.copy(target = table.target)
    }
  }

  /** Looks for what changes in the catalog do not show: see [[TableEvidence]]. */
  def reason(kept: SourceTable, changes: Seq[TableChange]): Option[String] =
    if (changes.isEmpty) None
    else client.alone { connection =>
      checkRecovery(Server.isStandby(connection))
      connection.unless(NoTable)(TableEvidence.reason(connection, kept, changes)).getOrElse(
        throw new Waiting(s"A partition of ${kept.name} was dropped or renamed in the meantime.")
      )
    }

  /**
   * Checks the whole job at its start. An option can name a table, column or type that does not exist. At the first
   * start, this is an error. At later starts, it is a warning, so that a dropped table does not stop the others.
   *
   * @throws LakeException that names everything that is missing for the job, or an option without a table
   */
  def checkJob(published: Seq[CatalogEntry], isFirst: Boolean, log: JobLog): Unit = {
    val sources = published.map(_.table.source)
    val followed = sources.filterNot(isExcluded)
    val missing = client.query(ServerReadiness.of(_, followed, options.publications)).job
    if (missing.nonEmpty) throw TableError.notReady(missing)
    def isUnused(name: String) = !sources.exists(source => TargetNames.isOf(name, source.name))
    def noTable(option: String) =
      new LakeException("PGOUTPUT_REPLICATE_OPTION.NO_TABLE", "option" -> option)
    // A table that gets its name later can be published later, too.
    for (name <- options.names.keys.toSeq.sorted if isUnused(name))
      log.warn(noTable(s"names.$name").sentences)
    val unused = options.ofTables.collect {
      case (option, name) if isUnused(name) => noTable(s"$option.$name")
    } ++
      MirroredTables.unusedTypes(sources, options.types) ++
      client.query(MirroredTables.unknownPgTypes(_, options.pgTypes))
    if (isFirst) unused.headOption.foreach(error => throw error)
    else unused.foreach(error => log.warn(error.sentences))
  }

  private var checkedConnections = 0

  /**
   * Checks that the server has all that the tables have, if the connection to it is a new one: after a
   * failover, it can lack changes. Each later look checks this again until the state has the timeline of the server.
   * A connection to a standby can go on with another timeline, so each look asks for it.
   *
   * @param renew begins a new session, which checks all that the last one has read, and notes the timeline
   * @return the server, if the slot is read from it on another timeline than that of the state
   */
  def moved(state: JobState, read: Long)(renew: => Unit): Option[Server] = {
    client.query(_.query("SELECT 1")(_ => ())) // finds out if the connection was lost
    if (client.connections == checkedConnections && !server.inRecovery) None
    else {
      val found = client.replication { connection =>
        val now = Server.of(connection)
        if (now.systemIdentifier != state.systemIdentifier)
          throw new LakeException(
            "PGOUTPUT_OTHER_JOB.OTHER_SOURCE",
            "kept" -> s"the server with the system identifier ${state.systemIdentifier}",
            "found" -> s"the server with the system identifier ${now.systemIdentifier}"
          )
        val has = Lsn.max(state.walEnd, read)
        SlotReader.checkTimeline(now, state, has)(connection)
        // A standby that has started again can still replay what it had replayed before.
        if (!now.inRecovery) SlotChecks.walEnd(state.slot, has, Server.flushLsn(connection))
        now
      }
      if (found.timeline == state.timeline) checkedConnections = client.connections
      Option.when(found.timeline != state.timeline) {
        if (!state.isReadFrom(found)) {
          // The reader can still read the old timeline.
          renew
          throw new Waiting(
            s"The server is on timeline ${found.timeline}, from which the slot is not read yet."
          )
        }
        found
      }
    }
  }

  /**
   * Fails if the connection of the client leads to a standby, and the job began with a primary. The
   * connection ends, because it would lead to the standby even when the primary is back.
   */
  def checkRecovery(connection: ServerConnection): Unit =
    try checkRecovery(Server.isStandby(connection))
    catch { case standby: IOException => client.disconnect(); throw standby }

  /**
   * Fails if a standby answers, and the job began with a primary. The URL can name both, and the standby
   * answers while the primary is away. It has no slot of the job, and lacks the newest tables.
   */
  def checkRecovery(inRecovery: Boolean): Unit = if (inRecovery && !server.inRecovery)
    throw new IOException(
      "The server that answers is a standby, and the job reads from the primary."
    )

  private def fingerprint(connection: ServerConnection, oids: Option[Seq[Long]]) =
    CatalogFingerprint.read(connection, options.publications, oids)

  private def mirrored(
      connection: ServerConnection,
      sources: Seq[SourceTable],
      state: JobState
  ): Seq[Mirrored] = {
    val asked = sources.map(source =>
      source.oid -> modeOf(source, state.tables.get(source.oid))
    ).toMap
    val natural =
      sources.map(source => source.oid -> attempt(naturalName(source, asked(source.oid)))).toMap
    val modes = asked.map { case (oid, mode) =>
      val name = state.tables.get(oid).filter(_.generation > 0).map(_.target).filter(_.nonEmpty)
      oid -> name.orElse(natural(oid).toOption).fold(mode)(keepingColumns(mode, _))
    }
    val tables = MirroredTables.each(
      connection,
      sources,
      natural.view.mapValues(_.getOrElse("")).toMap,
      options.types,
      options.pgTypes,
      source => options.hiding(source, state.tables.get(source.oid).map(_.table.source))
    )
    val names = natural.map { case (oid, name) =>
      oid -> name.toSeq.flatMap(modes(oid).targets).map(MirroredTable.folded)
    }
    sources.zip(tables).map { case (source, table) =>
      val kept = state.tables.get(source.oid)
      val named = for {
        _ <- if (kept.exists(keepsName)) Right(()) else natural(source.oid)
        _ <- collision(source, sources, names, modes, state).toLeft(())
        mirrored <- table
        typed <- attempt(inTarget(mirrored, modes(source.oid)))
        shaped <- attempt(shaped(typed, kept))
      } yield shaped
      (source, natural(source.oid).toOption, named)
    }
  }

  /** A table that was renamed to a name that the target cannot have keeps the name that it has there. */
  private def keepsName(kept: TableState): Boolean = {
    val names = kept.table.targets
    kept.generation > 0 && names.nonEmpty && names.forall(target.nameProblem(_).isEmpty)
  }

  /**
   * The target already has another table with a name of this table.
   *
   * @param names the names that tables get by the options, as keys, by the oids of the tables
   */
  private def collision(
      source: SourceTable,
      sources: Seq[SourceTable],
      names: Map[Long, Seq[String]],
      modes: Map[Long, TableMode],
      state: JobState
  ): Option[LakeException] = rival(source.oid, names, state).flatMap { rival =>
    val tables = sources.filter(_.oid == rival) :+ source
    attempt(TargetNames.of(
      tables.map(_.name),
      options.tableName,
      options.names,
      target.nameProblem(_),
      names.values.flatten,
      name => modes(tables.find(_.name == name).get.oid)
    )).left.toOption
  }

  private def naturalName(source: SourceTable, mode: TableMode): String = TargetNames.of(
    Seq(source.name),
    options.tableName,
    options.names,
    target.nameProblem(_),
    modes = _ => mode
  )(source.name)

  /**
   * A table keeps its mode, but a mirror can get a history, and lose it. Deleted rows are marked by their key. If an
   * option names a table without a key, the table fails.
   */
  private def modeOf(source: SourceTable, kept: Option[TableState] = None): TableMode = {
    val mirror = options.mirrorOf(source.name) match {
      case TableMode.Marking if source.key.isEmpty => TableMode.Mirror
      case wanted                                  => wanted
    }
    (kept.filter(_.generation > 0).map(_.table.mode), options.modeOf(source.name)) match {
      case (Some(kept @ (TableMode.History(_) | TableMode.Versions)), _) => kept
      case (Some(TableMode.Both(_, history)), asked) if asked.name != TableMode.Mirror.name =>
        TableMode.Both(mirror, history)
      case (_, TableMode.Both(_, history)) => TableMode.Both(mirror, history)
      case (None, TableMode.Versions) if source.key.isEmpty && !options.namesMode(source.name) =>
        mirror
      case (None, asked @ (TableMode.History(_) | TableMode.Versions)) => asked
      case _                                                           => mirror
    }
  }

  /** A history that exists keeps the names of its columns, also if its mirror had none for a while. */
  private def keepingColumns(mode: TableMode, name: String): TableMode = {
    def kept(history: TableMode.History) =
      histories.getOrElse(MirroredTable.folded(mode.targets(name).last), history)
    mode match {
      case TableMode.Both(mirror, history) => TableMode.Both(mirror, kept(history))
      case history: TableMode.History      => kept(history)
      case _                               => mode
    }
  }

  /** The table with the types that the target has. Rows without a key are found by all columns. */
  private def inTarget(mirrored: MirroredTable, mode: TableMode): MirroredTable = {
    val table = mirrored.copy(mode = mode)
    val columns = table.schema.fieldNames.toSeq
    if (options.asksToMark(table.source.name) && !table.marks)
      throw new LakeException(
        "PGOUTPUT_REPLICATE_OPTION.MARK",
        "table" -> table.source.name,
        "what" -> (mode match {
          case TableMode.History(_) => "is a history, which has all deletes"
          case TableMode.Versions   => "has the mode versions, which keeps deleted rows"
          case _                    => "has no key"
        })
      )
    if (table.hasVersions && table.source.key.isEmpty)
      throw new LakeException("PGOUTPUT_REPLICATE_OPTION.NO_VERSIONS", "table" -> table.source.name)
    TargetNames.checkColumns(table.source.name, columns, mode, target.columnProblem)
    val isFoundByAll = table.source.key.isEmpty && table.source.identity == ReplicaIdentity.Full
    val key = if (isFoundByAll && !table.isHistory) columns else table.targetKey
    val name = table.source.name.toString
    table.copy(schema = TargetTypes.of(target.format, name, table.schema, key))
  }

  /**
   * The table with the shape that the options give it. If the options still say what they have said when the table was
   * made, they can name columns that the server has renamed or dropped since.
   */
  private def shaped(table: MirroredTable, kept: Option[TableState]): MirroredTable = {
    val wanted = options.shapeOf(table.source.name)
    val live = kept.filter(state => state.owns && !state.needsCopy)
    val shape = live.flatMap(TableEvolution.sameShape(_, table.source, wanted)).getOrElse {
      table.parts.foreach(part =>
        TargetShapes.check(target.format, table.source.name, part.targetSchema, wanted)
      )
      wanted
    }
    table.copy(shape = shape)
  }

  private def attempt[T](body: => T): Either[LakeException, T] =
    try Right(body)
    catch { case error: LakeException => Left(error) }
}

object ServerCatalog {

  /** A table with its name by the options, and how it is in the target or why it cannot be there. */
  private type Mirrored = (SourceTable, Option[String], Either[LakeException, MirroredTable])

  /**
   * Returns the table that keeps another one from a name in the target: the table that owns the name, or else the one
   * with the lower oid.
   *
   * @param names the names that tables get by the options, as keys, by the oids of the tables
   */
  private[job] def rival(
      oid: Long,
      names: Map[Long, Seq[String]],
      state: JobState
  ): Option[Long] = {
    def owned(other: Long) = state.tables.get(other).toSeq.flatMap(_.owned)
    // An owner of another name has no claim to these.
    def rank(of: Long, names: Seq[String]) = (!owned(of).exists(names.contains), of)
    val own = names(oid)
    // There can be thousands of tables, of which nearly all have other names.
    val rivals = names.keysIterator
      .filter(other => other != oid && names(other).exists(own.contains))
    val ranks = for {
      other <- rivals
      common = names(other).intersect(own)
      if Ordering[(Boolean, Long)].lt(rank(other, common), rank(oid, common))
    } yield rank(other, common)
    ranks.minOption.map { case (_, other) => other }
  }

  /** Why a catalog is older than a transaction that was read. */
  private[job] val NotVisible =
    "the server has not made the last commits visible yet, which wait for a standby"

  /** Asks until the catalog is new enough, for two seconds. A synchronous standby can take milliseconds. */
  private[job] def whileBehind[T](ask: => Either[String, T]): Either[String, T] = {
    val deadline = System.nanoTime() + WaitForCatalog
    var answer = ask
    while (answer.isLeft && System.nanoTime() < deadline) {
      Thread.sleep(PauseMillis)
      answer = ask
    }
    answer
  }

  /** A query of the rows of a partition uses the name from an earlier look. The next try reads the catalog again. */
  private val NoTable = Set(SqlState.UndefinedTable, SqlState.InvalidSchemaName)

  private val WaitForCatalog = TimeUnit.SECONDS.toNanos(2)
  final private val PauseMillis = 10L

  /** The result of a look at a table for a cut. */
  sealed trait Look

  object Look {

    /** The definition in the state is right. */
    case object Same extends Look

    /** The table is not published any more. Its last definition holds. */
    case object Gone extends Look

    /** Something has changed. */
    final case class Changed(table: MirroredTable, fingerprint: String) extends Look
  }
}
