package io.sparkpgoutput.lake.state

import scala.collection.immutable.ListMap
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types.{DataType, StructType}

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.sparkpgoutput.changes.TableName
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

/** A table's definition as JSON, which the table of the job's state keeps. */
private[state] object TableDefinition {
  private val mapper = new ObjectMapper

  def toJson(state: TableState): String = {
    val source = state.table.source
    json(
      "schema" -> source.name.namespace,
      "table" -> source.name.name,
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
      "publish" -> source.publish.asJava,
      "rowFilter" -> source.rowFilter.orNull,
      "fileNode" -> source.fileNode,
      "isPartitioned" -> source.isPartitioned,
      "leaves" -> source.leaves.map(leaf =>
        fields(Seq(
          "oid" -> leaf.oid,
          "schema" -> leaf.name.namespace,
          "table" -> leaf.name.name,
          "fileNode" -> leaf.fileNode,
          "identity" -> leaf.identity.code.toString,
          "attached" -> leaf.attached
        ) ++ Option.when(leaf.links.nonEmpty)("links" -> leaf.links): _*)
      ).asJava,
      "horizon" -> source.horizon,
      "sparkSchema" -> mapper.readTree(state.table.schema.json),
      "types" -> state.table.types.declarations.map { case (oid, name) =>
        oid.toString -> name
      }.asJava,
      "formerNames" -> state.formerNames.asJava
    )(optional(state))
  }

  /** The fields that the first version of the state did not have. */
  private def optional(state: TableState): Seq[(String, Any)] = Seq(
    state.copied.map("copied" -> Lsn.format(_)),
    Some(state.table.source.memberships).filter(_.nonEmpty).map("memberships" -> _.asJava),
    Some(state.table.source.publications).filter(_.nonEmpty).map("publications" -> _.map {
      case (oid, version) => oid.toString -> version
    }.asJava),
    Some(state.table.source.attributes).filter(_ > 0).map("attributes" -> _),
    Option(state.table.mode).collect { case TableMode.History(prefix) => "historyPrefix" -> prefix }
  ).flatten

  def fromJson(
      oid: Long,
      target: String,
      text: String
  ): (MirroredTable, Map[String, String], Option[Long]) = {
    val node = mapper.readTree(text)
    val source = SourceTable(
      oid = oid,
      name = name(node),
      columns = elements(node, "columns").map(column =>
        SourceColumn(
          number = column.required("number").asInt,
          name = column.required("name").asText,
          typeId = column.required("type").asLong,
          modifier = column.required("modifier").asInt,
          version = column.required("version").asLong,
          hasMissing = column.required("hasMissing").asBoolean
        )
      ),
      unsent = elements(node, "unsent").map(_.asInt),
      key = elements(node, "key").map(_.asText),
      identity = identity(node),
      publish = elements(node, "publish").map(_.asText),
      rowFilter = Option(node.required("rowFilter")).filterNot(_.isNull).map(_.asText),
      fileNode = node.required("fileNode").asLong,
      isPartitioned = node.required("isPartitioned").asBoolean,
      leaves = elements(node, "leaves").map(leaf =>
        Leaf(
          leaf.required("oid").asLong,
          name(leaf),
          leaf.required("fileNode").asLong,
          identity(leaf),
          leaf.required("attached").asBoolean,
          leaf.path("links").asText // the first version of the state does not have it
        )
      ),
      horizon = node.required("horizon").asLong,
      memberships =
        if (node.has("memberships")) elements(node, "memberships").map(_.asLong) else Nil,
      publications =
        if (!node.has("publications")) Map.empty
        else pairs(node, "publications").map { case (oid, version) =>
          oid.toLong -> version.toLong
        },
      attributes = node.path("attributes").asInt
    )
    val schema = DataType.fromJson(node.required("sparkSchema").toString).asInstanceOf[StructType]
    val types = TypeRegistry(pairs(node, "types").map { case (oid, name) => oid.toLong -> name })
    val mode = Option(node.get("historyPrefix")).fold[TableMode](TableMode.Mirror)(prefix =>
      TableMode.History(prefix.asText)
    )
    val copied =
      Option(node.get("copied")).flatMap(lsn => Lsn.parse(lsn.asText))
    (MirroredTable(source, target, schema, types, mode), pairs(node, "formerNames"), copied)
  }

  private def fields(values: (String, Any)*) = ListMap(values: _*).asJava

  /** Writes fields, and others that may be absent. */
  private def json(values: (String, Any)*)(last: Iterable[(String, Any)]) =
    mapper.writeValueAsString(fields(values ++ last: _*))

  private def name(node: JsonNode) =
    TableName(node.required("schema").asText, node.required("table").asText)

  private def identity(node: JsonNode) =
    ReplicaIdentity.of(node.required("identity").asText.head)

  private def elements(node: JsonNode, field: String) =
    node.required(field).elements.asScala.toSeq

  private def pairs(node: JsonNode, field: String): Map[String, String] =
    node.required(field).fields.asScala.map(entry => entry.getKey -> entry.getValue.asText).toMap
}
