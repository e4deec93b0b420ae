package io.sparkpgoutput.lake.folder

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.time.Instant

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types.{LongType, StringType, StructType}

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog._
import io.sparkpgoutput.lake.core.{
  FormerDefinition,
  JobState,
  NextDefinition,
  TableState,
  TableStatus
}
import io.sparkpgoutput.types.registry.TypeRegistry

class StateFormatSuite extends PropertySuite {
  private val golden = Path.of("jvm/src/test/resources/lake/state-v1.json")

  private val source = SourceTable(
    oid = 16385,
    name = TableName("other \"schema", "order.lines"),
    columns = Seq(
      TableColumn(1, "id", 20, -1, 738, hasMissing = false),
      TableColumn(3, "größe", 16390, -1, 741, hasMissing = true)
    ),
    unsent = Seq(4),
    key = Seq("id"),
    identity = ReplicaIdentity.Full,
    publish = Seq("insert", "update"),
    rowFilter = Some("(id > 3)"),
    fileNode = 16385,
    isPartitioned = true,
    leaves =
      Seq(Leaf(
        16400,
        TableName("public", "low"),
        16401,
        ReplicaIdentity.Index,
        true,
        "738 739",
        false
      )),
    horizon = 745,
    memberships = Seq(16393),
    publications = Map(16392L -> 743L),
    attributes = 4
  )

  private val mirrored = MirroredTable(
    source,
    "order_lines",
    new StructType().add("id", LongType).add("größe", StringType),
    TypeRegistry(Map(16390L -> "enum")),
    TableMode.History("_")
  )

  private val failed = TableState(
    mirrored,
    TableStatus.Failed(
      "The value 'infinity' has no place in the target.",
      Instant.parse("2026-11-22T13:12:25.247123Z"),
      needsCopy = false,
      isLasting = true
    ),
    number = 2,
    next = Some(NextDefinition(mirrored.copy(mode = TableMode.Mirror), Map("size" -> "größe"))),
    formerNames = Map("state" -> "status"),
    generation = 3,
    mark = Some(0x1781be8L),
    lastChange = Some(Instant.parse("2026-11-22T13:12:25Z"))
  )

  private def other(oid: Long, status: TableStatus) = TableState(
    MirroredTable(
      source.copy(oid = oid, name = TableName("public", s"t$oid"), rowFilter = None, leaves = Nil),
      s"t$oid",
      new StructType().add("id", LongType),
      TypeRegistry()
    ),
    status
  )

  /** A state with each field and each status of the first release. */
  private val full = Seq(
    failed,
    other(16500, TableStatus.Copying("The table is new.", Some(-1L))),
    other(16501, TableStatus.Copying("The table is new.")),
    other(16502, TableStatus.Live),
    other(16503, TableStatus.Dropped)
  ).foldLeft(JobState(
    "198348ad-b2eb-4c1f-80b1-3fd46e32532d",
    "7710982159958800053",
    2,
    "postgres",
    "lake",
    Seq("all", "tables \"of\" late"),
    "lake.db",
    "iceberg",
    0x16b374d848L
  ))(_.put(_))

  /** A state with a shape, which came later. An older version can lose it. */
  private val shaped = {
    val table = other(16505, TableStatus.Live)
    val shape = TableShape(TableShape.partition("days(`größe`), bucket(16, id)").get, Seq("id"))
    full.put(table.copy(table = table.table.copy(shape = shape)))
  }

  /** A state with a request that came later. An older version can lose it. */
  private val asked =
    full.put(other(16506, TableStatus.Live).copy(copyReason = Some("A resync was requested.")))

  /** A state with a table that is copied. An older version can lose what its rows were before. */
  private val again = {
    val table = other(16507, TableStatus.Copying("A resync was requested.", Some(-1L)))
    val former = table.table.copy(source = source.copy(oid = 16507))
    full.put(table.copy(former = Some(FormerDefinition(former, 3, Map(2 -> "größe")))))
  }

  /** A state of a job that has started over. An older version can lose its requests and the start of the server. */
  private val startedOver =
    full.copy(startedFor = Seq("1", "2"), serverStarted = Some("2026-11-25 12:34:56.789+00"))

