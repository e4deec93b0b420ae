package io.sparkpgoutput.lake.target

import scala.collection.immutable.SortedMap
import scala.jdk.CollectionConverters._
import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.{AnalysisException, Row, SparkSession}

import com.fasterxml.jackson.databind.ObjectMapper

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{MirroredTable, OnDeletes, TableMode, TableShape}
import io.sparkpgoutput.lake.core.{JobState, MarkName, TableState}
import io.sparkpgoutput.lake.direct.SideBySide

/**
 * The tables of a target that a job has made. Each has properties that say which job made it, and of
 * which source table it is a copy. The mark of the newest generation says which changes it has. A clone of such a table
 * has the same properties, and so has a copy of its folder. The properties say the name of the other table.
 *
 * No other table of the target is touched.
 */
final class OwnTables(session: SparkSession, val target: Target) {
  import MirroredTable.folded
  import OwnTables._

  /** The properties of a table. */
  def propertiesOf(job: JobState, table: TableState): Map[String, String] = Map(
    VersionKey -> Version.toString,
    SystemIdentifier -> job.systemIdentifier,
    Database -> job.database,
    Slot -> job.slot,
    Job -> job.id,
    Name -> table.target,
    TableOid -> table.oid.toString,
    Generation -> table.generation.toString
  ) ++ ofDefinition(table)

  private def ofDefinition(table: TableState): Map[String, String] = {
    val mode = table.table.mode match {
      case TableMode.History(prefix) => Map(Mode -> TableMode.History.name, HistoryPrefix -> prefix)
      case TableMode.Versions        => Map(Mode -> TableMode.Versions.name)
      case mirror =>
        Map(OnDelete -> (if (mirror == TableMode.Marking) OnDeletes.Mark else OnDeletes.Delete))
    }
    val shape = Option.when(!table.table.shape.isNone)(Shape -> table.table.shape.toString)
    mode ++ shape ++ ofHashes(saltsOf(table.table)) + (Definition -> table.number.toString)
  }

  private def saltsOf(table: MirroredTable) =
    table.source.columns.flatMap(column => column.hash.map(column.name -> _)).toMap

  private def ofHashes(salts: Map[String, String]) = Option.when(salts.nonEmpty)(
    Hashes -> json.writeValueAsString(SortedMap.from(salts).asJava)
  )

  private def hashesIn(properties: Map[String, String]): Map[String, String] =
    properties.get(Hashes).flatMap(text =>
      Try(json.readValue(text, classOf[java.util.Map[String, String]])).toOption
    ).map(_.asScala.toMap).getOrElse(Map.empty)

  /** Returns whether the rows of a table are those of a source table, and the deleted ones are marked. */
  def marks(job: JobState, table: TableState): Boolean = isOf(job, table) &&
    propertiesIn(table.target).get(OnDelete).contains(OnDeletes.Mark)

  /** Returns whether the rows of a table are those of a source table, by its newest mark. */
  def isOf(job: JobState, table: TableState): Boolean = target.exists(table.target) &&
    target.newest(table.target, job.id).exists(_.oid == table.oid)

  /**
   * Returns the salts of the hashes in a table, by the names of its columns. They are known also if the rows are those
   * of another table of the server, for example because that table was made again. A copy writes them into the
   * properties when it begins, so none are known until this copy is committed.
   */
  def hashes(job: JobState, table: TableState): Map[String, String] = {
    val found = made(job, table).getOrElse(Map.empty)
    val begun = found.get(Generation).flatMap(_.toIntOption)
    val isCommitted = begun.exists(generations(job, table).contains)
    if (isCommitted) hashesIn(found) else Map.empty
  }

