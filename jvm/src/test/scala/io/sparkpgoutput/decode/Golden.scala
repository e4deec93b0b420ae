package io.sparkpgoutput.decode

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import io.sparkpgoutput.protocol.Fields
import io.sparkpgoutput.protocol.Fields.Fields

/** A message of a real server, its fields, and whether it was in a stream. */
final case class Golden(data: Array[Byte], inStream: Boolean, decoded: Fields)

object Golden {

  /** Messages of every type, of PostgreSQL 14 to 18. */
  lazy val all: Seq[Golden] = {
    val mapper = new ObjectMapper
    Files.readAllLines(Path.of("tests/data/golden.jsonl")).asScala.toSeq.map { line =>
      val json = mapper.readTree(line)
      Golden(
        Fields.unhex(json.get("data").textValue),
        json.get("in_stream").booleanValue,
        Fields.of(json.get("decoded"))
      )
    }
  }
}
