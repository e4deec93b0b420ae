package io.sparkpgoutput.source.stream

import java.nio.file.{Files, Path, Paths}

import org.apache.spark.sql.types.StructType

import org.apache.hadoop.conf.Configuration
import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.errors.Errors.raised
import io.sparkpgoutput.source.slot.SourceIdentity

class SourceLogSuite extends AnyFunSuite {

  /** What `tests/data/source-log/0.json` has, which every later version must read. */
  private val kept = SourceIdentity(
    id = "33575cd3-3845-489b-b74c-b31e4d74aec7",
    systemIdentifier = "7710887859999968914",
    timelines = Seq(1, 3),
    database = "shop",
    slot = "lake",
    publications = Map("shop" -> 16384L, "Öther" -> 16390L),
    firstLsn = 0x16b374d848L,
    schema = StructType.fromDDL("id INT COMMENT 'int4', v STRING COMMENT 'varchar(10)'")
  )

  private def log(folder: Path) = new SourceLog(folder.toUri.toString, new Configuration)
  private def folder() = Files.createTempDirectory("source-log")

  test("the log of an earlier version is read") {
    assert(log(Paths.get("tests/data/source-log")).read().contains(kept))
  }

  test("the log that is written is the same as that of an earlier version") {
    val golden = Files.readString(Paths.get("tests/data/source-log/0.json"))
    assert(SourceLog.toJson(kept) == golden.trim)
  }

  test("the identity that was written last is read") {
    val made = folder()
    assert(log(made).read().isEmpty)
    (0 to 10).foreach(number => log(made).write(kept.copy(timelines = Seq(number))))
    assert(log(made).read().contains(kept.copy(timelines = Seq(10))))
  }

  test("a file that a crash left unfinished is not read") {
    val made = folder()
    log(made).write(kept)
    Files.writeString(made.resolve(".1.json.part"), "{")
    assert(log(made).read().contains(kept))
    log(made).write(kept.copy(slot = "other"))
    assert(log(made).read().map(_.slot).contains("other"))
  }

  test("a last file that a power failure left empty is not read") {
    val made = folder()
    log(made).write(kept)
    Files.createFile(made.resolve("1.json"))
    assert(log(made).read().contains(kept))
    log(made).write(kept.copy(slot = "other"))
    assert(log(made).read().map(_.slot).contains("other"))
    val first = folder()
    Files.createFile(first.resolve("0.json"))
    raised("PGOUTPUT_CHECKPOINT_VERSION")(log(first).read())
  }

  test("the log of a later version is an error that names the version") {
    val made = folder()
    Files.writeString(made.resolve("0.json"), SourceLog.toJson(kept).replace(":1,", ":2,"))
    val error = raised("PGOUTPUT_CHECKPOINT_VERSION")(log(made).read())
    assert(error.getMessage.contains("has the version 2"))
  }
}