  private val whole = Set("formerNames", "renamed", "types", "publicationVersions", "sparkSchema")

  /** It keeps the texts of definitions from one test to the next. */
  private val writer = new StateFormat.StateWriter("w")

  private def written(state: JobState) = writer.write(state)
  private def text(state: JobState) = new String(written(state), UTF_8)
  private def read(text: String) = StateFormat.read("s3a://b/state/1.json", text.getBytes(UTF_8))

  /** Writes the full state with a change of its JSON. */
  private def changed(change: ObjectNode => Any): String = {
    val root = new ObjectMapper().readTree(written(full)).asInstanceOf[ObjectNode]
    change(root): Unit
    root.toString
  }

  private def table(root: ObjectNode) = root.withArray("tables").get(0).asInstanceOf[ObjectNode]

  test("what is read is what was written") {
    forAll(RandomState.state)(state => assert(StateFormat.read("f", written(state)) == state))
    Seq(full, full.copy(confirmed = 7), shaped, again, startedOver, full).foreach(state =>
      assert(read(text(state)) == state)
    )
  }

  test("the state that version 1 wrote is read by every later version") {
    assert(StateFormat.read("f", Files.readAllBytes(golden)) == full)
  }

  test("a state without hidden columns is written as version 1 wrote it") {
    val mapper = new ObjectMapper
    assert(mapper.readTree(text(full)) == mapper.readTree(golden.toFile))
  }

  /** A state with a table that hides columns. */
  private val hiding = {
    val hidden = source.copy(oid = 16504)
      .hiding(_.name == "größe", _ => Some("0123456789abcdef"))
    full.put(other(16504, TableStatus.Live).copy(table = mirrored.copy(source = hidden)))
  }

  test("older versions refuse a state with hidden columns, which they would show") {
    assert(new ObjectMapper().readTree(text(hiding)).get("version").asInt == StateFormat.Version)
    assert(read(text(hiding)) == hiding)
  }

  test("a status that came later has its own name, which older versions refuse") {
    val excluded = full.put(other(16504, TableStatus.Excluded))
    assert(text(excluded).contains("\"status\":{\"name\":\"excluded\"}"))
    assert(read(text(excluded)) == excluded)
  }

  test("a table has the shape that the options gave it") {
    assert(text(shaped).contains("\"partition\":[\"days(`größe`)\",\"bucket(16, id)\"]"))
    assert(read(text(shaped)) == shaped)
    isDamaged(text(shaped).replace("bucket(16, id)", "bucket(16"))
  }

  /** A state with a table that has a history and a mirror, which keeps deleted rows. */
  private val both = {
    val mode = TableMode.Both(TableMode.Marking, TableMode.History("cdc_"))
    val table = other(16506, TableStatus.Live)
    full.put(table.copy(table = table.table.copy(mode = mode)))
  }

  test("a mirror with a history has its own mode, which older versions refuse") {
    val words = "\"mode\":\"both\",\"historyPrefix\":\"cdc_\",\"mirror\":\"marking\""
    assert(text(both).contains(words))
    assert(read(text(both)) == both)
    // `ahead` is not written, because each start reads the marks of both tables in the target.
    assert(read(text(full.put(both.tables(16506).copy(ahead = Some(7L))))) == both)
  }

  test("a greater version is an error that names the file") {
    val error = intercept[LakeException](read(changed(_.put("version", 3))))
    assert(error.getCondition == "PGOUTPUT_CHECKPOINT_VERSION")
    assert(
      error.getMessage.contains("s3a://b/state/1.json") && error.getMessage.contains("version 3")
    )
  }

  test("a status, mode or replica identity that is not known is an error, and never a guess") {
    def status(root: ObjectNode) = table(root).get("status").asInstanceOf[ObjectNode]
    def definition(root: ObjectNode) = table(root).get("definition").asInstanceOf[ObjectNode]
    Seq[ObjectNode => Any](
      status(_).put("name", "paused"),
      definition(_).put("mode", "Mirror"),
      definition(_).put("identity", "full")
    ).foreach { change =>
      val error = intercept[LakeException](read(changed(change)))
      assert(error.getCondition == "PGOUTPUT_CHECKPOINT_VERSION")
      assert(error.getMessage.contains("s3a://b/state/1.json"))
    }
  }