  /**
   * Makes the table of the target for a copy, or prepares the table that the job has already made.
   *
   * @return whether the table is new, and has no rows
   * @throws LakeException if somebody else has made the table, or if it has another mode
   */
  def prepare(job: JobState, table: TableState, properties: Map[String, String]): Boolean =
    if (!target.exists(table.target)) {
      target.create(
        table.target,
        table.table.targetSchema,
        table.table.targetKey,
        properties ++ propertiesOf(job, table),
        table.table.shape
      )
      true
    } else {
      val found = propertiesIn(table.target)
      if (!isOfJob(job, found))
        throw new LakeException(
          "PGOUTPUT_TARGET_EXISTS.FOREIGN_TABLE",
          "table" -> target.sqlName(table.target),
          "source" -> table.name,
          "free" -> free(table.target)
        )
      checkVersion(table.target, found)
      checkMode(table.table, found)
      // The options can have given it a shape or hashes that they do not give it any more.
      val wanted = Seq(Shape, Hashes).filter(found.contains).map(_ -> "").toMap ++
        propertiesOf(job, table)
      if (wanted.exists { case (name, value) => !found.get(name).contains(value) })
        target.setProperties(table.target, wanted)
      false
    }

  /** Returns the shape that the options give a table; None if they have never given it one. */
  def shape(table: TableState): Option[TableShape] =
    Option.when(propertiesIn(table.target).contains(Shape))(table.table.shape)

  private def free(name: String) =
    Iterator.from(2).map(number => s"${name}_$number").find(!target.exists(_)).get

  /**
   * Notes the number and the mode of a definition, after the columns were changed to it, and the hashes of columns that
   * it has added. Columns that the server has dropped keep their hashes in the target.
   *
   * @param next the definition
   */
  def noteDefinition(table: TableState, next: MirroredTable): Unit = {
    val plain = next.source.columns.filter(_.hash.isEmpty).map(_.name)
    val salts = hashesIn(propertiesIn(table.target)) -- plain ++ saltsOf(next)
    target.setProperties(table.target, ofDefinition(table) ++ ofHashes(salts))
  }

  /** Notes the server of a job, which is another one after an upgrade. */
  def noteServer(table: String, job: JobState): Unit =
    target.setProperties(table, Map(SystemIdentifier -> job.systemIdentifier))

  private def checkVersion(table: String, properties: Map[String, String]): Unit =
    properties.get(VersionKey).flatMap(_.toIntOption).filter(_ > Version).foreach { version =>
      throw new LakeException(
        "PGOUTPUT_CHECKPOINT_VERSION.TARGET_TABLE",
        "table" -> target.sqlName(table),
        "found" -> version,
        "known" -> Version
      )
    }

  private def checkMode(table: MirroredTable, properties: Map[String, String]): Unit = {
    val found = modeOf(properties)
    if (found.name != table.mode.name)
      throw new LakeException(
        "PGOUTPUT_REPLICATE_OPTION.MODE",
        "table" -> table.source.name,
        "kept" -> found.name,
        "wanted" -> table.mode.name
      )
  }

  /**
   * Closes all generations of a table so far. A process that knows only these generations, for example because it was
   * suspended, cannot write the table any more. The rows and their mark stay, under a new generation, which is the same
   * one for a mirror and its history. No copy has had this generation, not even one that was not committed. A property
   * notes it, because the rows are still those of an earlier copy.
   *
   * @param tables the tables of the target that belong to one table of the server
   * @return the new generation
   */
  def close(tables: String*): Int = {
    val found = tables.map(table => table -> propertiesIn(table))
    val generation = found.flatMap { case (table, properties) =>
      newestName(table, properties).map(_.generation) ++ properties.get(Generation).map(_.toInt)
    }.max + 1
    found.foreach { case (table, properties) =>
      val same = generations(table, properties) :+ generation
      target.setProperties(table, Map(Closed -> same.mkString(",")))
      close(table, properties, generation)
    }
    generation
  }

  private def close(table: String, found: Map[String, String], generation: Int): Unit = {
    val name = MarkName(found(Job), found(TableOid).toLong, generation)
    val own = ClonedSession.of(session)
    val none = own.createDataFrame(java.util.List.of[Row](), target.read(own, table).schema)
    val mark = newest(table, found).getOrElse(0L)
    target.commit(own, table, name, None, mark)(TargetWrite.Append(none))
  }

