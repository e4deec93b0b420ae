package io.sparkpgoutput.lake.state

import scala.util.Try

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.{AnalysisException, Row, SparkSession}

import io.sparkpgoutput.lake.table.{MirroredTable, TableMode}
import io.sparkpgoutput.lake.target.{MarkName, Target, TargetError, TargetNames, TargetWrite}
import io.sparkpgoutput.lake.{LakeError, LakeException}

/** The properties that a job gives to its tables when it makes them, and the marks in them. */
object TargetMarks {
  private val Prefix = "spark-pgoutput."
  final private val Version = "1"

  private val VersionKey = s"${Prefix}version"
  private val SystemIdentifier = s"${Prefix}system-identifier"
  private val Database = s"${Prefix}database"
  private val Slot = s"${Prefix}slot"
  private val Job = s"${Prefix}job"
  private val TableOid = s"${Prefix}table-oid"
  private val Generation = s"${Prefix}generation"
  private val Stopped = s"${Prefix}stopped"
  private val Mode = s"${Prefix}mode"
  private val HistoryPrefix = s"${Prefix}history-prefix"

  /** The mark of the table in which changes wait for a copy, which must be there. */
  def waiting(target: Target, job: JobState, table: TableState): Option[Long] =
    target.mark(table.waitingName, table.markName(job))

  /** The properties of a new table. */
  def properties(job: JobState, table: TableState): Map[String, String] = Map(
    VersionKey -> Version,
    SystemIdentifier -> job.systemIdentifier,
    Database -> job.database,
    Slot -> job.slot,
    Job -> job.id,
    TableOid -> table.oid.toString,
    Generation -> table.generation.toString
  ) ++ (table.table.mode match {
    case TableMode.Mirror          => Map.empty
    case TableMode.History(prefix) => Map(Mode -> TableMode.History.name, HistoryPrefix -> prefix)
  })

  /** The mode of a table, by its properties. */
  def mode(properties: Map[String, String]): TableMode = properties.get(Mode).flatMap(
    TableMode.of(_, properties.getOrElse(HistoryPrefix, TableMode.History.DefaultPrefix))
  ).getOrElse(TableMode.Mirror)

  /** Returns the modes of the tables that a job of a slot has made, by their oids. */
  def modes(target: Target, source: SlotIdentity): Map[Long, TableMode] =
    target.tables().filterNot(TargetNames.isReserved).map(properties(target, _))
      .filter(isOf(source, _)).map(found => found(TableOid).toLong -> mode(found)).toMap

  /** Checks that a table of the target has the mode that a table is to have. */
  def checkMode(table: MirroredTable, properties: Map[String, String]): Unit = {
    val found = mode(properties)
    if (found != table.mode)
      throw LakeError.otherMode(table.source.name.toString, found.name, table.mode.name)
  }

  /** Tells if a job has made a table of the target, for whichever source table. */
  def isMadeBy(job: JobState, target: Target, table: String): Boolean =
    properties(target, table).get(Job).contains(job.id)

  /** Tells if a table of the target has the rows of a source table. */
  def isCopyOf(job: JobState, target: Target, table: TableState): Boolean =
    isCopyOf(job, table, properties(target, table.target))

  private def isCopyOf(job: JobState, table: TableState, properties: Map[String, String]) =
    properties.get(Job).contains(job.id) && properties.get(TableOid).contains(table.oid.toString)

  /**
   * Gives a table that the job has made to a source table, which can be another one than before. No
   * process that knows only the one before can write the table from then on.
   */
  def take(session: SparkSession, target: Target, job: JobState, table: TableState): Unit = {
    val found = properties(target, table.target)
    if (!isCopyOf(job, table, found)) close(session, target, table.target): Unit
    val wanted = properties(job, table)
    // The marks tell of a new generation, too.
    if ((wanted - Generation).exists { case (name, value) => !found.get(name).contains(value) })
      target.setProperties(table.target, wanted)
  }

  /**
   * Notes in a table that it is stopped. The slot moves past its changes, so its mark alone would say too
   * little if the job's state were lost. A table of somebody else with its name is not touched.
   */
  def stop(job: JobState, target: Target, table: TableState, reason: String): Unit =
    if (target.exists(table.target) && isCopyOf(job, target, table))
      target.setProperties(table.target, Map(Stopped -> s"${table.generation} $reason"))

  /**
   * Returns each table of the target that a job has made, with the job that made it. The job can be
   * one of any server.
   */
  def jobs(target: Target): Map[String, String] =
    target.tables().filterNot(TargetNames.isReserved)
      .flatMap(table => properties(target, table).get(Job).map(table -> _)).toMap

