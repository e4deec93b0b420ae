package io.sparkpgoutput.lake.folder

import java.nio.charset.StandardCharsets.UTF_8
import java.time.Instant
import java.util.IdentityHashMap

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.types.{DataType, StructType}

import com.fasterxml.jackson.core.{JsonProcessingException, StreamReadFeature}
import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.util.RawValue
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{
  Leaf,
  MirroredTable,
  ReplicaIdentity,
  SourceTable,
  TableColumn,
  TableMode,
  TableShape
}
import io.sparkpgoutput.lake.core.{
  FormerDefinition,
  JobState,
  NextDefinition,
  TableState,
  TableStatus
}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.types.registry.TypeRegistry

import JsonFile.{JsonFields, fields}

/**
 * The state of a job as JSON, `state/<epoch>.json` of its checkpoint folder. `docs/protocol.md` has each
 * field.
 *
 * Every later version of this library reads what this one writes. If it writes a field that this version
 * would lose or misunderstand, it writes a greater format version too, which this version refuses.
 */
private[folder] object StateFormat {

  /** The greatest format version that is read. */
  final val Version = 2

  /** An older version of this library would not hide columns, so it must not read a state that has some. */
  private def version(state: JobState): Int = {
    val tables = state.tables.values.flatMap(table => table.table +: table.next.map(_.table).toSeq)
    if (tables.exists(_.source.hidden.nonEmpty)) Version else 1
  }

  /** The mode of a mirror that keeps deleted rows. */
  final private val Marking = "marking"

  /**
   * Writes the states of a process. A definition is large and seldom changes, so its text is kept for the next state.
   *
   * @param name identifies the process, because two processes can write the same state
   */
  final class StateWriter(name: String) {
    private var texts = new IdentityHashMap[MirroredTable, RawValue]

    def write(state: JobState): Array[Byte] = synchronized {
      val before = texts
      texts = new IdentityHashMap
      def text(table: MirroredTable) = {
        val text = Option(before.get(table)).getOrElse(JsonFile.text(definition(table)))
        texts.put(table, text)
        text
      }
      JsonFile.write(
        "version" -> version(state),
        "writer" -> name,
        "job" -> state.id,
        "systemIdentifier" -> state.systemIdentifier,
        "timeline" -> state.timeline,
        "serverStarted" -> state.serverStarted,
        "database" -> state.database,
        "slot" -> state.slot,
        "publications" -> state.publications.asJava,
        "target" -> state.target,
        "format" -> state.format,
        "infinity" -> state.infinity,
        "moneyScale" -> state.moneyScale,
        "confirmed" -> Lsn.format(state.confirmed),
        "startedFor" -> Option.when(state.startedFor.nonEmpty)(state.startedFor.asJava),
        "tables" -> state.tables.values.toSeq.sortBy(_.oid).map(table(_, text)).asJava
      )
    }
  }

  private def damaged(file: String)(problem: String) =
    new LakeException("PGOUTPUT_CHECKPOINT_LOST.DAMAGED", "file" -> file, "problem" -> problem)

  /** @param file the name of the file, for errors */
  def read(file: String, content: Array[Byte]): JobState =
    JsonFile.read(file, content, damaged(file)) { job =>
      checkVersion(job, Version)
      JobState(
        id = job.text("job"),
        systemIdentifier = job.text("systemIdentifier"),
        timeline = job.int("timeline"),
        database = job.text("database"),
        slot = job.text("slot"),
        publications = job.texts("publications"),
        target = job.text("target"),
        format = job.text("format"),
        infinity = job.text("infinity"),
        moneyScale = job.int("moneyScale"),
        confirmed = job.lsn("confirmed"),
        tables = job.seq("tables").map(table(_)).map(table => table.oid -> table).toMap,
        startedFor = job.optional("startedFor")(_.texts).getOrElse(Nil),
        serverStarted = job.optional("serverStarted")(_.text)
      )
    }

  /** Refuses a file whose format this version does not know. */
  def checkVersion(file: JsonFields, newest: Int): Unit = {
    val version = file.int("version")
    if (version > newest)
      throw new LakeException(
        "PGOUTPUT_CHECKPOINT_VERSION.JOB_FILE",
        "file" -> file.file,
        "found" -> version,
        "known" -> newest
      )
    if (version < 1) throw file.malformed(s"It has the version $version.")
  }

  /** A name as two fields: both parts can have dots. */
  def nameFields(name: TableName): Seq[(String, Any)] =
    Seq("schema" -> name.namespace, "table" -> name.name)

  def name(of: JsonFields): TableName = TableName(of.text("schema"), of.text("table"))

  private def table(state: TableState, definition: MirroredTable => RawValue) = fields(
    "oid" -> state.oid,
    "target" -> state.target,
    "generation" -> state.generation,
    "status" -> status(state.status),
    "number" -> state.number,
    "definition" -> definition(state.table),
    "formerNames" -> state.formerNames.asJava,
    "next" -> state.next.map(next(_, definition)),
    "copyReason" -> state.copyReason,
    "former" -> state.former.map(former =>
      fields(
        "generation" -> former.generation,
        "definition" -> definition(former.table),
        "renamed" -> Option.when(former.renamed.nonEmpty)(former.renamed.asJava)
      )
    ),
    "mark" -> state.mark.map(Lsn.format(_)),
    "lastChange" -> state.lastChange.map(_.toString)
  )

  private def table(of: JsonFields): TableState = {
    val (oid, target) = (of.long("oid"), of.text("target"))
    TableState(
      table = definition(oid, target, of.fields("definition")),
      status = status(of.fields("status")),
      number = of.int("number"),
      next = of.optional("next")(_.fields).map(next(oid, _)),
      formerNames = of.textMap("formerNames"),
      generation = of.int("generation"),
      mark = of.optional("mark")(_.lsn),
      lastChange = of.optional("lastChange")(_.instant),
      copyReason = of.optional("copyReason")(_.text),
      former = of.optional("former")(_.fields).map(former =>
        FormerDefinition(
          definition(oid, target, former.fields("definition")),
          former.int("generation"),
          former.optional("renamed")(_.textsByOid).fold(Map.empty[Int, String])(_.map {
            case (number, name) => number.toInt -> name
          })
        )
      )
    )
  }

  private def status(status: TableStatus) = fields(
    ("name" -> status.name) +: (status match {
      case TableStatus.Copying(reason, lsn) =>
        Seq("reason" -> reason, "lsn" -> lsn.map(Lsn.format(_)))
      case TableStatus.Failed(reason, since, needsCopy, isLasting) => Seq(
          "reason" -> reason,
          "since" -> since.toString,
          "needsCopy" -> needsCopy,
          "isLasting" -> isLasting
        )
      case TableStatus.Live | TableStatus.Dropped | TableStatus.Excluded => Nil
    }): _*
  )

  private def status(of: JsonFields): TableStatus = of.word("name") {
    case "copying" => Some(TableStatus.Copying(of.text("reason"), of.optional("lsn")(_.lsn)))
    case "live"    => Some(TableStatus.Live)
    case "failed" => Some(TableStatus.Failed(
        of.text("reason"),
        of.instant("since"),
        of.boolean("needsCopy"),
        of.boolean("isLasting")
      ))
    case "dropped"  => Some(TableStatus.Dropped)
    case "excluded" => Some(TableStatus.Excluded)
    case _          => None
  }

  /** The next definition belongs to the same table, but its name in the target can be another one. */
  private def next(next: NextDefinition, definition: MirroredTable => RawValue) = fields(
    "target" -> next.table.target,
    "definition" -> definition(next.table),
    "formerNames" -> next.formerNames.asJava
  )

  private def next(oid: Long, of: JsonFields): NextDefinition = NextDefinition(
    definition(oid, of.text("target"), of.fields("definition")),
    of.textMap("formerNames")
  )

  private def column(column: TableColumn) = fields(
    "number" -> column.number,
    "name" -> column.name,
    "type" -> column.typeId,
    "modifier" -> column.modifier,
    "version" -> column.version,
    "hasMissing" -> column.hasMissing,
    "hash" -> column.hash
  )

  private def column(of: JsonFields): TableColumn = TableColumn(
    number = of.int("number"),
    name = of.text("name"),
    typeId = of.long("type"),
    modifier = of.int("modifier"),
    version = of.long("version"),
    hasMissing = of.boolean("hasMissing"),
    hash = of.optional("hash")(_.text)
  )

  private def definition(table: MirroredTable) = {
    val source = table.source
    fields(
      nameFields(source.name) ++ Seq(
        "columns" -> source.columns.map(column(_)).asJava,
        "excluded" -> unlessEmpty(source.excluded.map(column(_))),
        "unsent" -> source.unsent.asJava,
        "key" -> source.key.asJava,
        "identity" -> source.identity.code.toString,
        "publish" -> source.publish.asJava,
        "rowFilter" -> source.rowFilter,
        "fileNode" -> source.fileNode,
        "isPartitioned" -> source.isPartitioned,
        "leaves" -> source.leaves.map(leaf(_)).asJava,
        "horizon" -> source.horizon,
        "memberships" -> source.memberships.asJava,
        "publicationVersions" -> source.publications.asJava,
        "attributes" -> source.attributes,
        "sparkSchema" -> new RawValue(table.schema.json),
        "types" -> table.types.declarations.asJava,
        // A release that does not know the word of a mode would delete rows.
        "mode" -> (if (table.mode == TableMode.Marking) Marking else table.mode.name),
        "historyPrefix" -> table.mode.parts.collectFirst { case TableMode.History(prefix) =>
          prefix
        },
        "mirror" -> Option.when(table.marks && table.mode != TableMode.Marking)(Marking),
        "partition" -> unlessEmpty(table.shape.partition.map(_.sql)),
        "cluster" -> unlessEmpty(table.shape.cluster)
      ): _*
    )
  }

  private def unlessEmpty[A](list: Seq[A]) = Option.when(list.nonEmpty)(list.asJava)

  private def leaf(leaf: Leaf) = fields(
    "oid" -> leaf.oid,
    "schema" -> leaf.name.namespace,
    "table" -> leaf.name.name,
    "fileNode" -> leaf.fileNode,
    "identity" -> leaf.identity.code.toString,
    "attached" -> leaf.attached,
    "links" -> leaf.links,
    "isLogged" -> leaf.isLogged
  )

  private def definition(oid: Long, target: String, of: JsonFields): MirroredTable = {
    val source = SourceTable(
      oid = oid,
      name = name(of),
      columns = of.seq("columns").map(column(_)),
      unsent = of.longs("unsent").map(_.toInt),
      key = of.texts("key"),
      identity = identity(of),
      publish = of.texts("publish"),
      rowFilter = of.optional("rowFilter")(_.text),
      fileNode = of.long("fileNode"),
      isPartitioned = of.boolean("isPartitioned"),
      leaves = of.seq("leaves").map(leaf =>
        Leaf(
          oid = leaf.long("oid"),
          name = name(leaf),
          fileNode = leaf.long("fileNode"),
          identity = identity(leaf),
          attached = leaf.boolean("attached"),
          links = leaf.text("links"),
          isLogged = leaf.boolean("isLogged")
        )
      ),
      horizon = of.long("horizon"),
      memberships = of.longs("memberships"),
      publications = of.longMap("publicationVersions"),
      attributes = of.int("attributes"),
      excluded = of.optional("excluded")(_.seq).getOrElse(Nil).map(column(_))
    )
    val schema = DataType.fromJson(of.json("sparkSchema")).asInstanceOf[StructType]
    val mode = of.word("mode") {
      case TableMode.Mirror.name   => Some(TableMode.Mirror)
      case Marking                 => Some(TableMode.Marking)
      case TableMode.Versions.name => Some(TableMode.Versions)
      case TableMode.History.name  => Some(TableMode.History(of.text("historyPrefix")))
      case TableMode.Both.name =>
        val history = TableMode.History(of.text("historyPrefix"))
        Some(TableMode.Both(of.optional("mirror")(mirror).getOrElse(TableMode.Mirror), history))
      case _ => None
    }
    val types = TypeRegistry(of.textsByOid("types"))
    MirroredTable(source, target, schema, types, mode, shape = shape(of))
  }

  /** The mode of a mirror that has a history. */
  private def mirror(of: JsonFields)(field: String): TableMode = of.word(field) {
    case Marking => Some(TableMode.Marking)
    case _       => None
  }

  private def shape(of: JsonFields): TableShape = TableShape(
    of.optional("partition")(_.texts).toSeq.flatten.map(text =>
      TableShape.partition(text).flatMap(_.headOption).getOrElse(
        throw of.malformed(s"'$text' is not a field of a partitioning.")
      )
    ),
    of.optional("cluster")(_.texts).getOrElse(Nil)
  )

  private def identity(of: JsonFields): ReplicaIdentity = of.word("identity")(code =>
    ReplicaIdentity.all.find(_.code.toString == code)
  )
}

