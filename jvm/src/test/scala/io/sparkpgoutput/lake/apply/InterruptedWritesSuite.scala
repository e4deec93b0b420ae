package io.sparkpgoutput.lake.apply

import java.nio.file.{Files, Path, Paths}
import java.time.Instant

import scala.concurrent.ExecutionContext.Implicits.global
import scala.concurrent.duration.DurationInt
import scala.concurrent.{Await, Future}
import scala.jdk.CollectionConverters._
import scala.util.{Success, Try}

import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.types.{IntegerType, StringType}

import org.apache.commons.io.FileUtils

import io.sparkpgoutput.lake.catalog.ReplicaIdentity
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.DirectChange
import io.sparkpgoutput.lake.target._
import io.sparkpgoutput.{DeltaTests, TakesLong}

/**
 * Interrupts commits, rewrites, checkpoints and the removal of old versions at each step: the process dies,
 * or the answer of the step is lost. `-Dspark-pgoutput.steps=1` takes each step of all of these. By default,
 * the suite takes each ninth step of commits only, because a step takes seconds.
 */
class InterruptedWritesSuite extends DeltaTests {
  private val stride = Integer.getInteger("spark-pgoutput.steps", 9).intValue
  private val takesAll = System.getProperty("spark-pgoutput.steps") != null
  private val name = MarkName("job", 1, 0)
  private lazy val folder = Files.createTempDirectory("interrupted")

  private def open(format: String): Target = {
    DeltaLog.clearCache()
    val place = FaultyFiles.address(spark, folder)
    if (format == "delta") Targets.of(spark, s"$place/delta", Some(format))
    else {
      val catalog = "spark.sql.catalog.faulty"
      if (spark.conf.getOption(catalog).isEmpty) {
        spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(s"$catalog.type", "hadoop")
        spark.conf.set(s"$catalog.warehouse", s"$place/iceberg")
        spark.conf.set(s"$catalog.cache-enabled", "false")
      }
      Targets.of(spark, "faulty.ns", Some(format))
    }
  }

  /** A table with twelve commits, and the rows that it must have. */
  final private class Written(format: String, version: String) {
    private val server = new ServerTable(
      1,
      s"t$version",
      ReplicaIdentity.Default,
      Seq("id"),
      Seq("id" -> TypeOids.Int4, "v" -> TypeOids.Text),
      Seq("id" -> IntegerType, "v" -> StringType)
    )
    var target: Target = open(format)
    private var contents = Map.empty[Long, Seq[String]]
    private var cuts = Map.empty[Long, CutOfServer]
    private var last = 1L

    target.create(
      server.name,
      server.target.schema,
      server.key,
      if (format == "delta") Map("delta.checkpointInterval" -> "4")
      else Map("format-version" -> version)
    )
    target.commit(spark, server.name, name, None, 1)(
      TargetWrite.Direct(_ => DirectChange(Map.empty, Vector.empty))
    )
    private val place: Path = Paths.get(
      if (format == "delta") s"$folder/delta/${server.name}"
      else s"$folder/iceberg/ns/${server.name}"
    )
    (1 to 12).foreach { number =>
      // A checkpoint is due after the next four commits.
      if (format == "delta" && number == 10) age()
      write(next())
    }
    private val begin = last
    private val kept = Files.createTempDirectory("kept")
    FileUtils.copyDirectory(place.toFile, kept.toFile)

    /** Makes the table as it was after the twelve commits. */
    def restore(): Unit = {
      FileUtils.deleteDirectory(place.toFile)
      FileUtils.copyDirectory(kept.toFile, place.toFile)
      target = open(format)
    }

    /** Lets so much time pass that old files are removed. A checkpoint has the times of the log, too. */
    private def age(): Unit = {
      val checkpoints = OldTables.files(place.resolve("_delta_log"))
        .filter(_.getFileName.toString.contains("checkpoint"))
      checkpoints.foreach(Files.delete)
      OldTables.makeDue(place.toString)
      restart()
      val address = s"${FaultyFiles.address(spark, folder)}/delta/${server.name}"
      val log = DeltaLog.forTable(spark, address)
      log.checkpoint(log.update())
    }

    def restart(): Unit = target = open(format)

    def files: Set[String] = {
      val found = Files.walk(place)
      try found.iterator.asScala.filter(Files.isRegularFile(_)).map(_.toString).toSet
      finally found.close()
    }

