package io.sparkpgoutput.lake.core

import java.time.Instant

import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.{MirroredTable, SourceTable, TableMode}
import io.sparkpgoutput.lake.core.TableStatus.{Copying, Failed, Live}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.slot.{Server, SourceIdentity}
import io.sparkpgoutput.types.InfinityMode

/**
 * What a job keeps between its runs, in `state/<epoch>.json` of its checkpoint folder.
 *
 * @param id the UUID of the job
 * @param timeline the timeline of the server from which the slot was read last
 * @param serverStarted
 *   when the process of this server started, as a text; None if an earlier version of the job wrote the state
 * @param publications the publications of the last start
 * @param target the target as the options of the last start name it
 * @param format `delta` or `iceberg`
 * @param infinity the option of the last start
 * @param moneyScale the option of the last start
 * @param confirmed
 *   the highest LSN that the job can have confirmed to the server. The state with it is durable before the
 *   job confirms it. Each table that the job follows and that needs no copy has all transactions below it.
 * @param tables the tables by the oids that they have at the server
 * @param startedFor
 *   the ids of the requests with which the job has started over, those of the last time first. Their files can still be
 *   there, and older states of tables have them.
 */
final case class JobState(
    id: String,
    systemIdentifier: String,
    timeline: Int,
    database: String,
    slot: String,
    publications: Seq[String],
    target: String,
    format: String,
    confirmed: Long,
    tables: Map[Long, TableState] = Map.empty,
    infinity: String = InfinityMode.Error.name,
    moneyScale: Int = 2,
    startedFor: Seq[String] = Nil,
    serverStarted: Option[String] = None
) {

  /**
   * Returns whether a server is the process that the slot was read from last. If a standby is promoted, or follows
   * another primary that is, its process and its sessions go on. What they have read is in its history, on whatever
   * timeline.
   */
  def isReadFrom(server: Server): Boolean =
    systemIdentifier == server.systemIdentifier && serverStarted.contains(server.started)

  /** What the job reads, in words. */
  def source: String =
    s"the slot '$slot' of the database '$database' at the server with the system identifier " +
      systemIdentifier

  /** The server and the slot, for the checks before the slot is read. */
  def identity: SourceIdentity = SourceIdentity(
    id,
    systemIdentifier,
    Seq(timeline),
    database,
    slot,
    Map.empty,
    confirmed,
    new StructType
  )

  /**
   * The LSN below which the server must have everything that the job has read: the confirmed LSN, or the newest mark of
   * a table if that is higher. A table that needs a copy counts only if its copy is being committed.
   */
  def walEnd: Long = tables.values.flatMap { table =>
    table.status match {
      case Copying(_, lsn)                           => lsn
      case _ if !table.isFollowed || table.needsCopy => None
      case _                                         => table.newestMark
    }
  }.foldLeft(confirmed)(Lsn.max)

  /**
   * The names of the tables in the target that have rows of the job, as far as it knows. A table whose name another
   * table has got does not count.
   */
  def written: Seq[String] =
    tables.values.filter(table => table.owns && table.mark.nonEmpty).flatMap(_.table.targets).toSeq

  /**
   * The table of each name. Of several tables that have had a name, it is the newest one that the job follows. If there
   * is none, it is the newest one that the options exclude, and then the newest one that is not published any more.
   */
  lazy val named: Map[TableName, TableState] = tables.values.groupBy(_.name).map {
    case (name, all) =>
      name -> all.maxBy(table => (table.isFollowed, table.status != TableStatus.Dropped, table.oid))
  }

  /** Adds a table, or replaces what is known of it. If it is not live, its status alone says whether it is copied. */
  def put(table: TableState): JobState = {
    val settled = (table.status, table.copyReason) match {
      case (failed: Failed, Some(_)) =>
        table.copy(status = failed.copy(needsCopy = true), copyReason = None)
      case (Live, _) => table
      case _         => table.copy(copyReason = None)
    }
    copy(tables = tables + (table.oid -> settled))
  }
}

/**
 * What a job keeps of a table.
 *
 * @param table the definition by which the target's columns were made
 * @param number the number of this definition. The target's table has it as a property.
 * @param next the definition to which the columns of the target are being changed, if they are
 * @param formerNames
 *   the current names of columns by the names that they had since the copy. Messages that were written before a
 *   rename have the former name. The name of a dropped column is its own current name: the target keeps that column.
 * @param generation
 *   the number of the table's last copy, which no other copy of the job had before; 0 if no copy has begun
 * @param mark
 *   the mark of the last commit that the job knows of. If the target has two tables of the table, it is the lesser one
 *   of their marks.
 * @param lastChange the time of the last commit at the server that changed the table
 * @param ahead
 *   the greater mark of the two tables, if a process ended between their commits. It is not in the file of the state: a
 *   start reads it from the target.
 * @param copyReason
 *   why the table, which is live and keeps old rows, is copied as soon as it has the changes before the copy
 * @param former what the rows of the target are while the table is copied. A copy keeps some of them.
 */