  /**
   * Closes all generations of a table so far. A process that knows only these generations, for
   * example because it was suspended, cannot write the table any more. The rows and their mark
   * stay, under a new generation.
   *
   * @return the generation of the next copy
   */
  def close(session: SparkSession, target: Target, table: String): Int = {
    val found = properties(target, table)
    val name = newestName(target, table, found)
      .fold(MarkName(found(Job), found(TableOid).toLong, found(Generation).toInt))(_.next)
    val mark = newest(target, table)
    val own = ClonedSession.of(session)
    val none = own.createDataFrame(java.util.List.of[Row](), target.read(own, table).schema)
    target.commit(own, table, name, None, mark.getOrElse(0L))(TargetWrite.Append(none))
    name.next.generation
  }

  /** Returns the mark of the newest generation of a table, if a job has made it. */
  def newest(target: Target, table: String): Option[Long] =
    // A table of which an older state was restored has no valid mark.
    newestName(target, table, properties(target, table))
      .flatMap(name => Try(target.mark(table, name)).toOption.flatten)

  private def newestName(target: Target, table: String, properties: Map[String, String]) =
    for {
      job <- properties.get(Job)
      oid <- properties.get(TableOid).flatMap(_.toLongOption)
      generation <- target.generation(table, job, oid)
    } yield MarkName(job, oid, generation)

  /** Returns the newest generation of a table of the target that has a mark, if a job has made it. */
  def newestGeneration(target: Target, table: String): Option[Int] =
    if (target.exists(table))
      newestName(target, table, properties(target, table)).map(_.generation)
    else None

  /** Gives a table the properties of another copy, and says that it has not begun yet. */
  def renew(target: Target, job: JobState, table: TableState): Unit = target.setProperties(
    table.target,
    properties(job, table) +
      (Stopped -> s"${table.generation - 1} It was to be copied again, which did not begin.")
  )

  /**
   * Says that the job leaves a table of its own as it is. Its mark does not count any more.
   *
   * @param generation the generation of the next copy
   */
  def leave(target: Target, table: String, generation: Int): Unit = target.setProperties(
    table,
    Map(Stopped -> s"${generation - 1} The job began anew without it.")
  )

  /** Returns the generation of a table's copy, by the properties that it has. */
  def generation(target: Target, table: String): Option[Int] =
    if (!target.exists(table)) None
    else properties(target, table).get(Generation).flatMap(_.toIntOption)

  /**
   * Reads the marks of the tables that a job of this slot has made. A table that nobody knows is left
   * alone, unless the job would need its name.
   *
   * @param names the names in the target that the published tables need
   * @param job
   *   the job, if its state is there. A table that it left when it began anew can be of another slot.
   */
  def read(
      target: Target,
      source: SlotIdentity,
      names: Seq[String],
      job: Option[String]
  ): Seq[MarkedTable] = {
    val wanted = names.map(TargetNames.folded).toSet
    target.tables().filterNot(TargetNames.isReserved).flatMap { table =>
      val found = properties(target, table)
      if (isOf(source, found)) {
        if (!found.get(VersionKey).contains(Version))
          throw LakeError.stateVersion(table, found(VersionKey).toInt, Version.toInt)
        val (job, oid) = (found(Job), found(TableOid).toLong)
        val name =
          MarkName(job, oid, target.generation(table, job, oid).getOrElse(found(Generation).toInt))
        val stopped = found.get(Stopped).map(_.span(_ != ' ')).collect {
          case (generation, reason) if generation == name.generation.toString => reason.trim
        }
        val mark = target.mark(table, name)
        Some(MarkedTable(table, name.job, name.oid, name.generation, mark, stopped, mode(found)))
      } else {
        val isLeft = job.nonEmpty && found.get(Job) == job
        if (wanted(TargetNames.folded(table)) && !isLeft)
          throw LakeError.foreignTable(target.sqlName(table))
        None
      }
    }
  }

  /** A namespace can have views, and tables of other formats. */
  private def properties(target: Target, table: String): Map[String, String] =
    try target.properties(table)
    catch {
      case known: LakeException if known.getCondition == TargetError.Format => Map.empty
      case _: AnalysisException                                             => Map.empty
    }

  private def isOf(source: SlotIdentity, properties: Map[String, String]) =
    properties.get(SystemIdentifier).contains(source.systemIdentifier) &&
      properties.get(Database).contains(source.database) &&
      properties.get(Slot).contains(source.slot)
}