    /** Makes the next cut, which inserts, updates, deletes and moves rows. Returns its LSN. */
    private def next(): Long = {
      val from = last
      val to = from + 10
      last = to
      val number = (from / 10).toInt
      val fresh = Seq((100 + number).toString, s"v$number")
      val messages = Seq(server.insert(fresh)) ++
        server.rows.find(_.head == (98 + number).toString).map(server.delete) ++
        server.rows.headOption.filter(_ != fresh).map(row =>
          server.update(row, Seq(row.head, s"u$number"))
        ) ++
        server.rows.find(_.head == (99 + number).toString).map(row =>
          server.update(row, Seq((1000 + number).toString, row(1)))
        )
      val sent = CutOfServer.transaction(from, server.relation +: messages)
      cuts += from -> CutOfServer(1, sent, to)
      contents += to -> server.content
      from
    }

    private def write(from: Long): Unit = {
      val done = new CutApply(target, repairs = false).commit(
        spark,
        server.target,
        Map.empty,
        name,
        from,
        cuts(from)
      )
      assert(done.byMerge.isEmpty)
    }

    private lazy val following = {
      val before = begin
      while (last < before + 40) next()
      before
    }

    /** Writes a cut that follows the twelve commits. The first one has the number 0. */
    def write(number: Int): Unit = write(following + 10L * number)

    def mark: Option[Long] = target.mark(server.name, name)

    /**
     * Checks that the table has the rows of its mark, and that this is the mark before or after a cut.
     * Returns whether the table has the cut.
     */
    def check(number: Int): Boolean = {
      val found = mark.get
      val (before, after) = (following + 10L * number, following + 10L * (number + 1))
      assert(found == before || found == after)
      assert(server.contentOf(target, spark) == contents(found))
      found == after
    }

    def table: String = server.name
  }

  Seq("delta" -> "", "iceberg" -> "2", "iceberg" -> "3").foreach { case (format, version) =>
    lazy val written = new Written(format, version)

    val removing = "a checkpoint and the removal of old versions"

    /** What is interrupted, whether that is the cut 1, and how it runs. */
    val actions: Seq[(String, Boolean, Written => Unit)] = Seq(
      ("a commit", true, _.write(1)),
      ("a rewrite", false, table => table.target.compact(table.table): Unit),
      (
        removing,
        false,
        table => {
          table.target.checkpoint(table.table)
          table.target.expire(table.table, Instant.now, 1)
        }
      )
    )
    for {
      (what, isCut, act) <- actions
      fault <- Seq(FaultyFiles.Death, FaultyFiles.LostAnswer)
      if takesAll || isCut && version != "3"
      tags = TakesLong.when(format == "delta" || fault == FaultyFiles.LostAnswer)
    }
      test(s"$format$version: $fault at each step of $what", tags: _*) {
        def run(step: Int): Option[String] = {
          written.restore()
          written.write(0)
          val before = written.files
          var done = Try(())
          val failed = FaultyFiles.during(fault, step) { done = Try(act(written)) }
          failed.foreach { call =>
            withClue(s"step $step: $call, $done\n") {
              // A process goes on, too, if only an answer was lost.
              if (fault == FaultyFiles.Death) written.restart()
              if (isCut) {
                val isDone = written.check(1)
                // A cut whose commit was reported is in the table.
                assert(isDone || done.isFailure)
                if (!isDone) written.write(1)
              } else {
                assert(written.check(0))
                written.write(1)
              }
              assert(written.check(1))
              written.target.compact(written.table): Unit
              written.write(2)
              written.restart()
              assert(written.check(2))
              written.write(3)
              assert(written.check(3))
            }
          }
          if (failed.isEmpty) {
            assert(done == Success(()))
            // Files were removed, so this was interrupted, too.
            if (what == removing) assert((before -- written.files).nonEmpty)
          }
          failed
        }
        val steps = Iterator.from(1 % stride, stride).map(run).takeWhile(_.nonEmpty).flatten.toSeq
        assert(steps.nonEmpty)
        info(s"${steps.length} steps")
        if (stride == 1) info(steps.map(_.replaceAll(".*/", "")).mkString(", "))
      }

    if (format == "delta")
      test("delta: a commit whose request the store gets twice is found by its mark") {
        written.restore()
        written.write(0)
        val isRepeated = FaultyFiles.repeating(_.matches("rename to .*/_delta_log/\\d+[.]json")) {
          Try(written.write(1)): Unit
        }
        assert(isRepeated && written.check(1))
      }

    if (takesAll || version != "3")
      test(
        s"$format$version: a commit does not wait for a rewrite",
        TakesLong.when(format == "delta"): _*
      ) {
        written.restore()
        written.write(0)
        val hasCommitted = FaultyFiles.pausing(_.matches("create .*[.]parquet")) {
          // While the thread of the rewrite waits, another one commits.
          Await.result(Future(written.write(1)), 30.seconds)
        } {
          assert(written.target.compact(written.table))
        }
        assert(hasCommitted && written.check(1))
      }
  }
}
