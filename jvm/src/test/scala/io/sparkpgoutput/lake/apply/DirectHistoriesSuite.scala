package io.sparkpgoutput.lake.apply

import java.nio.file.Files

import org.apache.spark.sql.delta.DeltaLog

import com.fasterxml.jackson.databind.ObjectMapper

import io.sparkpgoutput.DeltaTests
import io.sparkpgoutput.lake.direct.{KeyCache, KeyLookup}
import io.sparkpgoutput.lake.target.{OldTables, Target, Targets}

/**
 * Random histories of tables, into which small cuts are written. `-Dspark-pgoutput.seed=` gives the first
 * seed, and `-Dspark-pgoutput.histories=` the number of histories. `-Dspark-pgoutput.contents=` names a file
 * that gets the places and the rows of the tables, so that other engines can compare them.
 */
class DirectHistoriesSuite extends DeltaTests {
  import DirectHistoriesSuite._

  private val first = java.lang.Long.getLong("spark-pgoutput.seed", 1L).longValue
  private val count = Integer.getInteger("spark-pgoutput.histories", 20).intValue

  private val contents = new java.util.ArrayList[Any]
  private val file = Option(System.getProperty("spark-pgoutput.contents"))

  private lazy val folder = Files.createTempDirectory("histories").toString

  /** A cache with room for the keys of a few files in memory, and of a few on disk. */
  private def keys = new KeyCache(300, 600, Files.createTempDirectory("keys").toFile)

  private val formats: IndexedSeq[Format] = Vector(
    Format(
      Map.empty,
      () => {
        DeltaLog.clearCache()
        Targets.of(spark, folder, Some("delta"), keys)
      },
      table => s"$folder/$table",
      OldTables.makeDue
    ),
    iceberg("2"),
    iceberg("3")
  )

  private def iceberg(version: String) = Format(
    Map("format-version" -> version),
    () => IcebergTables.in(spark, s"histories$version", keys),
    table => {
      val warehouse = s"spark.sql.catalog.${IcebergTables.Catalog}.warehouse"
      s"${spark.conf.get(warehouse)}/histories$version/$table"
    }
  )

  /** Runs histories until many have failed. Then fails with the seeds of those. */
  private def live(
      count: Int,
      mixed: Long => Long = KeyLookup.mixed,
      mostOld: Long = Long.MaxValue,
      comparesMerge: Boolean = false
  ): Unit = {
    var (cuts, merges, errors) = (0, 0, 0)
    val failures = (0 until count).iterator.flatMap { number =>
      val seed = first + number
      val format = formats((seed % formats.length).toInt)
      val history =
        new DirectHistory(
          spark,
          seed,
          format.open,
          format.properties,
          mixed,
          mostOld,
          comparesMerge,
          hasShape = seed / formats.length % 2 == 1,
          table => format.age(format.place(table))
        )
      val failure =
        try {
          history.run()
          if (file.nonEmpty) contents.add(history.content(format.place(history.table.name)))
          None
        } catch { case problem: AssertionError => Some(problem) }
      cuts += history.cuts
      merges += history.merges
      errors += history.errors
      failure.foreach(problem => alert(problem.getMessage))
      failure.map(seed -> _)
    }.take(MostFailures).toSeq
    info(
      s"$count histories from the seed $first: $cuts cuts, $merges by MERGE, $errors with an error"
    )
    if (failures.nonEmpty) fail(s"Seeds ${failures.map(_._1).mkString(", ")}", failures.head._2)
    // The histories write cuts, and most of them directly, unless the driver has no memory for that.
    assert(cuts > count && (merges <= cuts / 5 || mostOld < Long.MaxValue))
  }

  test("after each cut of a random history, a table has the rows of the server") {
    live(count)
    file.foreach(file => new ObjectMapper().writeValue(new java.io.File(file), contents))
  }

  test("a table has the rows of the server also if all keys have the same hash") {
    live(if (count > 100) count else math.max(3, count / 3), _ => 0)
  }

  /** How many histories have many commits by a MERGE, which takes longer. */
  private def some = math.max(1, math.min(200, count / 10))

  test("a table has the rows of the server also if the driver has little memory for old values") {
    live(some, mostOld = 200)
  }

  test("a MERGE of the same cuts gives the same rows") {
    live(some, comparesMerge = true)
  }
}

object DirectHistoriesSuite {
  final private val MostFailures = 20

  /**
   * A format of tables.
   *
   * @param properties the properties of each table
   * @param open opens the target, as a new start does
   * @param place the folder of a table
   * @param age lets so much time pass in a folder that old files are removed
   */
  final case class Format(
      properties: Map[String, String],
      open: () => Target,
      place: String => String,
      age: String => Unit = _ => ()
  )
}
