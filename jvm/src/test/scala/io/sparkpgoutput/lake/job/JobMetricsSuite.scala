package io.sparkpgoutput.lake.job

import java.nio.file.{Files, Path}
import java.time.Instant

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.pgoutput.RegisteredMetrics
import org.apache.spark.sql.types.StructType

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalacheck.Gen
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{MirroredTable, ReplicaIdentity, SourceTable, TableMode}
import io.sparkpgoutput.lake.core.{JobState, Shown, TableState, TableStatus}
import io.sparkpgoutput.types.registry.TypeRegistry

class JobMetricsSuite extends SparkSessionTests with ScalaCheckPropertyChecks {
  private val mapper = new ObjectMapper
  private val now = Instant.parse("2026-11-22T12:00:00.123456789Z")

  private def table(oid: Long, name: String, status: TableStatus = TableStatus.Live) = {
    val source = SourceTable(
      oid,
      TableName("public", name),
      Nil,
      Nil,
      Nil,
      ReplicaIdentity.Default,
      Nil,
      None,
      fileNode = 1,
      isPartitioned = false,
      Nil,
      horizon = 0,
      Nil,
      Map.empty,
      attributes = 0
    )
    TableState(
      MirroredTable(source, name, new StructType, TypeRegistry(Map.empty), TableMode.Mirror),
      status
    )
  }

  private def state(tables: TableState*) = tables.foldLeft(
    JobState("id", "1", 1, "shop", "lake", Nil, "/lake", "delta", confirmed = 0)
  )(_.put(_))

  /** Returns the table of an escaped name. So no two tables can have the same escaped name. */
  private def unescaped(escaped: String): TableName = {
    def part(text: String) = "Z([0-9a-f]+)Z".r
      .replaceAllIn(
        text,
        found =>
          java.util.regex.Matcher.quoteReplacement(
            Integer.parseInt(found.group(1), 16).toChar.toString
          )
      )
    val Seq(schema, name) = escaped.split("__", -1).toSeq
    TableName(part(schema), part(name))
  }

  test("no two tables have one name in Spark's metrics system") {
    val name =
      Gen.nonEmptyListOf(Gen.oneOf("_", "__", "Z", "Z5fZ", ".", "a", "B", "9", "é", "😀", " ", "-"))
        .map(_.mkString)
    forAll(name, name) { (schema, table) =>
      val escaped = JobMetrics.escaped(TableName(schema, table))
      assert(escaped.matches("[A-Za-z0-9_]+") && unescaped(escaped) == TableName(schema, table))
    }
    assert(JobMetrics.escaped(TableName("public", "order_items")) == "public__order_items")
  }

  test("no two metrics have one name for Prometheus") {
    val names = (JobMetrics.ofJob ++ JobMetrics.ofTable).map(_.prometheus)
    assert(names.distinct == names && names.forall(_.matches("spark_pgoutput_[a-z][a-z_]*[a-z]")))
  }

  private def values(node: JsonNode) =
    node.path("values").properties.asScala.map(entry => entry.getKey -> entry.getValue.asText).toMap

  private def status(now: StatusNow) = mapper.readTree(JobStatus.toJson(now))

  private val oldest = now.minusSeconds(90)
  private val queued = Shown(3, 100, Some(oldest.getEpochSecond * 1000000), None, None)
  private val failed = TableStatus.Failed("no rights", oldest, needsCopy = true, isLasting = true)

  test("the status has the metrics of each table") {
    val tables = state(
      table(1, "orders"),
      table(2, "refused", failed),
      table(3, "gone", TableStatus.Dropped)
    )
    val json = status(StatusNow(
      tables,
      Map(1L -> queued, 2L -> queued),
      read = 0x1000000a0L,
      Nil,
      now,
      commits = Map(1L -> (Commits(10, 1) + Commits(5, 1)))
    ))
    val found = json.path("tables").elements.asScala
      .map(table => table.path("labels").path("table").asText -> values(table)).toMap
    assert(found("orders").removedAll(Seq("lagSeconds", "queueAgeSeconds")) == Map(
      "state" -> "0",
      "queueBytes" -> "100",
      "queueChanges" -> "3",
      "changes" -> "15",
      "commits" -> "2"
    ))
    assert(found("orders")("lagSeconds").toDouble === 90.123)
    assert(found("refused")("state") == "2" && found("refused")("queueAgeSeconds").toDouble > 90)
    assert(!found("refused").contains("lagSeconds"), "the table needs a copy")
    assert(found("gone") == Map("state" -> "3", "changes" -> "0", "commits" -> "0"))
    assert(values(json) == Map(
      "statusTimestampSeconds" -> f"${now.toEpochMilli / 1e3}%s",
      "reading" -> "1",
      "waiting" -> "0",
      "readLsn" -> 0x1000000a0L.toString
    ))
  }

