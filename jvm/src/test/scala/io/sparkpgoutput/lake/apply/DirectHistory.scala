package io.sparkpgoutput.lake.apply

import java.time.Instant

import scala.jdk.CollectionConverters._
import scala.util.{Failure, Random, Success, Try}

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Row, SparkSession}

import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{PartitionField, TableMode, TableShape}
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.{DirectChange, DirectTable, KeyLookup}
import io.sparkpgoutput.lake.target._

/**
 * The history of one table, into which small cuts are written: moves, swaps, values that are not sent, ALTER
 * TABLE and TRUNCATE of the server, columns and rows of users, rewrites of files, and new starts. After each
 * cut, the table has what [[TargetOracle]] says, or the cut has the error that it says.
 *
 * @param seed decides everything that happens
 * @param open opens the target, as a new start does
 * @param mixed the last step of a hash of a key
 * @param mostOld the most bytes of values of the target that a direct write has in memory
 * @param comparesMerge whether a second table gets the same cuts by MERGE
 * @param hasShape whether the table has partitions or a clustering, which others can change in Iceberg
 * @param age makes a table older, so that old files of it are removed
 */
final class DirectHistory(
    spark: SparkSession,
    seed: Long,
    open: () => Target,
    properties: Map[String, String] = Map.empty,
    mixed: Long => Long = KeyLookup.mixed,
    mostOld: Long = Long.MaxValue,
    comparesMerge: Boolean = false,
    hasShape: Boolean = false,
    age: String => Unit = _ => ()
) {
  import DirectHistory._

  private val random = new Random(seed)
  (1 to 20).foreach(_ => random.nextInt()) // The first numbers of similar seeds are alike.

  val table: ServerTable = ServerHistory.table(Oid, s"h$seed", random)
  table.mode =
    Modes((seed / Formats % Modes.length).toInt) // so each format has tables of all kinds
  val oracle = new TargetOracle(table)
  private val history = new ServerHistory(random, Seq(table))
  private val merged = s"${table.name}m"

  /** In some histories, only cuts of few changes are small, and the executors fold those of many changes. */
  private val memory = if (seed / Formats % 5 == 4) 40000 else CutApply.Memory
  private val mark = MarkName("job", Oid, 0)
  private val log = new StringBuilder

  private var target = open()
  private val shapes = new RandomShapes(seed, target.format)
  private val shape = if (hasShape) shapes.of(table.dataTypes) else TableShape.none
  private var lsn = 1L
  private var definition = Option.empty[Array[Byte]]
  private var users = 0
  private var isEnded = false

  /** How many cuts were written, how many of them by a MERGE, and how many cuts had an error at first. */
  var cuts = 0
  var merges = 0
  var errors = 0

  private val reader = ClonedSession.of(spark)
  reader.conf.set(ExactTimes, true)

  private def chance(percent: Int) = random.nextInt(100) < percent
  private def pick[T](values: Seq[T]): T = values(random.nextInt(values.size))
  private def note(what: String): Unit = log.append("\n  ").append(what): Unit

  /** Runs all steps of the history of the table. */
  def run(): Unit =
    try {
      note(s"key ${table.key.mkString(", ")} of ${table.dataTypes.map { case (name, dataType) =>
          s"$name ${dataType.sql}"
        }.mkString(", ")}, ${table.identity}, ${table.mode}")
      create(table.name)
      if (comparesMerge) create(merged)
      (1 to 2 + random.nextInt(5)).foreach(_ => if (!isEnded) step())
      compare()
    } catch {
      case problem: Throwable =>
        throw new AssertionError(s"Seed $seed of ${target.format}: $problem$log", problem)
    }

  /** The place, the columns and the rows of the table, for other engines. */
  def content(place: String): java.util.Map[String, Any] = {
    val nameTypes = oracle.columns.map { case (name, dataType) => Seq(name, dataType.sql).asJava }
    Map[String, Any](
      "seed" -> seed,
      "format" -> target.format,
      "path" -> place,
      "columns" -> nameTypes.asJava,
      "rows" -> oracle.plain.map(_.asJava).asJava
    ).asJava
  }

  private def create(name: String): Unit = {
    if (target.exists(name)) target.drop(name)
    note(s"$name has the shape ($shape)")
    target.create(name, table.target.targetSchema, table.key, properties, shape)
    target.commit(spark, name, mark, None, lsn)(
      TargetWrite.Direct(_ => DirectChange(Map.empty, Vector.empty))
    )
  }

  private def step(): Unit = {
    if (chance(12)) byUser()
    if (chance(15)) {
      note("a new start")
      target = open()
    }
    val batch = history.batch(1 + random.nextInt(5))
    follow()
    val other = Option.when(chance(6))(() => byUser(isBeside = true))
    commit(CutOfServer(Oid, batch, history.end, definition), other)
    table.changes.clear()
    table.truncations.clear()
    if (chance(30)) maintain()
    if (chance(40)) compare()
  }

  /** Gives the target the columns of the server. */
  private def follow(): Unit = {
    table.altered.foreach { change =>
      note(change.toString)
      tables.foreach(target.alter(_, Seq(change)))
      oracle.alter(change)
    }
    table.altered.clear()
  }

  private def tables = if (comparesMerge) Seq(table.name, merged) else Seq(table.name)

  private def commit(cut: CutOfServer, other: Option[() => Unit]): Unit = {
    note(s"a cut of ${cut.changes} changes to ${cut.end}")
    var beside = other
    val watched = new TargetBehind(target) {
      override protected def written(write: TargetWrite) = write match {
        case TargetWrite.Direct(change) =>
          def planned(found: DirectTable) = {
            // If this fails, no commit follows that others could be beside.
            val looked = change(found)
            beside.foreach { write =>
              beside = None
              write()
            }
            looked
          }
          TargetWrite.Direct(planned)
        case query => query
      }
    }
    val served = table.target
    def write(into: Target, name: String, repairs: Boolean) = Try(
      new CutApply(into, repairs, memory = memory, mixed = mixed, mostOld = mostOld).commit(
        spark,
        served.copy(
          target = name,
          schema = TargetTypes.of(target.format, name, served.schema, Nil)
        ),
        table.formerNames,
        mark,
        lsn,
        cut
      )
    )
    def byMerge(repairs: Boolean, expected: Try[CutResult]): Unit = if (comparesMerge) {
      val onlyMerge = new TargetBehind(target) {
        override def look(table: String): TargetLook =
          super.look(table).copy(notDirect = Some("this is compared"))
      }
      val found = write(onlyMerge, merged, repairs)
      if (found.isSuccess != expected.isSuccess)
        throw new AssertionError(s"The MERGE gives $found, and the direct commit $expected.")
    }
    if (cut.changes > 0) {
      val found = write(watched, table.name, repairs = false)
      val outcome = oracle.afterCut() // with the rows that somebody has written beside the commit
      note(s"$found")
      byMerge(repairs = false, found)
      found match {
        case Success(done) =>
          check(outcome.drifted.isEmpty, s"no error for ${outcome.drifted}")
          check(done.committed && done.changes == cut.changes, s"$done")
          taken(cut, outcome, done)
        case Failure(problem: LakeException) if problem.getCondition == Differs =>
          check(outcome.drifted.nonEmpty, s"an error without drift: $problem")
          errors += 1
          beside = None
          compare()
          val repaired = write(watched, table.name, repairs = true)
          note(s"repair: $repaired")
          byMerge(repairs = true, repaired)
          repaired match {
            case Success(done) =>
              check(outcome.lacking.isEmpty, s"no error for the values of ${outcome.lacking}")
              check(done.repaired == outcome.drifted.size.toLong, s"$done of ${outcome.drifted}")
              taken(cut, outcome, done)
            case Failure(problem: LakeException) if problem.getCondition == Differs =>
              check(outcome.mayLack.nonEmpty, s"a repair that fails: $problem")
              isEnded = true // The job copies the table.
            case Failure(problem) => throw problem
          }
        case Failure(problem) => throw problem
      }
    }
  }

  private def taken(cut: CutOfServer, outcome: TargetOracle.Outcome, done: CutResult): Unit = {
    outcome.take()
    cuts += 1
    if (done.byMerge.nonEmpty) merges += 1
    lsn = cut.end
    cut.definition.foreach(found => definition = Some(found))
    check(target.mark(table.name, mark).contains(lsn), "another mark")
  }

  private def maintain(): Unit = random.nextInt(4) match {
    case 0 => target.checkpoint(table.name)
    case 1 =>
      note("old files are removed")
      age(table.name)
      target.expire(table.name, Instant.ofEpochMilli(0), 2)
    case _ => note(s"a rewrite: ${target.compact(table.name)}")
  }

  /** Somebody else writes the table, or adds a column. */
  private def byUser(isBeside: Boolean = false): Unit = {
    val own = oracle.columns.filter(_._1.startsWith("mine"))
    if (hasShape && target.format == "iceberg" && shapes.changes) {
      val next = shapes.of(oracle.columns)
      note(s"somebody gives it the shape ($next)")
      tables.foreach(target.reshape(_, next))
    }
    val kind = if (isBeside) 1 + random.nextInt(5) else random.nextInt(6)
    if (kind == 0) {
      users += 1
      val change = ColumnChange.Add(s"mine $users", IntegerType)
      note(change.toString)
      tables.foreach(target.alter(_, Seq(change)))
      oracle.alter(change)
    } else if (kind == 1) rewrite()
    else if (kind == 2 || oracle.isEmpty) insert()
    else if (kind == 3 && own.nonEmpty) {
      val (key, column) = (pick(oracle.keys), pick(own)._1)
      sql(name =>
        s"UPDATE $name SET ${TablePlace.quoted(column)} = 7 WHERE ${where(oracle.row(key))}"
      )
      oracle.set(key, column, "7")
    } else if (kind == 4) {
      val row = oracle.remove(pick(oracle.keys))
      sql(name => s"DELETE FROM $name WHERE ${where(row)}")
    } else insert()
  }

  private def insert(): Unit = {
    val row = oracle.columns.map { case (name, dataType) =>
      val typeId = ServerValues.types.find(_._2 == dataType).fold(TypeOids.Numeric)(_._1)
      val value =
        if (name.startsWith("mine")) "7"
        else if (name.startsWith("_")) oracle.ofUser(name)
        else ServerValues.of(typeId, random).head
      name -> value
    }.toMap
    if (oracle.isFree(row)) {
      sql(name =>
        s"INSERT INTO $name VALUES (${oracle.columns.map { case (column, dataType) =>
            ServerValues.literal(dataType, row(column))
          }.mkString(", ")})"
      )
      oracle.put(row)
    }
  }

  private def rewrite(): Unit = tables.foreach { name =>
    note("somebody rewrites files")
    if (target.format == "delta") spark.sql(s"OPTIMIZE ${target.sqlName(name)}")
    else IcebergTables.rewrite(spark, target.sqlName(name))
  }

  private def sql(command: String => String): Unit = tables.foreach { name =>
    val text = command(target.sqlName(name))
    note(text)
    spark.conf.set(ExactTimes, true)
    try spark.sql(text)
    finally spark.conf.unset(ExactTimes)
  }

  private def where(row: TargetOracle.Values) = (table.key.map { name =>
    s"${TablePlace.quoted(name)} = ${ServerValues.literal(oracle.columns.toMap.apply(name), row(name))}"
  } ++ (if (table.hasVersions) Seq(s"${TableMode.Versions.ToLsn} IS NULL") else Nil)).mkString(
    " AND "
  )

  private def compare(): Unit = tables.foreach { name =>
    val rows = target.read(reader, name)
    val found: Seq[Row] = ClonedSession.within(reader)(rows.collect().toSeq)
    val content = oracle.contentOf(rows.schema, found)
    check(
      content == oracle.content,
      s"$name has\n    ${content.mkString("\n    ")}\n  and not\n    ${oracle.content.mkString("\n    ")}"
    )
  }

  private def check(isTrue: Boolean, problem: => String): Unit =
    if (!isTrue) throw new AssertionError(problem)
}