final case class TableState(
    table: MirroredTable,
    status: TableStatus,
    number: Int = 1,
    next: Option[NextDefinition] = None,
    formerNames: Map[String, String] = Map.empty,
    generation: Int = 0,
    mark: Option[Long] = None,
    lastChange: Option[Instant] = None,
    ahead: Option[Long] = None,
    copyReason: Option[String] = None,
    former: Option[FormerDefinition] = None
) {
  def oid: Long = table.source.oid
  def name: TableName = table.source.name
  def target: String = table.target

  /** This state for each table of the target that the job writes for the table: a mirror, a history, or both. */
  def parts: Seq[TableState] = table.parts.map(part => copy(table = part))

  /** The greatest mark. No table of the target has a transaction at this LSN or above. */
  def newestMark: Option[Long] = (mark ++ ahead).reduceOption(Lsn.max(_, _))

  /** Returns whether the table owns its name in the target: nobody else may write the table of this name. */
  def owns: Boolean = generation > 0 && isFollowed && target.nonEmpty

  /** The names in the target that the table owns, as keys. */
  def owned: Seq[String] = if (owns) table.keys else Nil

  /**
   * Returns whether the job follows the table. If not, it is excluded or not published, and the job leaves it as it is.
   */
  def isFollowed: Boolean = status != TableStatus.Dropped && status != TableStatus.Excluded

  /**
   * Returns whether the job may forget the table, which it leaves as it is. The definition of a table with hidden
   * columns says which ones they are, if the table comes back with other names.
   */
  def isForgettable: Boolean = !isFollowed && table.source.hidden.isEmpty

  /**
   * Returns whether the target needs a copy of the table before changes can be applied to it. Such a table
   * has no queue until its copy begins, so the server may forget its changes.
   */
  def needsCopy: Boolean = status match {
    case Copying(_, _)          => true
    case Failed(_, _, needs, _) => needs
    case _                      => false
  }

  /** Returns whether the job copies the table as soon as it can. */
  def wantsCopy: Boolean = needsCopy || copyReason.nonEmpty

  /** This state with the status that the table needs a copy. */
  def copying(reason: String): TableState = copy(status = Copying(reason), copyReason = None)

  def isFailed: Boolean = status.isInstanceOf[TableStatus.Failed]

  /** Whether a copy of it is under way. */
  def isCopying: Boolean = status.isInstanceOf[TableStatus.Copying]

  /** Whether it is copied, and its snapshot is not made yet. */
  def awaitsSnapshot: Boolean = status match {
    case Copying(_, snapshot) => snapshot.isEmpty
    case _                    => false
  }

  /**
   * This state with the current definition as the former one, for a table that gets the definition or the generation of
   * another copy. Until a copy is committed, the rows of the target have the definition that the table had before the
   * first try. A table with the number 1 has no former definition: the snapshot of its first copy is not noted yet, so
   * no rows have this definition.
   */
  def keepingFormer: TableState =
    if (former.nonEmpty || number == 1) this
    else {
      val before = table.source.columns.map(column => column.number -> column.name).toMap
      val renamed = next.toSeq.flatMap(_.table.source.columns)
        .filter(column => before.get(column.number).exists(_ != column.name))
      copy(former =
        Some(FormerDefinition(table, generation, renamed.map(one => one.number -> one.name).toMap))
      )
    }

  /** Notes more columns that are to be hidden, of a table that has no copy yet. */
  def hidingAlso(now: SourceTable): TableState = {
    val known = table.source.hidden.map(_.number).toSet
    val added = now.hidden.filterNot(column => known(column.number))
    copy(table = table.copy(source = table.source.copy(excluded = table.source.excluded ++ added)))
  }

  def markName(job: String): MarkName = MarkName(job, oid, generation)

  /** This state after a look at the catalog has found the same definition. */
  def seenAt(horizon: Long): TableState =
    copy(table = table.copy(source = table.source.copy(horizon = horizon)))

  /** The names of all columns that the table has had since the copy, also of dropped ones. */
  def columnNames: Set[String] = table.schema.fieldNames.toSet ++ formerNames.keySet
}

/** A definition of a table to which the columns of the target are being changed. */
final case class NextDefinition(table: MirroredTable, formerNames: Map[String, String])

/**
 * The definition by which the rows of a target were written.
 *
 * @param generation
 *   the generation that the table had before the copy. If the rows of the target are not those of this generation, they
 *   have another definition, for example because a later copy was committed in spite of an error.
 * @param renamed
 *   the names that a change of columns, which was not noted as done, can have given to columns of the target, by the
 *   numbers of the columns
 */
final case class FormerDefinition(
    table: MirroredTable,
    generation: Int,
    renamed: Map[Int, String] = Map.empty
)

/**
 * The status of a table.
 *
 * @param why why the table has this status, if that needs a reason
 */
sealed abstract class TableStatus(val name: String, val why: Option[String] = None)