  test("a torn or empty file is an error that says what to do") {
    val whole = text(full)
    (whole.indices by 97).map(whole.take(_)).foreach(torn => isDamaged(torn))
    isDamaged(whole + whole)
    isDamaged("null")
    isDamaged("\u0000" * 100)
  }

  test("a field that is missing, or has another type, is an error") {
    val optional = Set("next", "mark", "lastChange", "rowFilter", "lsn")
    // Objects whose fields are names or oids, and the schema of Spark, have no fields of this format.
    def objects(node: JsonNode): Seq[ObjectNode] = node match {
      case found: ObjectNode => found +: found.properties.asScala.toSeq
          .filterNot(entry => whole(entry.getKey)).flatMap(entry => objects(entry.getValue))
      case other => other.elements.asScala.toSeq.flatMap(objects(_))
    }
    val root = new ObjectMapper().readTree(written(full))
    for (found <- objects(root); field <- found.fieldNames.asScala.toList if field != "writer") {
      val value = found.remove(field)
      withClue(s"$field in $found: ") {
        if (optional(field)) read(root.toString): Unit
        else intercept[LakeException](read(root.toString)): Unit
        found.putNull(field)
        intercept[LakeException](read(root.toString))
        found.put(field, 0.5)
        intercept[LakeException](read(root.toString))
      }
      found.set[JsonNode](field, value)
    }
    assert(read(root.toString) == full)
  }

  test("a number that is too large, an invalid LSN or time, or a repeated field is an error") {
    isDamaged(changed(table(_).put("oid", new java.math.BigInteger("9" * 30))))
    isDamaged(changed(table(_).put("generation", Long.MaxValue)))
    isDamaged(changed(table(_).put("mark", "16/B374D848 ")))
    isDamaged(changed(table(_).put("lastChange", "yesterday")))
    isDamaged(changed(_.put("confirmed", 12)))
    isDamaged(text(full).replaceFirst("\"timeline\"", "\"confirmed\" : \"0/0\", \"timeline\""))
  }

  private def isDamaged(text: String) = {
    val error = intercept[LakeException](read(text))
    assert(error.getCondition == "PGOUTPUT_CHECKPOINT_LOST", error.getMessage)
    assert(error.getMessage.contains("s3a://b/state/1.json"))
    assert(error.getMessage.contains("spark-pgoutput resync --all"))
  }

  test("the page of the protocol has the fields of the state, and no others") {
    def fields(node: JsonNode, path: String): Set[String] = node match {
      case found: ObjectNode => found.properties.asScala.toSet.flatMap {
          entry: java.util.Map.Entry[String, JsonNode] =>
            val name = if (path.isEmpty) entry.getKey else s"$path.${entry.getKey}"
            if (whole(entry.getKey)) Set(name)
            else Set(name) ++ fields(entry.getValue, name)
        }
      case list if list.isArray =>
        list.elements.asScala.toSet.flatMap((element: JsonNode) =>
          if (element.isObject) fields(element, s"$path[]") else Set.empty[String]
        )
      case _ => Set.empty
    }
    val mapper = new ObjectMapper
    val definitions = Seq("tables[].next.definition.", "tables[].former.definition.")
    val all =
      Seq(hiding, shaped, both, asked, again, startedOver).flatMap(state =>
        fields(mapper.readTree(written(state)), "")
      ).toSet
    val (same, others) = all.partition(field => definitions.exists(field.startsWith(_)))
    val page = Files.readString(Path.of("docs/protocol.md"))
    val documented = page.linesIterator.dropWhile(_ != "## The state").drop(1)
      .takeWhile(!_.startsWith("## "))
      .flatMap("""^\| `([^`]+)` \|""".r.findFirstMatchIn(_).map(_.group(1))).toSeq
    assert(documented.toSet == others && documented.distinct == documented)
    // The page says that the fields of these definitions are those of the definition.
    val definition = others.map(_.stripPrefix("tables[].definition.")) -- others
    val names = definitions.foldLeft(same)((fields, prefix) => fields.map(_.stripPrefix(prefix)))
    assert(names.forall(definition))
  }
}