  /**
   * Returns all tables of the target that a job has made. A table that cannot be read, for example because its log
   * lacks a file, does not keep the others from being found.
   *
   * @param wanted which ones, by their properties
   * @throws Throwable the error of a table, if none can be read, because then the store can be away
   */
  def found(wanted: Properties => Boolean = _ => true): FoundTables = {
    val tables = target.tables()
    def look(table: String) = Properties.of(propertiesIn(table)).filter(wanted).map { own =>
      val generation = target.generation(table, own.job, own.oid)
      val name = MarkName(own.job, own.oid, generation.getOrElse(own.generation))
      OwnTable(table, own, name.generation, () => target.mark(table, name))
    }
    // A target can have hundreds of tables, and each look takes a while.
    val looks = tables.zip(SideBySide(tables, Threads)(table => Try(look(table))))
    val unread = looks.collect { case (table, Failure(error)) => table -> error }
    if (unread.nonEmpty && unread.length == tables.length) throw unread.head._2
    FoundTables(looks.collect { case (_, Success(Some(own))) => own }, unread)
  }

  /**
   * Asks the job to start over with copies of all tables. The checkpoint folder can be lost.
   *
   * @param id the request. The job knows by it that it has started over, also if an older state of the table is
   *   restored.
   */
  def askToStartOver(table: String, id: String): Unit =
    target.setProperties(table, Map(StartOver -> id))

  def forgetStartOver(table: String): Unit =
    target.setProperties(table, Map(StartOver -> NoRequest))

  /**
   * Returns why no table is found at present, although nobody may have removed one. If a disk is not mounted at the
   * folder of the target itself, the folder is there, without its tables. A user can have removed a single table.
   */
  def absence(job: JobState): Option[String] = target.absence.orElse {
    def known = job.tables.values.flatMap(_.table.targets).filter(_.nonEmpty)
    Option.when(job.written.length > 1 && !known.exists(target.exists))(
      TablePlace.absent("tables", "are", "them")
    )
  }

  /** The mark of a table's copy; None if it has none. */
  def mark(job: JobState, table: TableState): Option[Long] =
    made(job, table).filter(_.get(TableOid).contains(table.oid.toString)).flatMap { found =>
      checkVersion(table.target, found)
      target.mark(table.target, table.markName(job.id))
    }

  /** The greatest generation of the job that has a mark in the target's table of a table. */
  def newestGeneration(job: JobState, table: TableState): Option[Int] =
    made(job, table).flatMap(_ => target.newest(table.target, job.id)).map(_.generation)

  /**
   * The generations of the job that have had the rows of a table: that of the copy, and those that have closed it
   * since. Empty if no copy was committed, or if an older state of the table was restored, which can be that of any
   * copy.
   */
  def generations(job: JobState, table: TableState): Seq[Int] =
    made(job, table).toSeq.flatMap(generations(table.target, _))

  private def generations(table: String, found: Map[String, String]): Seq[Int] = {
    val newest = newestName(table, found).map(_.generation).filter(_ => hasMark(table, found))
    val same = found.get(Closed).toSeq.flatMap(_.split(',')).flatMap(_.toIntOption)
    // If a close ended before its commit, the next copy can have got its generation.
    val isCopy = found.get(Generation) == newest.map(_.toString)
    if (newest.exists(same.contains) && !isCopy) same.filter(known => newest.exists(known <= _))
    else newest.toSeq
  }

  /** The properties of the target's table of a table; None if somebody else has made it, perhaps in another format. */
  private def made(job: JobState, table: TableState) =
    Option.when(target.exists(table.target))(propertiesIn(table.target)).filter(isOfJob(job, _))

  private def isOfJob(job: JobState, properties: Map[String, String]) =
    properties.get(Job).contains(job.id)

  /** The newest mark of a table, of any generation; None if it has none, or if its rows are older than the mark. */
  def newest(table: String): Option[Long] = newest(table, propertiesIn(table))

  private def newest(table: String, properties: Map[String, String]): Option[Long] =
    newestName(table, properties).flatMap { name =>
      try target.mark(table, name)
      catch {
        // A table of which an older state was restored has no valid mark. Other errors say nothing about the mark.
        case lost: LakeException if lost.getCondition == "PGOUTPUT_MARK_LOST" => None
      }
    }

  /** Whether the mark is that of the rows. A table that is closed without a valid mark gets the mark 0. */
  private def hasMark(table: String, properties: Map[String, String]) =
    newest(table, properties).exists(_ != 0)