object TableStatus {

  /**
   * The table is copied, or will be. Readers see the old rows, if there are any, until the copy is
   * committed.
   *
   * @param reason why, a sentence
   * @param lsn the LSN of the copy's snapshot, as soon as it is known
   */
  final case class Copying(reason: String, lsn: Option[Long] = None)
      extends TableStatus("copying", Some(reason))

  /** Changes of the table are applied. */
  case object Live extends TableStatus("live")

  /**
   * The table does not advance because of an error, and other tables go on. Its rows stay.
   *
   * @param reason the text of the error
   * @param needsCopy whether the table is copied when the error is gone
   * @param isLasting true if the job tries again only at its next start, or when the table or its rights change
   */
  final case class Failed(
      reason: String,
      since: Instant,
      needsCopy: Boolean,
      isLasting: Boolean
  ) extends TableStatus("failed", Some(reason))

  /** The server does not publish the table any more. Its rows stay. */
  case object Dropped extends TableStatus("dropped")

  /** The options exclude the table. Its rows stay. If later options include it again, it is copied. */
  case object Excluded extends TableStatus("excluded")
}

/**
 * The name under which a table of the target has its mark. The mark is an LSN: all transactions with a lower commit LSN
 * are in the table.
 *
 * Each copy of a table begins a new generation, which is greater than all earlier generations of the job. A
 * table of the target can get another owner. So a commit is refused if the table has a mark of a greater
 * generation of any owner: a process that was suspended cannot write a table that it does not own any more.
 *
 * @param job the UUID of the job
 * @param oid the oid of the source table
 * @param generation the number of the copy
 */
final case class MarkName(job: String, oid: Long, generation: Int) {
  override def toString: String = s"${MarkName.prefix(job)}$oid-$generation"

  /** The name that the next copy of the table gets. */
  def next: MarkName = copy(generation = generation + 1)

  /** Returns whether one of these names is the mark of a newer copy. Names of another form do not count. */
  def isReplaced(names: Iterable[String]): Boolean =
    MarkName.newest(names, job).exists(_.generation > generation)
}

object MarkName {
  private def prefix(job: String) = s"spark-pgoutput-$job-"

  /** Finds the marks of a job among these names. */
  private def of(names: Iterable[String], job: String): Iterable[MarkName] =
    names.filter(_.startsWith(prefix(job))).flatMap { name =>
      name.stripPrefix(prefix(job)).split('-') match {
        case Array(oid, generation) =>
          for (oid <- oid.toLongOption; number <- generation.toIntOption)
            yield MarkName(job, oid, number)
        case _ => None
      }
    }

  /** Finds the mark of a job with the greatest generation, for any source table. */
  def newest(names: Iterable[String], job: String): Option[MarkName] =
    of(names, job).maxByOption(_.generation)

  /** Finds the newest generation of a table's copies. */
  def newest(names: Iterable[String], job: String, oid: Long): Option[Int] =
    of(names, job).filter(_.oid == oid).map(_.generation).maxOption
}

/** Which table gets which name in the target, when tables are renamed, dropped and made again. */
private object TargetOwners {
  import MirroredTable.folded

  /**
   * Returns the new names that tables get in the target, by the oids of the tables. A table of the target belongs to
   * the table that has its name at the server now. A table that was renamed to a name that no table had before keeps
   * the name that it has in the target.
   *
   * @param published what the catalog has
   * @param state has each published table
   */
  def moves(published: Seq[CatalogEntry], state: JobState): Map[Long, String] = {
    val possible = published.filter(_.problem.isEmpty)
    val natural = possible.flatMap(found => found.naturals.map(folded(_) -> found.oid)).toMap
    possible.flatMap { found =>
      val table = state.tables(found.oid)
      found.natural.filter { name =>
        val wanted = found.naturals.map(folded)
        def isTaken = state.tables.values.exists(other =>
          other.oid != table.oid && other.table.keys.exists(wanted.contains)
        )
        // The user can give a new name to a table that has to be copied, for example because the target has
        // another table of the old name.
        val isNew = table.generation == 0 || (found.isNamed && table.needsCopy)
        if (folded(name) == folded(table.target)) table.generation == 0 && isTaken
        else isNew || table.target.isEmpty || isTaken ||
        table.table.keys.flatMap(natural.get).exists(_ != table.oid)
      }.map(found.oid -> _)
    }.toMap
  }

  /**
   * Returns the tables that get or lose a name in the target by moves.
   *
   * @param modes the modes that tables get with their names
   */
  def involved(
      moves: Map[Long, String],
      state: JobState,
      modes: Long => Option[TableMode]
  ): Set[Long] = {
    val moved = moves.toSeq.flatMap { case (oid, name) =>
      val table = state.tables(oid).table
      table.copy(target = name, mode = modes(oid).getOrElse(table.mode)).keys
    }.toSet
    moves.keySet ++ state.tables.values.filter(_.table.keys.exists(moved)).map(_.oid)
  }
}