/** The JSON of the files in the checkpoint folder of a job. */
private[lake] object JsonFile {

  private val mapper = JsonMapper.builder()
    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
    .build()

  /** An object with its fields in this order, without those that are None. */
  def fields(values: (String, Any)*): java.util.Map[String, Any] = {
    val inOrder = new java.util.LinkedHashMap[String, Any]
    values.foreach {
      case (name, value: Option[_]) => value.foreach(inOrder.put(name, _))
      case (name, value)            => inOrder.put(name, value)
    }
    inOrder
  }

  def write(values: (String, Any)*): Array[Byte] =
    (mapper.writeValueAsString(fields(values: _*)) + "\n").getBytes(UTF_8)

  /** The text of a part of a file. */
  def text(part: java.util.Map[String, Any]): RawValue =
    new RawValue(mapper.writeValueAsString(part))

  /**
   * Reads the object in a file.
   *
   * @param damaged
   *   makes the error of a file that is incomplete, or lacks a field, or has a value of another type. It gets
   *   a sentence that says what is wrong.
   */
  def read[A](
      file: String,
      content: Array[Byte],
      damaged: String => Throwable
  )(of: JsonFields => A): A =
    try of(new JsonFields(file, "", mapper.readTree(content)))
    catch {
      case known: LakeException => throw known
      case problem: Malformed   => throw damaged(problem.getMessage)
      case problem: JsonProcessingException =>
        throw damaged(s"It is not JSON: ${problem.getOriginalMessage}.")
      case NonFatal(problem) => throw damaged(s"$problem.")
    }

  final private class Malformed(problem: String) extends Exception(problem)

  /** The fields of an object in a file. A field that is missing or has another type is an error. */
  final class JsonFields(val file: String, path: String, node: JsonNode) {
    if (node == null || !node.isObject) throw damaged(path, "an object")

    def text(name: String): String = value(name, "a text")(_.isTextual).asText
    def long(name: String): Long = longOf(name, value(name, "an integer")(_ => true))
    def int(name: String): Int = value(name, "an integer")(_.isInt).asInt
    def boolean(name: String): Boolean = value(name, "true or false")(_.isBoolean).asBoolean
    def lsn(name: String): Long = parsed(name, "an LSN")(Lsn.parse)
    def instant(name: String): Instant =
      parsed(name, "a time")(text => scala.util.Try(Instant.parse(text)).toOption)

    /** The text of an object, for callers that have their own reader. */
    def json(name: String): String = value(name, "an object")(_.isObject).toString

    def fields(name: String): JsonFields = new JsonFields(file, pathOf(name), node.get(name))

    def seq(name: String): Seq[JsonFields] = elements(name).zipWithIndex.map {
      case (element, index) =>
        new JsonFields(file, s"${pathOf(name)}[$index]", element)
    }

    def texts(name: String): Seq[String] =
      elements(name).map(textOf(name, _, "a list of texts"))

    def longs(name: String): Seq[Long] = elements(name).map(longOf(name, _))

    def textMap(name: String): Map[String, String] =
      entries(name).map { case (key, entry) => key -> textOf(name, entry, "an object of texts") }

    def longMap(name: String): Map[Long, Long] =
      entries(name).map { case (key, entry) => oid(name, key) -> longOf(name, entry) }

    def textsByOid(name: String): Map[Long, String] =
      textMap(name).map { case (key, text) => oid(name, key) -> text }

    /** Reads a field that can be missing. */
    def optional[A](name: String)(read: JsonFields => String => A): Option[A] =
      Option.when(node.has(name))(read(this)(name))

    /** Reads a word, which is one of several. Another word comes from a later version. */
    def word[A](name: String)(of: String => Option[A]): A = {
      val word = text(name)
      of(word).getOrElse(throw new LakeException(
        "PGOUTPUT_CHECKPOINT_VERSION.JOB_FILE_WORD",
        "file" -> file,
        "field" -> pathOf(name),
        "value" -> word
      ))
    }

    private def value(name: String, wanted: String)(fits: JsonNode => Boolean): JsonNode =
      Option(node.get(name)).filter(fits).getOrElse(throw damaged(pathOf(name), wanted))

    private def parsed[A](name: String, wanted: String)(parse: String => Option[A]): A =
      parse(text(name)).getOrElse(throw damaged(pathOf(name), wanted))

    private def elements(name: String): Seq[JsonNode] =
      value(name, "a list")(_.isArray).elements.asScala.toSeq

    private def entries(name: String): Map[String, JsonNode] =
      value(name, "an object")(_.isObject).properties.asScala
        .map(entry => entry.getKey -> entry.getValue).toMap

    private def textOf(name: String, element: JsonNode, wanted: String): String =
      if (element.isTextual) element.asText else throw damaged(pathOf(name), wanted)

    private def longOf(name: String, element: JsonNode): Long = {
      if (!element.isIntegralNumber || !element.canConvertToLong)
        throw damaged(pathOf(name), "made of integers")
      element.asLong
    }

    private def oid(name: String, key: String): Long =
      key.toLongOption.getOrElse(throw damaged(pathOf(name), "an object whose fields are oids"))

    private def pathOf(name: String) = if (path.isEmpty) name else s"$path.$name"

    private def damaged(path: String, wanted: String) =
      malformed(s"${if (path.isEmpty) "It" else s"Its field $path"} is not $wanted.")

    def malformed(problem: String): Throwable = new Malformed(problem)
  }
}
