package io.sparkpgoutput.lake.state

import scala.collection.immutable.ListMap
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import io.sparkpgoutput.protocol.Lsn

/** A job's row as JSON. */
private[state] object JobDefinition {
  private val mapper = new ObjectMapper

  def toJson(job: JobState): String = mapper.writeValueAsString(
    ListMap(
      "id" -> job.id,
      "systemIdentifier" -> job.systemIdentifier,
      "database" -> job.database,
      "slot" -> job.slot,
      "firstLsn" -> Lsn.format(job.firstLsn),
      "end" -> job.end.map(Lsn.format).orNull
    ).asJava
  )

  def fromJson(text: String): JobState = {
    val node = mapper.readTree(text)
    def field(name: String) = node.required(name).asText
    JobState(
      field("id"),
      field("systemIdentifier"),
      field("database"),
      field("slot"),
      Lsn.parse(field("firstLsn")).get,
      Option(node.required("end")).filterNot(_.isNull).flatMap(end => Lsn.parse(end.asText))
    )
  }
}