object DirectHistory {
  final private val Oid = 100L

  /** The number of formats. Consecutive seeds have different ones. */
  final private val Formats = 3
  private val Modes = IndexedSeq(TableMode.Mirror, TableMode.Marking, TableMode.Versions)
  final private val Differs = "PGOUTPUT_TARGET_DIFFERS"

  /**
   * The classes for times without this setting have no days from 1582-10-05 to 1582-10-14. So a condition that Spark
   * gives to Parquet does not find their rows.
   */
  final private val ExactTimes = "spark.sql.datetime.java8API.enabled"
}

/** Random shapes. Their random numbers are separate, so the other numbers of a history stay the same. */
final private class RandomShapes(seed: Long, format: String) {
  private val random = new Random(seed * 31 + 7)
  private def pick[T](values: Seq[T]): T = values(random.nextInt(values.size))

  /** Returns whether somebody changes the shape now. */
  def changes: Boolean = random.nextInt(3) == 0

  def of(columns: Seq[(String, DataType)]): TableShape = {
    val possible = columns.flatMap { case (name, dataType) =>
      Some(fields(name, dataType)).filter(_.nonEmpty)
    }
    val partition = random.shuffle(possible).take(1 + random.nextInt(2)).map(pick(_))
    val isWhole = partition.length == columns.length
    val cluster = if (random.nextInt(3) > 0) Nil
    else columns.collect { case (name, LongType | DateType | StringType) => name }.take(2)
    if (format == "iceberg") TableShape(partition, cluster)
    else if (cluster.nonEmpty || isWhole) TableShape(Nil, cluster)
    else TableShape(partition)
  }

  /** The possible fields of a column. A column has none if its type can be widened, which needs a copy. */
  private def fields(name: String, dataType: DataType): Seq[PartitionField] = {
    val functions = dataType match {
      case found: DecimalType if found.precision == 38 => Seq("identity", "bucket", "truncate")
      case LongType                                    => Seq("identity", "bucket", "truncate")
      case StringType | BinaryType                     => Seq("bucket", "truncate")
      case DateType                         => Seq("identity", "years", "months", "days", "bucket")
      case TimestampType | TimestampNTZType => Seq("years", "months", "days", "hours", "bucket")
      case BooleanType                      => Seq("identity")
      case _                                => Nil
    }
    functions.filter(_ == "identity" || format == "iceberg").map {
      case function @ ("bucket" | "truncate") => PartitionField(name, function, Some(2))
      case function                           => PartitionField(name, function)
    }
  }
}