  test("each state of a table has a number") {
    Seq(
      TableStatus.Live,
      TableStatus.Copying("new"),
      failed,
      TableStatus.Dropped,
      TableStatus.Excluded
    ).foreach { one =>
      val json = status(StatusNow(state(table(1, "one", one)), Map.empty, 0, Nil, now))
      assert(values(json.path("tables").get(0)).contains("state"), one.name)
    }
  }

  test("of several tables with one name, only the newest that is not dropped has metrics") {
    val now = StatusNow(
      state(table(7, "orders", TableStatus.Dropped), table(5, "orders"), table(4, "orders")),
      Map.empty,
      0,
      Nil
    )
    val labelled = status(now).path("tables").elements.asScala.filter(_.has("labels")).toSeq
    assert(labelled.map(_.path("oid").asLong) == Seq(5))
  }

  test("a status says why the job does not read, with the time of its own clock") {
    val json =
      status(StatusNow(state(), Map.empty, 0, Nil, now, problem = Some("The server is away.")))
    assert(json.path("problem").asText == "The server is away.")
    assert(values(json)("reading") == "0")
    assert(json.path("written").asText == "2026-11-22T12:00:00.123456Z")
    assert(json.path("slot").asText == "lake")
    assert(json.path("ended").isBoolean && !json.path("ended").asBoolean)
    val ended = StatusNow(state(), Map.empty, 0, Nil, problem = Some("It fails."), hasEnded = true)
    assert(status(ended).path("ended").asBoolean)
  }

  private def registered(slot: String) = {
    val start = s"$slot.pgoutput."
    RegisteredMetrics.gauges.collect {
      case (name, value) if name.contains(start) =>
        name.drop(name.indexOf(start) + start.length) -> value
    }
  }

  test("Spark's metrics system has the tables that the job has now") {
    spark.range(1).count() // starts the session of Spark
    var current = StatusNow(state(table(1, "a.b")), Map(1L -> queued), read = 7, Nil)
    val source = new JobSource("one", () => current)
    val other = new JobSource("one_more", () => current)
    try {
      assert(registered("one")("readLsn") == 7L)
      assert(registered("one")("slotRetainedBytes").asInstanceOf[Double].isNaN)
      source.update()
      assert(registered("one")("table.public__aZ2eZb.queueBytes") == 100L)
      current = current.copy(state = state(table(2, "c")), shown = Map.empty)
      Thread.sleep(1100) // what sinks get is a second old at most
      source.update()
      assert(registered("one")("table.public__c.state") == 0)
      assert(!registered("one").keys.exists(_.contains("aZ2eZb")))
    } finally source.close()
    assert(registered("one").isEmpty)
    assert(registered("one_more")("readLsn") == 7L, "the name of its slot begins like the other's")
    other.close()
  }

  test("a job gets the names of an earlier job of its slot when that one has ended") {
    spark.range(1).count() // starts the session of Spark
    def source(read: Long) = {
      val now = StatusNow(state(table(1, "a")), Map(1L -> queued), read, Nil)
      new JobSource("again", () => now)
    }
    val earlier = source(read = 7)
    earlier.update()
    val later = source(read = 8)
    try {
      later.update()
      assert(registered("again")("readLsn") == 7L)
      earlier.close()
      later.update()
      assert(registered("again")("readLsn") == 8L)
      assert(registered("again")("table.public__a.queueBytes") == 100L)
    } finally later.close()
    assert(registered("again").isEmpty)
  }

  private def inFolder(body: Path => Unit): Unit = {
    val folder = Files.createTempDirectory("status")
    try body(folder)
    finally
      Files.walk(folder).sorted(java.util.Comparator.reverseOrder[Path]).forEach(Files.delete(_))
  }

  test("a status file is replaced as a whole") {
    inFolder { folder =>
      val path = folder.resolve("new/status.json")
      val file = new StatusFile(path.toString)
      file.check()
      file.write("one")
      file.write("two")
      assert(Files.readString(path) == "two")
      assert(Files.list(path.getParent).count() == 1)
    }
  }

  test("a status file that cannot be written is refused") {
    inFolder { folder =>
      Files.writeString(folder.resolve("file"), "")
      for (wrong <- Seq(folder, folder.resolve("file/status.json")))
        assert(intercept[LakeException](new StatusFile(wrong.toString).check()).getMessage
          .contains("which the job cannot write"))
    }
  }
}
