package io.sparkpgoutput.lake.state

import scala.collection.immutable.ListMap
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import io.sparkpgoutput.protocol.Lsn

/** A job's row as JSON. */
private[state] object JobDefinition {
  private val mapper = new ObjectMapper

  def toJson(job: JobState): String = {
    val fields = Seq(
      "id" -> job.id,
      "systemIdentifier" -> job.systemIdentifier,
      "database" -> job.database,
      "slot" -> job.slot,
      "firstLsn" -> Lsn.format(job.firstLsn),
      "end" -> job.end.map(Lsn.format).orNull
    ) ++ Option.when(job.isAnew)("generation" -> job.generation) ++
      Option.when(job.isAnew)("needsSlot" -> job.needsSlot) ++
      job.timeline.map("timeline" -> _)
    mapper.writeValueAsString(ListMap(fields: _*).asJava)
  }

  def fromJson(text: String): JobState = {
    val node = mapper.readTree(text)
    def field(name: String) = node.required(name).asText
    JobState(
      field("id"),
      field("systemIdentifier"),
      field("database"),
      field("slot"),
      Lsn.parse(field("firstLsn")).get,
      Option(node.required("end")).filterNot(_.isNull).flatMap(end => Lsn.parse(end.asText)),
      // The first two versions of the state do not have them.
      generation = node.path("generation").asInt(1),
      needsSlot = node.path("needsSlot").asBoolean(false),
      // Version 4 can lack it.
      timeline = Option(node.path("timeline").asInt(0)).filter(_ > 0)
    )
  }
}