  private def newestName(table: String, properties: Map[String, String]) =
    properties.get(Job).flatMap(target.newest(table, _))

  /**
   * Returns the properties of a table; none if a view or a table of another format has the name, if the table is a
   * clone or a copy of another one, or if it is gone since it was listed. After any other error, it is not known whose
   * table it is. For example, the metastore does not answer, or the catalog has the table, and its metadata file is on
   * a disk that is away.
   */
  private def propertiesIn(table: String): Map[String, String] =
    try {
      val found = target.properties(table)
      // If there is no table with the former name, a user has renamed the table.
      val isCopy =
        found.get(Name).exists(name => folded(name) != folded(table) && target.exists(name))
      if (isCopy) Map.empty else found
    } catch {
      case known: LakeException if known.getCondition == "PGOUTPUT_TARGET_FORMAT" => Map.empty
      case known: AnalysisException if isOther(known)                             => Map.empty
    }
}

/**
 * The tables of a target.
 *
 * @param own those that a job has made
 * @param unread those that cannot be read, and why
 */
final case class FoundTables(own: Seq[OwnTable], unread: Seq[(String, Throwable)])

/**
 * A table of the target that a job has made.
 *
 * @param generation the newest generation that has a mark, or that of the properties
 * @param mark reads the mark of the generation
 */
final case class OwnTable(
    target: String,
    properties: OwnTables.Properties,
    generation: Int,
    mark: () => Option[Long]
)

object OwnTables {

  /** The conditions of Spark's errors if a name has no table, has no namespace any more, or is that of a view. */
  private val NoTable =
    Set("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "EXPECT_TABLE_NOT_VIEW")

  private def isOther(error: AnalysisException) =
    Option(error.getCondition).exists(condition => NoTable(condition.takeWhile(_ != '.')))

  private val json = new ObjectMapper
  final private val Threads = 8
  private val Prefix = "spark-pgoutput."
  final private val Version = 2
  private val VersionKey = s"${Prefix}version"
  private val SystemIdentifier = s"${Prefix}system-identifier"
  private val Database = s"${Prefix}database"
  private val Slot = s"${Prefix}slot"
  private val Job = s"${Prefix}job"
  private val Name = s"${Prefix}target"
  private val TableOid = s"${Prefix}table-oid"
  private val Generation = s"${Prefix}generation"
  private val Closed = s"${Prefix}closed"
  private val Definition = s"${Prefix}definition"
  private val StartOver = s"${Prefix}start-over"
  final private val NoRequest = "false"

  /** The request in a table of an earlier version, which has no id. */
  final val UnnamedRequest = "true"
  private val Mode = s"${Prefix}mode"
  private val HistoryPrefix = s"${Prefix}history-prefix"
  private val OnDelete = s"${Prefix}on-delete"
  private val Shape = s"${Prefix}shape"
  private val Hashes = s"${Prefix}hashes"

  private def modeOf(properties: Map[String, String]): TableMode = properties.get(Mode).flatMap(
    TableMode.of(_, properties.getOrElse(HistoryPrefix, TableMode.History.DefaultPrefix))
  ).getOrElse(TableMode.Mirror)

  /**
   * What the properties of a table say.
   *
   * @param startOver the request to start over; None if there is none. See [[UnnamedRequest]].
   */
  final case class Properties(
      job: String,
      systemIdentifier: String,
      database: String,
      slot: String,
      oid: Long,
      generation: Int,
      mode: TableMode,
      startOver: Option[String]
  )

  object Properties {

    /** Returns None if no job has made the table. */
    def of(properties: Map[String, String]): Option[Properties] =
      for {
        job <- properties.get(Job)
        oid <- properties.get(TableOid).flatMap(_.toLongOption)
        generation <- properties.get(Generation).flatMap(_.toIntOption)
      } yield Properties(
        job,
        properties.getOrElse(SystemIdentifier, ""),
        properties.getOrElse(Database, ""),
        properties.getOrElse(Slot, ""),
        oid,
        generation,
        modeOf(properties),
        properties.get(StartOver).filter(found => found.nonEmpty && found != NoRequest)
      )
  }
}
