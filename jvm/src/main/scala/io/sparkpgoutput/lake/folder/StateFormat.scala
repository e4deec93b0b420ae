package io.sparkpgoutput.lake.folder

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types.{DataType, StructType}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.core.{JobState, NextDefinition, TableState, TableStatus}
import io.sparkpgoutput.lake.table.{
  Leaf,
  MirroredTable,
  ReplicaIdentity,
  SourceColumn,
  SourceTable,
  TableMode
}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.types.registry.TypeRegistry

import JsonFile.{Fields, fields}

/**
 * The state of a job as JSON, `state/<epoch>.json` of its checkpoint folder. `docs/protocol.md` has each
 * field.
 *
 * Every later version of this library reads what this one writes. If it writes a field that this version
 * would lose or misunderstand, it writes a greater format version too, which this version refuses.
 */
private[folder] object StateFormat {

  /** The format version that is written, and the greatest that is read. */
  final val Version = 1

  /** @param writer tells processes apart that write the same state */
  def write(state: JobState, writer: String): Array[Byte] = JsonFile.write(
    "version" -> Version,
    "writer" -> writer,
    "job" -> state.id,
    "systemIdentifier" -> state.systemIdentifier,
    "timeline" -> state.timeline,
    "database" -> state.database,
    "slot" -> state.slot,
    "publications" -> state.publications.asJava,
    "target" -> state.target,
    "format" -> state.format,
    "told" -> Lsn.format(state.told),
    "tables" -> state.tables.values.toSeq.sortBy(_.oid).map(table(_)).asJava
  )

  /** @param file the name of the file, for errors */
  def read(file: String, content: Array[Byte]): JobState =
    JsonFile.read(file, content, FolderError.damaged(file, _)) { job =>
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
        told = job.lsn("told"),
        tables = job.seq("tables").map(table(_)).map(table => table.oid -> table).toMap
      )
    }

  /** Refuses a file whose format this version does not know. */
  def checkVersion(file: Fields, known: Int): Unit = {
    val found = file.int("version")
    if (found > known) throw FolderError.version(file.file, found, known)
    if (found < 1) throw file.malformed(s"It has the version $found.")
  }

  /** A name as two fields: both parts can have dots. */
  def nameFields(name: TableName): Seq[(String, Any)] =
    Seq("schema" -> name.namespace, "table" -> name.name)

  def name(of: Fields): TableName = TableName(of.text("schema"), of.text("table"))

  private def table(state: TableState) = fields(
    Seq(
      "oid" -> state.oid,
      "target" -> state.target,
      "generation" -> state.generation,
      "status" -> status(state.status),
      "number" -> state.number,
      "definition" -> definition(state.table),
      "formerNames" -> state.formerNames.asJava
    ) ++ state.next.map("next" -> next(_))
      ++ state.mark.map("mark" -> Lsn.format(_))
      ++ state.lastChange.map("lastChange" -> _.toString): _*
  )

  private def table(of: Fields): TableState = {
    val (oid, target) = (of.long("oid"), of.text("target"))
    TableState(
      table = definition(oid, target, of.fields("definition")),
      status = status(of.fields("status")),
      number = of.int("number"),
      next = of.optional("next")(_.fields).map(next(oid, _)),
      formerNames = of.textMap("formerNames"),
      generation = of.int("generation"),
      mark = of.optional("mark")(_.lsn),
      lastChange = of.optional("lastChange")(_.instant)
    )
  }

  private def status(status: TableStatus) = fields(
    ("name" -> status.name) +: (status match {
      case TableStatus.Copying(reason, lsn) =>
        Seq("reason" -> reason) ++ lsn.map("lsn" -> Lsn.format(_))
      case TableStatus.Failed(reason, since, needsCopy, isLasting) => Seq(
          "reason" -> reason,
          "since" -> since.toString,
          "needsCopy" -> needsCopy,
          "isLasting" -> isLasting
        )
      case TableStatus.Live | TableStatus.Dropped => Nil
    }): _*
  )

  private def status(of: Fields): TableStatus = of.word("name") {
    case "copying" => Some(TableStatus.Copying(of.text("reason"), of.optional("lsn")(_.lsn)))
    case "live"    => Some(TableStatus.Live)
    case "failed" => Some(TableStatus.Failed(
        of.text("reason"),
        of.instant("since"),
        of.boolean("needsCopy"),
        of.boolean("isLasting")
      ))
    case "dropped" => Some(TableStatus.Dropped)
    case _         => None
  }

  /** The next definition is that of the same table, but its name in the target can be another one. */
  private def next(next: NextDefinition) = fields(
    "target" -> next.table.target,
    "definition" -> definition(next.table),
    "formerNames" -> next.formerNames.asJava
  )

  private def next(oid: Long, of: Fields): NextDefinition = NextDefinition(
    definition(oid, of.text("target"), of.fields("definition")),
    of.textMap("formerNames")
  )

  private def definition(table: MirroredTable) = {
    val source = table.source
    fields(
      nameFields(source.name) ++ Seq(
        "columns" -> source.columns.map(column =>
          fields(
            "number" -> column.number,
            "name" -> column.name,
            "type" -> column.typeId,
            "modifier" -> column.modifier,
            "version" -> column.version,
            "hasMissing" -> column.hasMissing
          )
        ).asJava,
        "unsent" -> source.unsent.asJava,
        "key" -> source.key.asJava,
        "identity" -> source.identity.code.toString,
        "publish" -> source.publish.asJava
      ) ++ source.rowFilter.map("rowFilter" -> _) ++ Seq(
        "fileNode" -> source.fileNode,
        "isPartitioned" -> source.isPartitioned,
        "leaves" -> source.leaves.map(leaf =>
          fields(
            Seq("oid" -> leaf.oid) ++ nameFields(leaf.name) ++ Seq(
              "fileNode" -> leaf.fileNode,
              "identity" -> leaf.identity.code.toString,
              "attached" -> leaf.attached,
              "links" -> leaf.links,
              "isLogged" -> leaf.isLogged
            ): _*
          )
        ).asJava,
        "horizon" -> source.horizon,
        "memberships" -> source.memberships.asJava,
        "publicationVersions" -> source.publications
          .map { case (oid, version) => oid.toString -> version }.asJava,
        "attributes" -> source.attributes,
        "sparkSchema" -> JsonFile.tree(table.schema.json),
        "types" -> table.types.declarations
          .map { case (oid, declaration) => oid.toString -> declaration }.asJava,
        "mode" -> table.mode.name
      ) ++ Option(table.mode).collect { case TableMode.History(prefix) =>
        "historyPrefix" -> prefix
      }: _*
    )
  }

  private def definition(oid: Long, target: String, of: Fields): MirroredTable = {
    val source = SourceTable(
      oid = oid,
      name = name(of),
      columns = of.seq("columns").map(column =>
        SourceColumn(
          number = column.int("number"),
          name = column.text("name"),
          typeId = column.long("type"),
          modifier = column.int("modifier"),
          version = column.long("version"),
          hasMissing = column.boolean("hasMissing")
        )
      ),
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
      attributes = of.int("attributes")
    )
    val schema = DataType.fromJson(of.json("sparkSchema")).asInstanceOf[StructType]
    val mode = of.word("mode") {
      case TableMode.Mirror.name  => Some(TableMode.Mirror)
      case TableMode.History.name => Some(TableMode.History(of.text("historyPrefix")))
      case _                      => None
    }
    MirroredTable(source, target, schema, TypeRegistry(of.textsByOid("types")), mode)
  }

  private def identity(of: Fields): ReplicaIdentity = of.word("identity")(code =>
    ReplicaIdentity.all.find(_.code.toString == code)
  )
}
